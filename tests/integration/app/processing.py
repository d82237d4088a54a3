"""A processor that claims what it finds, says so, and never settles any of it.

python -m tests.integration.app.processing '[URL, SCHEMA]'
"""

import json
import sys

from mainspring import Mainspring


def main(url: str, schema: str) -> None:
    queue = Mainspring(url, name="shop", schema=schema).sync.queue("billing", "orders.*")
    print(len(queue.claim(hold="500ms", owner="doomed")), flush=True)
    sys.stdin.read()  # until it is killed


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
