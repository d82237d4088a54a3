"""What is lent on a SQLite file: a transaction that its lender ends, whatever is done with it in between."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mainspring.storage.sqlite.connection import GATE
from mainspring.storage.sqlite.lender import AsyncSqlite, SqliteLender

_ENDLESS = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


class Bank:
    """A file, a lender of connections to it, and an independent client."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.lender = SqliteLender(path, 2, durable=False)
        with closing(sqlite3.connect(path)) as client:
            client.execute("PRAGMA journal_mode = WAL")
            client.execute("CREATE TABLE parent (n INTEGER PRIMARY KEY)")
            client.execute("CREATE TABLE effect (n INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")

    def effects(self) -> list[int]:
        """What is committed. Fails if somebody still has the write lock."""
        with closing(sqlite3.connect(self._path, timeout=0, isolation_level=None)) as client:
            client.execute("BEGIN IMMEDIATE")
            return [n for (n,) in client.execute("SELECT n FROM effect ORDER BY n")]

    async def do(self, *statements: str, blocking: bool, fail: bool = False) -> None:
        """Run these in one transaction of the kind."""
        if blocking:
            with self.lender.lend_blocking() as connection:
                for each in statements:
                    connection.execute(each)
                if fail:
                    raise KeyError("undo it")
        else:
            async with self.lender.lend() as tx:
                for each in statements:
                    await tx.execute(each)
                if fail:
                    raise KeyError("undo it")


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[Bank]:
    bank = Bank(str(tmp_path / "bank.db"))
    yield bank
    await bank.lender.close()


both = pytest.mark.parametrize("blocking", [False, True], ids=["coroutine", "plain function"])


@both
@pytest.mark.parametrize(
    "first",
    [
        ("SAVEPOINT a", "INSERT INTO effect VALUES (1)", "RELEASE a"),
        ("-- in one go\nWITH one (n) AS (SELECT 1) INSERT INTO effect SELECT n FROM one",),
        ("/* more */ CREATE TABLE more (n)", "INSERT INTO effect VALUES (1)"),
    ],
    ids=["savepoint", "with", "table"],
)
async def test_whatever_is_written_first_is_within_the_transaction(
    bank: Bank, first: tuple[str, ...], blocking: bool
) -> None:
    with pytest.raises(KeyError):
        await bank.do(*first, blocking=blocking, fail=True)
    assert bank.effects() == []

    await bank.do(*first, blocking=blocking)
    assert bank.effects() == [1]


@both
async def test_who_only_reads_has_no_lock(bank: Bank, blocking: bool) -> None:
    if blocking:
        with bank.lender.lend_blocking() as connection:
            connection.execute("WITH one (n) AS (SELECT 1) SELECT n FROM one").fetchall()
            assert bank.effects() == []
    else:
        async with bank.lender.lend() as tx:
            assert await tx.execute("SELECT 1") == [(1,)]
            assert bank.effects() == []


@both
async def test_what_cannot_be_committed_is_undone_and_nobody_inherits_it(bank: Bank, blocking: bool) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        await bank.do("PRAGMA foreign_keys = 1", "INSERT INTO effect VALUES (1)", blocking=blocking)
    assert bank.effects() == []

    await bank.do("PRAGMA foreign_keys = 0", "INSERT INTO effect VALUES (2)", blocking=blocking)
    assert bank.effects() == [2]


async def test_what_sqlite_has_undone_has_no_successor(bank: Bank) -> None:
    """A handler that catches the error must not have the second half of its work committed alone."""
    await bank.do("INSERT INTO parent VALUES (7)", blocking=True)
    async with _refused(bank, "SQLite has undone the whole transaction") as tx:
        await tx.execute("INSERT INTO effect VALUES (1)")
        with suppress(sqlite3.IntegrityError):
            await tx.execute("INSERT OR ROLLBACK INTO parent VALUES (7)")
        await tx.execute("INSERT INTO effect VALUES (2)")
    assert bank.effects() == []


@asynccontextmanager
async def _refused(bank: Bank, why: str) -> AsyncIterator[AsyncSqlite]:
    """A transaction that must not succeed."""
    with pytest.raises(sqlite3.OperationalError, match=why) as refused:
        async with bank.lender.lend() as tx:
            yield tx
    assert refused.value.sqlite_errorcode == sqlite3.SQLITE_ABORT_ROLLBACK


_ENDS: list[Callable[[sqlite3.Connection], object]] = [
    lambda tx: tx.commit(),
    lambda tx: tx.rollback(),
    lambda tx: tx.execute("COMMIT"),
    lambda tx: tx.execute("rollback"),
    lambda tx: tx.cursor().execute("END TRANSACTION"),
    lambda tx: tx.executescript("SELECT 1"),
    lambda tx: tx.cursor().executescript("SELECT 1"),
    lambda tx: tx.__enter__(),
]


@pytest.mark.parametrize("end", _ENDS, ids=range(len(_ENDS)))
async def test_only_its_lender_ends_it(bank: Bank, end: Callable[[sqlite3.Connection], object]) -> None:
    with bank.lender.lend_blocking() as connection:
        connection.executemany("INSERT INTO effect VALUES (?)", [(1,), (2,)])
        connection.execute("SAVEPOINT a")
        connection.execute("ROLLBACK TO a")
        with pytest.raises(sqlite3.ProgrammingError, match=r"^the transaction of ctx\.tx ends with its handler; "):
            end(connection)
    assert bank.effects() == [1, 2]


async def test_a_connection_that_its_handler_has_closed_is_not_lent_again(bank: Bank) -> None:
    with suppress(sqlite3.ProgrammingError), bank.lender.lend_blocking() as connection:
        connection.close()

    await bank.do("INSERT INTO effect VALUES (1)", blocking=True)
    assert bank.effects() == [1]


async def test_a_fork_undoes_what_it_interrupts(bank: Bank) -> None:
    """Before a fork every connection is closed: what comes after it must not be committed without what came before."""
    async with _refused(bank, "its process was forked") as tx:
        await tx.execute("INSERT INTO effect VALUES (1)")
        _fork()
        await tx.execute("INSERT INTO effect VALUES (2)")
    async with _refused(bank, "its process was forked") as tx:
        await tx.execute("INSERT INTO effect VALUES (3)")
        _fork()
    async with bank.lender.lend() as tx:
        await tx.execute("SELECT 1")
        _fork()  # nothing was lost by it
        await tx.execute("INSERT INTO effect VALUES (4)")

    assert bank.effects() == [4]


def _fork() -> None:
    GATE.before_fork()
    GATE.after_fork()


async def test_statements_of_one_transaction_come_one_after_the_other(bank: Bank) -> None:
    async with bank.lender.lend() as tx:
        await asyncio.gather(*(tx.execute("INSERT INTO effect VALUES (?)", (n,)) for n in range(20)))
    assert bank.effects() == list(range(20))


async def test_no_statement_waits_for_a_thread_of_others(bank: Bank) -> None:
    """Were the threads shared, those who wait for the lock would keep who has it from giving it back."""
    free = threading.Event()
    with ThreadPoolExecutor(1) as crowded:
        asyncio.get_running_loop().set_default_executor(crowded)
        crowded.submit(free.wait, 60)
        try:
            await bank.do("INSERT INTO effect VALUES (1)", blocking=False)
        finally:
            free.set()
    assert bank.effects() == [1]


async def test_what_is_over_is_over(bank: Bank) -> None:
    async with bank.lender.lend() as tx:
        await tx.execute("INSERT INTO effect VALUES (1)")
    with pytest.raises(sqlite3.ProgrammingError, match="this transaction has ended"):
        await tx.execute("INSERT INTO effect VALUES (2)")


async def test_who_is_cancelled_while_it_commits_leaves_nothing_to_the_next(bank: Bank) -> None:
    busy, free = threading.Event(), threading.Event()

    async def commit() -> None:
        async with bank.lender.lend() as tx:
            await tx.execute("INSERT INTO effect VALUES (1)")
            behind.append(asyncio.ensure_future(_hold(tx, busy, free)))
            await asyncio.sleep(0)

    behind: list[asyncio.Future[Any]] = []
    committing = asyncio.create_task(commit())
    while not busy.is_set():
        await asyncio.sleep(0)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    following = asyncio.create_task(bank.do("INSERT INTO effect VALUES (2)", blocking=False, fail=True))
    await asyncio.sleep(0)
    free.set()
    with pytest.raises(KeyError):
        await following
    await behind[0]

    assert bank.effects() == [1]  # it was on its way; the other one was not part of it


def _hold(tx: AsyncSqlite, busy: threading.Event, free: threading.Event) -> Any:
    def work(_: object) -> None:
        busy.set()
        free.wait(60)

    return tx.runs.run(work)


async def test_an_endless_statement_ends_with_who_waits_for_it(bank: Bank) -> None:
    begun = asyncio.Event()

    async def count() -> None:
        async with bank.lender.lend() as tx:
            await tx.execute("INSERT INTO effect VALUES (1)")
            begun.set()
            await tx.execute(_ENDLESS)

    counting = asyncio.create_task(count())
    await begun.wait()
    await asyncio.sleep(0)
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting

    assert bank.effects() == []
