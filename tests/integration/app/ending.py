"""A program that ends without closing its app: `python -m tests.integration.app.ending '[URL, SCHEMA, HOW]'`.

It writes whatever is wrong at its end: warnings are errors, and the loop is in debug mode. The app is in a variable of
this module, which is there until the interpreter removes its modules.
"""

import contextlib
import gc
import json
import logging
import os
import sys
import threading
import warnings

from mainspring import Mainspring

apps: list[Mainspring] = []


def main(url: str, schema: str, how: str) -> None:
    os.environ["PYTHONASYNCIODEBUG"] = "1"
    warnings.simplefilter("error")
    logging.getLogger("asyncio").setLevel("ERROR")  # it warns of what takes a tenth of a second, as on a busy machine
    app = Mainspring(url, schema=schema, auto_migrate=True)
    apps.append(app)
    app.sync.publish("orders.placed", {})
    app.sync.messages.list("parked")
    match how:
        case "let go":
            apps.clear()
            del app
            gc.collect()
        case "in a daemon":
            _publish_in_a_daemon(app)
        case "raises":
            raise SystemExit(0)


def _publish_in_a_daemon(app: Mainspring) -> None:
    begun = threading.Event()

    def publish() -> None:
        with contextlib.suppress(BaseException):  # the program ends in the midst of a call
            while True:
                app.sync.publish("orders.placed", {})
                begun.set()

    threading.Thread(target=publish, daemon=True).start()
    begun.wait()


if __name__ == "__main__":
    from tests.integration.app import ending

    ending.main(*json.loads(sys.argv[1]))
