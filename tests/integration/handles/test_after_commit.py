"""Whoever waits for messages hears of a commit, once and after it, and of nothing else."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.orm import Session

from mainspring import Mainspring
from tests.integration.handles import alchemists, djangos
from tests.integration.handles.alchemists import spelled
from tests.integration.handles.callers import KINDS, Caller, Kind, Undone
from tests.integration.handles.conftest import Shop

TELLING = pytest.mark.parametrize("kind", [each for each in KINDS if each.tells], ids=str)


@TELLING
def test_a_commit_is_told_once_and_when_everybody_can_see_it(kind: Kind, shop: Shop) -> None:
    key = uuid4().hex
    seen: list[tuple[int, int]] = []
    shop.hear = lambda: seen.append(shop.count(key))

    async def play() -> None:
        async with kind.open(shop.address) as caller:
            for _ in range(3):
                async with caller.transaction():
                    await caller.publish(shop.app, key)
                    await caller.publish(shop.app, key)
                    async with caller.savepoint():
                        await caller.publish(shop.app, key)

    kind.run(play())

    assert seen == [(3, 3), (6, 6), (9, 9)]


@TELLING
def test_a_rollback_and_a_commit_of_nothing_are_not_told(kind: Kind, shop: Shop) -> None:
    async def play() -> None:
        async with kind.open(shop.address) as caller:
            await caller.undone_by_hand(lambda: caller.publish(shop.app, "rolled back"))
            try:
                async with caller.transaction():
                    await caller.publish(shop.app, "raised")
                    raise Undone
            except Undone:
                pass
            # On the same connection, with nothing of ours in it.
            async with caller.transaction():
                await other_work(caller)

    kind.run(play())

    assert shop.commits == []


async def other_work(caller: Caller) -> None:
    match caller:
        case alchemists.Alchemist():
            caller.tx.execute(text("SELECT 1"))
        case alchemists.AsyncAlchemist():
            await caller.tx.execute(text("SELECT 1"))
        case djangos.Django():
            with connections[caller.alias].cursor() as cursor:
                cursor.execute("SELECT 1")


@TELLING
def test_the_release_of_a_savepoint_is_not_told(kind: Kind, shop: Shop) -> None:
    async def play() -> int:
        async with kind.open(shop.address) as caller, caller.transaction():
            await caller.publish(shop.app, "outside")
            async with caller.savepoint():
                await caller.publish(shop.app, "inside")
            return len(shop.commits)

    before = kind.run(play())

    assert (before, len(shop.commits)) == (0, 1)


@TELLING
def test_what_the_listener_raises_does_not_reach_the_commit(
    kind: Kind, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    key = uuid4().hex

    def fail() -> None:
        raise RuntimeError("nobody there")

    shop.hear = fail

    async def play() -> None:
        async with kind.open(shop.address) as caller, caller.transaction():
            await caller.publish(shop.app, key)

    kind.run(play())

    assert shop.count(key) == (1, 1)
    assert "post-commit wake-up failed" in caplog.text


def test_a_pooled_connection_gathers_no_listeners(postgres_shop: Shop) -> None:
    engine = create_engine(spelled(postgres_shop.address, "psycopg"), pool_size=1, max_overflow=0)
    postgres_shop.commits.clear()

    for _ in range(5):
        with Session(engine) as session, session.begin():
            postgres_shop.app.sync.publish("orders.placed", {}, tx=session)
        with Session(engine) as session:
            postgres_shop.app.sync.publish("orders.placed", {}, tx=session)
            session.rollback()
        with engine.begin() as connection:
            connection.exec_driver_sql("SELECT 1")
    engine.dispose()

    assert len(postgres_shop.commits) == 5


def test_every_app_in_the_transaction_hears_of_it(postgres_shop: Shop, engine: Engine) -> None:
    other = Mainspring(postgres_shop.address, name="other", schema=postgres_shop.schema)
    heard: list[str] = []
    postgres_shop.hear = lambda: heard.append("first")
    other._own.publisher._transactions._committed = lambda: heard.append("second")

    with Session(engine) as session, session.begin():
        postgres_shop.app.sync.publish("orders.placed", {}, tx=session)
        other.sync.publish("orders.placed", {}, tx=session)

    assert heard == ["first", "second"]


def test_a_session_within_somebody_elses_transaction_is_told_of_at_that_ones_commit(
    postgres_shop: Shop, engine: Engine
) -> None:
    postgres_shop.commits.clear()

    with engine.connect() as connection, connection.begin() as outer:
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            postgres_shop.app.sync.publish("orders.placed", {}, tx=session)
            session.commit()
        before = len(postgres_shop.commits)
        outer.commit()

    assert (before, len(postgres_shop.commits)) == (0, 1)


def test_a_commit_that_fails_is_not_told(postgres_shop: Shop, engine: Engine) -> None:
    table = f"deferred_{uuid4().hex[:8]}"
    postgres_shop.commits.clear()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {table} (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    with Session(engine) as session:
        session.connection().exec_driver_sql(f"INSERT INTO {table} VALUES (1), (1)")
        postgres_shop.app.sync.publish("orders.placed", {}, tx=session)
        with pytest.raises(Exception, match="duplicate key"):
            session.commit()

    assert postgres_shop.commits == []


def test_the_events_of_the_callers_own_still_come(postgres_shop: Shop, engine: Engine) -> None:
    events: list[Any] = []
    event.listen(engine, "commit", lambda _: events.append("core"))

    with Session(engine) as session:
        event.listen(session, "after_commit", lambda _: events.append("orm"))
        postgres_shop.app.sync.publish("orders.placed", {}, tx=session)
        session.commit()

    assert events == ["core", "orm"]
