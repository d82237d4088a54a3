"""The inbox of an app that does nothing else: awaited and blocking, by itself and beside one's own data."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from mainspring import Admission, Mainspring
from mainspring.model.errors import BadHandle, BadOption

THREADS = 16


@pytest.fixture(params=["sqlite", "postgresql"])
def app(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> Iterator[Mainspring]:
    """An app without a consumer, whose tables are there."""
    url = f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else postgres_url
    schema = "mainspring" if request.param == "sqlite" else postgres_schema
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)
    app.sync.migrate()
    yield app
    app.sync.close()


async def test_it_works_without_a_worker(app: Mainspring) -> None:
    async with app:
        async with app.inbox.once("evt_1", "stripe", retry_after="10m") as admission:
            assert admission
        again = await app.inbox.admit("evt_1", "stripe")
        view = await app.inbox.get("evt_1", "stripe")

    assert view is not None
    assert (again.admitted, again.status, view.attempts) == (False, "done", 1)


def test_one_of_many_threads_is_let_in(app: Mainspring) -> None:
    together = threading.Barrier(THREADS)

    def call(_number: int) -> Admission:
        together.wait()
        return app.sync.inbox.admit("evt_1", "stripe", hash="abc")

    with ThreadPoolExecutor(THREADS) as threads:
        answers = list(threads.map(call, range(THREADS)))

    assert sum(map(bool, answers)) == 1


def test_blocking_code_says_what_became_of_it(app: Mainspring) -> None:
    inbox = app.sync.inbox
    first = inbox.admit("evt_1", "stripe")
    assert inbox.failed(first, error="no money")
    assert inbox.dead(inbox.admit("evt_1", "stripe"), error="no money")
    assert inbox.release("evt_1", "stripe", by="ann")
    third = inbox.admit("evt_1", "stripe")

    assert (third.admitted, third.attempts) == (True, 3)
    assert not inbox.done(first)
    assert inbox.done("evt_1", "stripe", attempt=3)
    assert [each.status for each in inbox.list(source="stripe")] == ["done"]
    assert inbox.get("evt_2", "stripe") is None


def test_a_block_of_blocking_code_is_done_at_its_end_or_has_failed(app: Mainspring) -> None:
    inbox = app.sync.inbox
    with pytest.raises(ZeroDivisionError), inbox.once("evt_1", "stripe") as first:
        _ = len(first.message_id) / 0
    failed = inbox.get("evt_1", "stripe")
    with inbox.once("evt_1", "stripe") as second, inbox.once("evt_1", "stripe") as third:
        assert (second.attempts, bool(second), bool(third)) == (2, True, False)
    with inbox.once("evt_2", "stripe") as other:
        inbox.dead(other, error="not for us")

    assert failed is not None
    assert (failed.status, failed.error) == ("seen", "ZeroDivisionError: division by zero")
    assert {each.message_id: each.status for each in inbox.list()} == {"evt_1": "done", "evt_2": "dead"}


async def test_a_handle_of_the_other_kind_is_refused_by_name(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(BadHandle, match=r"blocks: write `app.sync.inbox.admit\(…, tx=connection\)`, without await"),
    ):
        await app.inbox.admit("evt_1", "stripe", tx=connection)


def test_with_a_transaction_a_block_adds_nothing(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    app.sync.migrate()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as tx:
        with pytest.raises(ZeroDivisionError), tx, app.sync.inbox.once("evt_1", "stripe", tx=tx) as admission:
            _ = len(admission.message_id) / 0
        with tx, app.sync.inbox.once("evt_1", "stripe", tx=tx) as admission:
            assert admission
        with pytest.raises(BadOption, match="was admitted in a transaction: roll that back"):
            app.sync.inbox.failed(admission)

    assert not app.sync.inbox.admit("evt_1", "stripe")
    app.sync.close()


def test_what_a_block_says_in_a_transaction_counts_if_that_commits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    inbox = app.sync.inbox
    app.sync.migrate()

    def roll_back(tx: sqlite3.Connection) -> None:
        with inbox.once("rolled back", "stripe") as admission, tx:
            assert inbox.done(admission, tx=tx)
            _ = 1 / 0

    def commit(tx: sqlite3.Connection) -> None:
        with inbox.once("committed", "stripe") as admission:
            with tx:
                assert inbox.done(admission, tx=tx)
            _ = 1 / 0

    with closing(sqlite3.connect(tmp_path / "shop.db")) as tx:
        with pytest.raises(ZeroDivisionError):
            roll_back(tx)
        with pytest.raises(ZeroDivisionError):
            commit(tx)
        with inbox.once("dead", "stripe") as admission, tx:
            assert inbox.dead(admission, tx=tx)

    assert {each.message_id: each.status for each in inbox.list()} == {
        "rolled back": "seen",
        "committed": "done",
        "dead": "dead",
    }
    assert caplog.messages == []
    app.sync.close()


async def test_what_an_awaited_block_says_in_a_transaction_counts_if_that_commits(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")

    async def play(message_id: str, *, fails: bool) -> None:
        async with app.inbox.once(message_id, "stripe") as admission, engine.begin() as tx:
            assert await app.inbox.done(admission, tx=tx)
            _ = 1 / (not fails)

    async with app:
        with pytest.raises(ZeroDivisionError):
            await play("rolled back", fails=True)
        await play("committed", fails=False)
        views = await app.inbox.list()
    await engine.dispose()

    assert {each.message_id: each.status for each in views} == {"rolled back": "seen", "committed": "done"}


async def test_a_call_that_cannot_be_meant_leaves_its_block_to_fail(app: Mainspring) -> None:
    async with app:
        with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(BadHandle):
            async with app.inbox.once("evt_1", "stripe") as admission:
                await app.inbox.done(admission, tx=connection)
        view = await app.inbox.get("evt_1", "stripe")

    assert view is not None
    assert view.status == "seen"


def test_a_test_in_a_transaction_sees_its_own_inbox_and_leaves_none(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    app.sync.migrate()
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as tx:
        tx.execute("BEGIN")
        with app.testing(tx=tx):
            assert app.sync.inbox.admit("evt_1", "stripe", tx=tx)
            assert not app.sync.inbox.admit("evt_1", "stripe")
            assert app.sync.inbox.admit("evt_2", "stripe")
        tx.rollback()

    assert app.sync.inbox.list() == []
    app.sync.close()


async def test_a_test_on_memory_turns_the_clock(app: Mainspring) -> None:
    with app.testing() as kit:
        await app.inbox.admit("evt_1", "stripe")
        await kit.advance("10m")
        late = await app.inbox.admit("evt_1", "stripe", retry_after="10m")

    assert (late.admitted, late.attempts) == (True, 2)
    async with app:
        assert await app.inbox.list() == []
