"""A processor that settles what another one claimed, by the tokens that it is given.

python -m tests.integration.app.settling '[URL, SCHEMA, [TOKEN, …]]'
"""

import json
import sys

from mainspring import Mainspring


def main(url: str, schema: str, tokens: list[str]) -> None:
    app = Mainspring(url, name="shop", schema=schema)
    queue = app.sync.queue("billing", "orders.*")
    items = [queue.item(token) for token in tokens]
    queue.extend(*items)
    queue.ack(*items)
    print(json.dumps([item.payload for item in items]), flush=True)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
