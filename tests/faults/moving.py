"""A process of a fleet of which one database moves: `python -m tests.faults.moving [ROLE, URLS, STOP]`.

A worker writes an effect for each order in the transaction of its delivery. A mover moves *acme* to *eu-2*, and kills
itself as soon as it says the words that it is to stop at.
"""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing

import psycopg

from mainspring import Context, Fleet, Mainspring, Move
from mainspring.app.fleet import mover

TOPIC = "orders.placed"
TABLES = ("effect", "placed")
"""The application's own: what its handler and its publishers write."""
STOPS = (
    "is prepared",
    "eu-2 is fenced",
    "step pause",
    "is drained",
    "acme is fenced",
    "step copy",
    "rows of delivery",
    "rows of message",
    "on_move has returned",
    "step verify",
    "is alike",
    "step reroute",
    "step resume",
)
"""What a mover says, in this order."""
REROUTED = STOPS[-2:]

# A mover that was killed is succeeded at once.
mover._TTL, mover._WAIT = "2s", "20s"


def fleet_of(urls: Mapping[str, str]) -> Fleet:
    app = Mainspring("fleet://", name="shop", claim_time="2s", grace="1s")

    @app.consumer(TOPIC, transactional=True, concurrency=4, retry="messages")
    async def bill(order: int, ctx: Context) -> None:
        await ctx.tx.execute(f"INSERT INTO effect (number) VALUES ({order:d})")

    async def copy(source: Mainspring, target: Mainspring) -> None:
        await asyncio.to_thread(_copy, urls["acme"], urls["eu-2"])

    return Fleet(app, dict(urls), home="home", on_move=copy, refresh="1s")


def numbers(url: str, table: str) -> list[int]:
    """What is in a table of the application."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as file:
            return [number for (number,) in file.execute(f"SELECT number FROM {table}")]
    with psycopg.connect(url) as server:
        return [number for (number,) in server.execute(f"SELECT number FROM {table}")]


def create(url: str) -> None:
    """Make the tables of the application."""
    for table in TABLES:
        _write(url, f"CREATE TABLE {table} (number integer NOT NULL)")


def _copy(source: str, target: str) -> None:
    """Replace what is in the tables of the target, since a mover before this one may have begun."""
    for table in TABLES:
        found = numbers(source, table)
        values = ", ".join(f"({number:d})" for number in found)
        _write(target, f"DELETE FROM {table}", *([f"INSERT INTO {table} VALUES {values}"] if found else []))


def _write(url: str, *statements: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as file, file:
            for each in statements:
                file.execute(each)
        return
    with psycopg.connect(url) as server:
        for each in statements:
            server.execute(each)


def main(role: str, urls: Mapping[str, str], stop: str) -> None:
    fleet = fleet_of(urls)
    if role == "worker":
        fleet.run(longest_pause="500ms", idle="1s")
        return

    def progress(move: Move, what: str) -> None:
        print(what, flush=True)
        if stop and stop in what:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(fleet.move("acme", to="eu-2", drain="300ms", progress=progress))


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
