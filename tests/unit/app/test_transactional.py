"""What ``transactional=`` may be, and with what it cannot go together."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from mainspring import Context, Mainspring
from mainspring.app.transaction.consumers import named
from mainspring.model.errors import BadHandle, BadOption, Misuse

ENGINE = create_engine("sqlite://")
ASYNC = create_async_engine("sqlite+aiosqlite://")


async def handler(n: int) -> None: ...


def plain(n: int) -> None: ...


def _refused(function: Any, **options: Any) -> str:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://").consumer("a", **options)(function)
    return str(refused.value)


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        (handler, 5, "transactional=5 is neither: write True for a connection of the app's own, or a factory of sess"),
        (handler, "nowhere", "transactional='nowhere' is not the alias of a Django database here: write True fo"),
        (handler, sessionmaker(ENGINE), "transactional=sessionmaker blocks, and tests.unit.app.test_transactional.han"),
        (handler, ENGINE.begin, "transactional=Engine.begin blocks, and tests.unit.app.test_transactional.handler i"),
        (plain, async_sessionmaker(ASYNC), "transactional=async_sessionmaker is asyncio's, and tests.unit.app.test_tr"),
        (plain, ASYNC.begin, "transactional=AsyncEngine.begin is asyncio's, and tests.unit.app.test_transactional.pl"),
        (plain, sqlite3.connect(":memory:"), "transactional=Connection is one connection or session, and every attemp"),
    ],
)  # fmt: skip
def test_what_gives_no_transaction_is_refused_where_it_is_written(function: Any, given: Any, said: str) -> None:
    assert _refused(function, transactional=given).startswith(said)


def test_a_process_of_its_own_has_no_transaction() -> None:
    assert _refused(plain, transactional=True, cpu=True) == (
        "tests.unit.app.test_transactional.plain has transactional= and cpu=True, whose processes open no database: "
        "drop one"
    )


def test_nothing_is_transactional_that_runs_without_a_database() -> None:
    def tick() -> None: ...

    app = Mainspring("memory://")
    with pytest.raises(BadOption, match=r"so remove mode='publish', cpu=True and transactional=$"):
        app.recurring("* * * * *", name="tick", offline=True, transactional=True)(tick)


async def _start(app: Mainspring) -> None:
    async with app.worker():
        raise AssertionError("it has started")


def test_memory_has_no_transactions() -> None:
    app = Mainspring("memory://")
    app.consumer("a", transactional=True)(handler)
    with pytest.raises(
        BadOption, match=r"^handler is transactional, and memory:// has no transactions: use sqlite:///"
    ):
        asyncio.run(_start(app))


def test_more_hands_than_connections_are_refused_at_the_start(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/a.db", handler_pool=3)
    app.consumer("a", transactional=True, concurrency=4)(handler)
    with pytest.raises(BadOption) as refused:
        asyncio.run(_start(app))
    assert str(refused.value) == (
        "handler is transactional with concurrency=4, and its handler pool has 3 of them: lower the concurrency, or "
        "raise handler_pool of Mainspring(…)"
    )


def test_a_pool_of_the_users_is_counted_too(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/a.db")
    engine = create_engine(f"sqlite:///{tmp_path}/a.db", pool_size=2, max_overflow=1)
    app.consumer("a", transactional=sessionmaker(engine), concurrency=4)(plain)
    with pytest.raises(BadOption, match=r"concurrency=4, and its handler pool has 3 of them: .* or raise the pool$"):
        asyncio.run(_start(app))


def test_by_default_there_are_as_many_hands_as_connections() -> None:
    app = Mainspring("memory://", handler_pool=7)
    engine = create_engine("sqlite:///a.db", pool_size=2, max_overflow=1)
    app.consumer("a", transactional=True)(handler)
    app.consumer("b", transactional=sessionmaker(engine))(plain)

    assert [each.concurrency for each in app._code.consumers] == [7, 3]


def test_only_a_transactional_consumer_has_a_transaction() -> None:
    app = Mainspring("memory://")

    @app.consumer("a")
    async def ordinary(n: int, ctx: Context) -> None:
        with pytest.raises(Misuse, match=r"^ctx\.tx of ordinary: it is not transactional, write @app\.consumer"):
            print(ctx.tx)

    @app.consumer("b", transactional=True)
    async def moved(n: int, ctx: Context) -> None:
        with pytest.raises(Misuse, match=r"in a test only with app\.testing\(tx=…\), which lends it yours$"):
            print(ctx.tx)
        await ctx.publish("a", n)

    with app.testing() as kit:
        app.sync.publish("b", 1)
        ran = kit.sync.drain()
        assert [(each.group, each.outcome) for each in ran] == [("moved", "done"), ("ordinary", "done")]


def test_a_factory_that_makes_something_else_is_named(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/a.db")

    def oops() -> object:
        return object()

    from mainspring.app.transaction.sources import begun_blocking

    with pytest.raises(BadHandle) as refused, begun_blocking(oops, app._own.place.transactions):
        raise AssertionError("it has begun")
    assert str(refused.value) == (
        "transactional=oops made builtins.object: a plain function needs a session or connection that blocks"
    )


def test_a_conflict_is_found_beneath_what_wraps_it() -> None:
    class Inner(Exception):
        sqlstate = "40P01"

    class Outer(Exception):
        orig = Inner()

    outermost = RuntimeError("it went wrong")
    outermost.__cause__ = Outer()
    assert named(outermost) == "a deadlock: this transaction and another waited for each other"
    assert named(RuntimeError("40001")) is None


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_ABORT_ROLLBACK])
def test_what_another_try_cures_on_sqlite_is_a_conflict(code: int) -> None:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    assert named(error) is not None


def test_a_pool_without_end_is_no_pool_of_none() -> None:
    class NullConnectionPool:
        """As psycopg's, whose 0 means any number."""

        max_size = 0

        def connection(self) -> None: ...

    app = Mainspring("memory://")
    app.consumer("a", transactional=NullConnectionPool().connection)(plain)

    (registered,) = app._code.consumers
    assert registered.transactional is not None
    assert registered.transactional.capacity() is None
