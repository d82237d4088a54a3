"""Schedules changed in the caller's own transaction: they count when it commits, and never happened otherwise."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import Mainspring, every
from mainspring.model.errors import BadHandle, BadOption, Misuse

Joining = Callable[[], AbstractContextManager[Any]]


def shop(url: str, schema: str) -> Mainspring:
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)

    @app.consumer("mail")
    def mail(to: str) -> None: ...

    app.sync.migrate()
    app.sync.declare()
    return app


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> Iterator[tuple[Mainspring, Joining]]:
    """An app, and what opens a transaction of its user's own on the same database."""

    @contextmanager
    def on_sqlite() -> Iterator[Any]:
        with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            if connection.in_transaction:
                connection.rollback()

    @contextmanager
    def on_postgres() -> Iterator[Any]:
        with closing(psycopg.connect(postgres_url)) as connection:
            yield connection
            connection.rollback()

    if request.param == "sqlite":
        app, joining = shop(f"sqlite:///{tmp_path}/shop.db", "mainspring"), on_sqlite
    else:
        app, joining = shop(postgres_url, postgres_schema), on_postgres
    yield app, joining
    app.sync.close()


def test_what_is_committed_counts(place: tuple[Mainspring, Joining]) -> None:
    app, joining = place
    with joining() as tx:
        made = app.sync.schedules.put("hourly", every("1h"), "mail", "ann", by="ann", tx=tx)
        tx.commit()

    found = app.sync.schedules.get("hourly")
    assert found is not None
    assert (found.rhythm, found.next_at, found.group) == ("every 1h", made.next_at, "mail")
    assert [(line.by, line.action, line.subject) for line in app.sync.audit()] == [("ann", "schedule put", "hourly")]


def test_what_is_rolled_back_never_happened(place: tuple[Mainspring, Joining]) -> None:
    app, joining = place
    schedules = app.sync.schedules
    schedules.put("hourly", every("1h"), "mail", "ann")
    before, lines = schedules.get("hourly"), len(app.sync.audit())

    with joining() as tx:
        schedules.put("other", every("1h"), "mail", "bob", tx=tx)
        schedules.once("later", datetime.now(UTC) + timedelta(hours=1), "mail", "ann", tx=tx)
        schedules.alter("hourly", every("2h"), tx=tx)
        schedules.pause("hourly", tx=tx)
        schedules.trigger("hourly", tx=tx)
        schedules.backfill("hourly", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC), tx=tx)
        schedules.delete("hourly", tx=tx)
        tx.rollback()

    assert schedules.get("hourly") == before
    assert [view.name for view in schedules.list()] == ["hourly"]
    assert len(app.sync.audit()) == lines
    assert app.sync.stats.tally().groups[0].ready == 0


def test_a_trigger_and_a_backfill_are_stored_with_the_callers_commit(place: tuple[Mainspring, Joining]) -> None:
    app, joining = place
    schedules = app.sync.schedules
    schedules.put("hourly", "0 * * * *", "mail", "ann", overlap="allow")

    with joining() as tx:
        receipt = schedules.trigger("hourly", payload="bob", tx=tx)
        instants = schedules.backfill(
            "hourly", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC), tx=tx
        )
        tx.commit()

    assert [at.hour for at in instants] == [0, 1, 2, 3]
    found = app.sync.messages.get(receipt.id)
    assert found is not None
    assert found.payload == b'"bob"'
    assert app.sync.stats.tally().groups[0].ready == 5


def test_a_refused_change_leaves_the_callers_transaction_usable(place: tuple[Mainspring, Joining]) -> None:
    app, joining = place
    schedules = app.sync.schedules
    with joining() as tx:
        with pytest.raises(BadOption, match="there is no schedule 'nobody'"):
            schedules.pause("nobody", tx=tx)
        with pytest.raises(BadOption, match="has passed: give a later time, or past='run'"):
            schedules.once("late", datetime(2020, 1, 1, tzinfo=UTC), "mail", "ann", tx=tx)
        schedules.put("hourly", every("1h"), "mail", "ann", tx=tx)
        tx.commit()

    assert [view.name for view in schedules.list()] == ["hourly"]


def test_in_a_transaction_the_name_that_was_meant_is_suggested_too(place: tuple[Mainspring, Joining]) -> None:
    app, joining = place
    schedules = app.sync.schedules
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    with joining() as tx:
        schedules.put("hourly", every("1h"), "mail", "ann", tx=tx)
        for call in (
            lambda: schedules.pause("hourli", tx=tx),
            lambda: schedules.trigger("hourli", tx=tx),
            lambda: schedules.backfill("hourli", start, end, tx=tx),
        ):
            with pytest.raises(BadOption, match=r"there is no schedule 'hourli'\. Did you mean 'hourly'\?"):
                call()


def test_the_blocking_twin_has_every_verb(place: tuple[Mainspring, Joining]) -> None:
    schedules = place[0].sync.schedules
    schedules.put("hourly", "0 * * * *", "mail", "ann")
    assert len(schedules.next("hourly", 3)) == 3
    assert schedules.alter("hourly", "30 * * * *").edited == ("rhythm",)
    assert schedules.pause("hourly", reason="audit").state == "paused"
    assert schedules.resume("hourly").state == "active"
    assert schedules.trigger("hourly").status == "stored"
    assert schedules.runs("hourly") == []
    schedules.freeze()
    assert schedules.list()[0].state == "frozen"
    assert (schedules.thaw(), schedules.thaw()) == (True, False)
    schedules.delete("hourly")
    assert schedules.get("hourly") is None


async def test_the_blocking_twin_refuses_to_block_a_loop(place: tuple[Mainspring, Joining]) -> None:
    with pytest.raises(Misuse, match="schedules"):
        place[0].sync.schedules.list()


async def test_a_blocking_handle_is_not_awaited(place: tuple[Mainspring, Joining]) -> None:
    app, joining = place
    with joining() as tx, pytest.raises(BadHandle, match=r"app\.sync"):
        await app.schedules.pause("hourly", tx=tx)


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_an_asyncio_transaction_decides_too(postgres_url: str, postgres_schema: str, ends: str) -> None:
    app = Mainspring(postgres_url, name="shop", schema=postgres_schema, auto_migrate=True)
    app.consumer("mail")(_mail)
    async with app, transaction(postgres_url) as connection:
        await app.declare()
        tx = connection.transaction()
        await tx.start()
        await app.schedules.put("hourly", "0 * * * *", "_mail", "ann", tx=connection)
        await app.schedules.trigger("hourly", tx=connection)
        assert await app.schedules.get("hourly") is None  # nobody else sees it yet

        await (tx.commit() if ends == "commit" else tx.rollback())

        assert [view.name for view in await app.schedules.list()] == (["hourly"] if ends == "commit" else [])
        assert (await app.stats.tally()).groups[0].ready == (1 if ends == "commit" else 0)


async def _mail(to: str) -> None: ...
