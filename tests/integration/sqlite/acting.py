"""What the tests of the SQLite storage do over and over."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sqlite import SqliteStorage

HOLD = timedelta(seconds=30)


def draft(group: str = "mailer", delay: timedelta = timedelta()) -> Draft:
    return Draft(uuid4(), "orders.placed", b"{}", group=group, delay=delay)


async def claim(storage: SqliteStorage, limit: int = 100, hold: timedelta = HOLD) -> list[Delivery]:
    return await storage.mailbox.claim([ClaimRequest("mailer", limit, ALL_LEVELS)], "worker", hold)


def executing(*statements: str) -> Script[Sequence[Row]]:
    """A script of these statements; the rows of the last one are its answer."""
    rows: Sequence[Row] = ()
    for each in statements:
        rows = yield Statement(each)
    return rows


def asked_aside(path: str, query: str) -> list[Any]:
    """Ask the file on a connection of the test's own."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def python(code: str, *args: str) -> asyncio.subprocess.Process:
    """Start a Python process of its own that runs this code."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
