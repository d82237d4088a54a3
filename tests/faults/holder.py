"""A process of the fault tests that contends for one lease: `python -m tests.faults.holder PLAN`.

Whoever holds it writes, again and again, what it did under which epoch and when, each in a transaction of its own that
confirms the lease first; with the bug ``unconfirmed`` it does not.
"""

import asyncio
import contextlib
import logging
import os
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg

from mainspring import Lease, Mainspring, SyncLease
from mainspring.model.errors import LeaseLost, StorageUnavailable
from tests.faults.plan import Plan, read_plan

NAME = "the one"
WRITES = 3
_NAP = 0.03
_STEP = 0.01


class Diary:
    """What this process did, a line each, for the judge to read while it goes on."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(Path(folder) / "diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._sign = Path(folder) / f"halt-{os.getpid()}"

    def note(self, what: str, epoch: int) -> None:
        os.write(self._file, f"{what} {epoch} {os.getpid()}\n".encode())

    def is_halted(self) -> bool:
        """Whether the test wants this process to stand still in the middle of its work."""
        return self._sign.exists()


def statement(plan: Plan) -> str:
    """How an effect is written: (epoch, pid, began, ended)."""
    if plan.url.startswith("sqlite"):
        return f"INSERT INTO {plan.schema}_effect (epoch, pid, began, ended) VALUES (?, ?, ?, ?)"
    return f"INSERT INTO {plan.schema}.effect (epoch, pid, began, ended) VALUES (%s, %s, %s, %s)"


class Blocking:
    """Contends in a thread, which nobody can cancel: what is stale has to be refused."""

    def __init__(self, plan: Plan, diary: Diary) -> None:
        self._plan = plan
        self._diary = diary
        self._app = build(plan)
        self._insert = statement(plan)

    def run(self) -> None:
        while True:
            with contextlib.suppress(LeaseLost, StorageUnavailable):
                self._hold()
            time.sleep(random.uniform(0, 0.3))

    def _hold(self) -> None:
        with self._app.sync.leases.hold(NAME, f"{self._plan.claim_time}s", wait=True) as lease:
            self._diary.note("held", lease.epoch)
            for _ in range(WRITES):
                self._write(lease)

    def _write(self, lease: SyncLease) -> None:
        began = time.monotonic()
        time.sleep(_NAP)
        if self._diary.is_halted():
            self._diary.note("halted", lease.epoch)
            while self._diary.is_halted():
                time.sleep(_STEP)
        with self._transaction() as connection:
            if self._plan.bug != "unconfirmed":
                self._confirm(lease, connection)
            connection.execute(self._insert, (lease.epoch, os.getpid(), began, time.monotonic()))

    def _confirm(self, lease: SyncLease, connection: Any) -> None:
        known = lease.lost
        try:
            lease.confirm(tx=connection)
        except LeaseLost:
            self._diary.note("known" if known else "refused", lease.epoch)
            raise

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        if self._plan.url.startswith("sqlite"):
            lite = sqlite3.connect(self._plan.url.removeprefix("sqlite:///"), timeout=30)
            with contextlib.closing(lite), lite:
                yield lite
            return
        with psycopg.connect(self._plan.url) as connection:
            yield connection


async def contend(plan: Plan, diary: Diary) -> None:
    """The same on an event loop, where a lost lease cancels the block."""
    insert = f"INSERT INTO {plan.schema}.effect (epoch, pid, began, ended) VALUES ($1, $2, $3, $4)"
    async with build(plan) as app:
        while True:
            with contextlib.suppress(LeaseLost, StorageUnavailable):
                async with app.leases.hold(NAME, f"{plan.claim_time}s", wait=True) as lease:
                    diary.note("held", lease.epoch)
                    for _ in range(WRITES):
                        await _write(lease, plan, diary, insert)
            await asyncio.sleep(random.uniform(0, 0.3))


async def _write(lease: Lease, plan: Plan, diary: Diary, insert: str) -> None:
    began = time.monotonic()
    await asyncio.sleep(_NAP)
    if diary.is_halted():
        diary.note("halted", lease.epoch)
        while diary.is_halted():
            await asyncio.sleep(_STEP)
    try:
        connection = await asyncpg.connect(plan.url)
        try:
            async with connection.transaction():
                await lease.confirm(tx=connection)
                await connection.execute(insert, lease.epoch, os.getpid(), began, time.monotonic())
        finally:
            connection.terminate()
    except (asyncio.CancelledError, LeaseLost):
        diary.note("told", lease.epoch)
        raise


def build(plan: Plan) -> Mainspring:
    return Mainspring(plan.url, name=plan.app, schema=plan.schema)


def main(plan: Plan) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    diary = Diary(plan.folder)
    if plan.group == "async":
        asyncio.run(contend(plan, diary))
    else:
        Blocking(plan, diary).run()


if __name__ == "__main__":
    main(read_plan(sys.argv[1]))
