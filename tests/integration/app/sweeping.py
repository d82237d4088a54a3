"""A bulk action that is killed after so many batches.

python -m tests.integration.app.sweeping '[URL, SCHEMA, BATCHES]'
"""

import json
import os
import signal
import sys
from itertools import count

from mainspring import Filter, Mainspring


def main(url: str, schema: str, batches: int) -> None:
    told = count(1)

    def dies(_: int) -> None:
        if next(told) == batches:
            os.kill(os.getpid(), signal.SIGKILL)

    app = Mainspring(url, name="shop", schema=schema)
    app.sync.messages.apply("cancel", Filter("ready", group="ship"), by="ann", progress=dies)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
