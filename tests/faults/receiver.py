"""A process that receives messages, each in a transaction: `python -m tests.faults.receiver [URL, SCHEMA, COUNT, BUG]`.

The sender sends every message to every process. Between letting one in and the commit it says so, and goes on when it
is told to: whoever listens may kill it there.
"""

import json
import sqlite3
import sys
from typing import Any

import psycopg

from mainspring import Mainspring

SOURCE = "sender"
EFFECT = {"postgresql": "INSERT INTO {}_effect (id) VALUES (%s)", "sqlite": "INSERT INTO {}_effect (id) VALUES (?)"}


def connect(url: str) -> Any:
    """The receiver's own connection, which begins by itself and commits when it is told to."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)
    return psycopg.connect(url)


def receive(app: Mainspring, tx: Any, id: str, bug: str) -> bool:
    """Whether this message is to be processed now."""
    if bug == "unasked":
        return True
    admitted = bool(app.sync.inbox.admit(id, SOURCE, tx=tx))
    if bug == "apart":
        tx.commit()
    return admitted


def main(url: str, schema: str, count: int, bug: str) -> None:
    app = Mainspring(url, name="receivers", schema=schema)
    effect = EFFECT[url.partition(":")[0]].format(schema)
    tx = connect(url)
    for number in range(count):
        id = f"evt_{number}"
        if receive(app, tx, id, bug):
            print(f"inside {id}", flush=True)
            sys.stdin.readline()
            tx.execute(effect, (id,))
        tx.commit()
    print("over", flush=True)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
