"""Fan-out on every database: with a worker, in handlers' transactions, in threads, under a namespace."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.orm import Session

from mainspring import NO_RETRY, Context, CursorView, Mainspring, Slice, Snooze, errors
from tests.integration.app.shop import eventually

Make = Callable[..., Mainspring]
HALF_PAST = datetime(2031, 5, 1, 12, 30, tzinfo=UTC)
databases = pytest.mark.parametrize("make", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/etl.db", "postgresql": postgres_url}

    def made(**options: Any) -> Mainspring:
        return Mainspring(
            urls[request.param], name="etl", schema=postgres_schema, auto_migrate=True, idle_poll="50ms", **options
        )

    return made


async def cursors(app: Mainspring) -> dict[str, CursorView]:
    return {each.shard: each for each in await app.fanouts.cursors("etl", "payments", limit=1000)}


async def done(app: Mainspring, shards: int, after: datetime | None = None) -> dict[str, CursorView]:
    """Wait until so many shards are not behind, in a window after that."""

    async def are_done() -> bool:
        view = await app.fanouts.get("etl", "payments")
        assert view is not None
        return view.shards == shards and view.behind == 0 and (after is None or view.last_window != after)

    await eventually(are_done)
    return await cursors(app)


async def settled(app: Mainspring, dead: int) -> bool:
    """Whether so many slices are dead, and the others done."""
    view = await app.fanouts.get("etl", "payments")
    assert view is not None
    return len(await app.dead.list()) == dead and view.behind == dead


async def test_a_worker_plans_and_does_every_window(make: Make) -> None:
    app = make(namespace="test")
    seen: list[Slice] = []

    @app.fanout("etl", "payments", cron="0 0 1 1 *", jitter="10ms")
    async def tenants() -> AsyncIterator[str]:
        for shard in ("a", "b|c", "夜"):
            yield shard

    @tenants.slices()
    async def load(each: Slice, ctx: Context) -> None:
        assert (ctx.key, ctx.topic) == (each.shard, "fanout:etl:payments")
        seen.append(each)

    async with app.worker():
        await app.declare()
        for _ in range(2):
            await app.schedules.trigger(tenants.schedule)
            standing = await done(app, 3, after=max((each.window for each in seen), default=None))

    by_shard = {shard: [each for each in seen if each.shard == shard] for shard in ("a", "b|c", "夜")}
    for shard, slices in by_shard.items():
        assert [each.last for each in slices] == [None, *(each.window for each in slices[:-1])]
        assert standing[shard].completed == slices[-1].window
    assert len({(each.shard, each.window) for each in seen}) == len(seen)


async def test_plain_functions_plan_and_advance_cursors_too(make: Make) -> None:
    app = make()

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    def tenants() -> Iterator[str]:
        time.sleep(0)  # it may block: it is called in a thread
        yield from ("a", "b")

    @tenants.slices()
    def load(each: Slice) -> None: ...

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")
        standing = await done(app, 2)

    assert planned.published == 2
    assert {each.completed for each in standing.values()} == {planned.window}


@databases
async def test_a_cursor_is_advanced_in_the_handlers_own_transaction_or_not_at_all(make: Make) -> None:
    app = make()
    within: list[CursorView | None] = []

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> list[str]:
        return ["failing", "fine"]

    @tenants.slices(transactional=True, retry=NO_RETRY)
    async def load(each: Slice, ctx: Context) -> None:
        if each.shard == "failing":
            raise OSError("away")
        within.append((await cursors(app)).get(each.shard))

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")
        await eventually(lambda: settled(app, 1))
        standing = await cursors(app)

    assert standing["fine"].completed == planned.window
    assert (standing["failing"].completed, standing["failing"].is_behind) == (None, True)
    assert [None if each is None else each.completed for each in within] == [None]


@databases
async def test_a_slice_that_is_put_off_in_its_transaction_leaves_its_cursor(make: Make) -> None:
    app = make()

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> list[str]:
        return ["a"]

    @tenants.slices(transactional=True)
    async def load(each: Slice) -> Snooze:
        return Snooze("1h", each.shard)

    async def is_put_off() -> bool:
        return [each.attempt for each in await app.messages.list("scheduled")] == [0]

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")
        await eventually(is_put_off)
        standing = await cursors(app)

    assert (standing["a"].planned, standing["a"].completed) == (planned.window, None)


async def test_a_slice_that_ends_well_after_its_time_was_over_leaves_its_cursor(make: Make) -> None:
    app = make()

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> list[str]:
        return ["a"]

    @tenants.slices(timeout="50ms", retry=NO_RETRY)
    async def load(each: Slice) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def is_dead() -> bool:
        return len(await app.dead.list()) == 1

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")
        await eventually(is_dead)
        standing = await cursors(app)

    assert (standing["a"].planned, standing["a"].completed) == (planned.window, None)


async def test_a_coordinator_waits_for_another_and_passes_over_what_that_has_planned(make: Make) -> None:
    app = make()

    @app.fanout("etl", "payments", cron="0 0 1 1 *", lease="5s")
    async def tenants() -> list[str]:
        return ["a", "b"]

    @tenants.slices()
    async def load(each: Slice) -> None: ...

    async with app:
        async with app.leases.hold("fanout:etl:payments"):
            view = await app.fanouts.get("etl", "payments")
            assert view is not None
            with pytest.raises(errors.LeaseHeld):
                await app.fanouts.run("etl", "payments")
            waiting = asyncio.create_task(app.fanouts.run("etl", "payments", wait="30s"))
            await asyncio.sleep(0)
        planned = await waiting
        await app.fanouts.edit("etl", "payments", jitter="1m")
        again = await app.fanouts.run("etl", "payments")

    assert view.coordinator is not None
    assert (planned.published, planned.skipped) == (2, {})
    assert (again.published, again.skipped) == (0, {"unfinished": 2})


async def test_a_coordinator_that_has_lost_its_lease_publishes_nothing_more(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.app.fanout.coordinator.CHUNK", 1)
    app = make()

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> AsyncIterator[str]:
        yield "a"
        await app.leases.release("fanout:etl:payments", by="ann")
        yield "b"

    async with app:
        with pytest.raises(errors.LeaseLost):
            await app.fanouts.run("etl", "payments")
        standing = await cursors(app)

    assert list(standing) == ["a"]


async def test_a_planner_that_goes_wrong_is_closed_where_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.app.fanout.coordinator.CHUNK", 1)
    app = Mainspring("memory://", name="etl")
    tasks: list[object] = []
    threads: list[int] = []
    closed = threading.Event()

    @app.fanout("etl", "tasks", every="1h")
    async def rows() -> AsyncIterator[Any]:
        tasks.append(asyncio.current_task())
        try:
            yield "a"
            yield None
        finally:
            tasks.append(asyncio.current_task())

    @app.fanout("etl", "threads", every="1h")
    def blocking_rows() -> Iterator[Any]:
        try:
            for each in ("a", "b", None):
                threads.append(threading.get_ident())
                yield each
        finally:
            threads.append(threading.get_ident())
            closed.set()

    async with app:
        for work in ("tasks", "threads"):
            with pytest.raises(errors.BadOption, match="yields None"):
                await app.fanouts.run("etl", work)
        assert await asyncio.to_thread(closed.wait, 30)

    assert tasks == [asyncio.current_task()] * 2
    assert len(set(threads)) == 1
    assert (len(threads), threads[0] == threading.get_ident()) == (4, False)


@databases
async def test_policies_outlive_the_process_and_are_seen_by_every_other(make: Make) -> None:
    for _ in range(2):
        app = make()
        app.fanout("etl", "payments", every="1h")(lambda: ["a"])
        async with app:
            await app.declare()
            view = await app.fanouts.get("etl", "payments")
            await app.fanouts.edit("etl", "payments", every="2h", jitter="5m", enabled=False)

    assert view is not None
    assert (view.enabled, view.every, view.jitter) == (False, timedelta(hours=2), timedelta(minutes=5))


def test_a_kit_on_the_callers_connection_plans_and_advances_in_its_transaction(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/etl.db", name="etl")
    app.sync.migrate()
    tenants = app.fanout("etl", "payments", every="1h", jitter="1m")(lambda: ["a", "b"])

    @tenants.slices(transactional=True)
    def load(each: Slice, ctx: Context) -> None:
        ctx.tx.execute(text("SELECT 1"))

    engine = create_engine(f"sqlite:///{tmp_path}/etl.db", poolclass=NullPool)
    with Session(engine) as session, app.testing(tx=session, start=HALF_PAST) as kit:
        planned = app.sync.fanouts.run("etl", "payments")
        kit.sync.drain()
        by_hand = app.sync.fanouts.get("etl", "payments")
        assert by_hand is not None
        kit.sync.advance("2h")
        standing = {each.completed for each in app.sync.fanouts.cursors("etl", "payments")}
        session.rollback()
    left = app.sync.fanouts.cursors("etl", "payments")
    app.sync.close()

    assert (planned.published, by_hand.completed, by_hand.last_window) == (2, 2, planned.window)
    assert by_hand.next_window is not None
    assert standing == {by_hand.next_window + timedelta(hours=1)}
    assert left == []
