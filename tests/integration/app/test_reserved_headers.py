"""Headers named "mainspring-…" are the library's own: refused, hidden, and believed only where they are true."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from mainspring import NO_RETRY, Context, Mainspring, Middleware, Outgoing, Slice, errors
from mainspring.model.fanout import SLICE_HEADER, CursorKey, identity, slice_id
from mainspring.model.join import DONE_HEADER, FAILED_HEADER, JOIN_HEADER
from mainspring.model.message import Draft
from mainspring.model.schedule import RHYTHM_HEADER, SCHEDULE_HEADER

Make = Callable[..., Mainspring]
SAYS = "begins with 'mainspring-', which the library keeps for itself: rename it"
DISTANT = datetime(9998, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}

    def made(**options: Any) -> Mainspring:
        options = {"name": "shop", "schema": postgres_schema, "auto_migrate": True, "idle_poll": "50ms", **options}
        return Mainspring(urls[request.param], **options)

    return made


async def eventually(question: Callable[[], bool | Awaitable[bool]]) -> None:
    """Ask until the answer is yes."""
    async with asyncio.timeout(60):
        while not (answer := question()) or (not isinstance(answer, bool) and not await answer):
            await asyncio.sleep(0.01)


async def store(app: Mainspring, topic: str, headers: dict[str, str], payload: bytes = b"null", **more: Any) -> None:
    """Put a message into the database past every check, as a statement of a stranger's could."""
    storage = await app._connection.storage("a test")
    await storage.mailbox.publish([Draft(more.pop("id", uuid4()), topic, payload, headers=headers, **more)])


@pytest.mark.parametrize("name", ["mainspring-slice", "Mainspring-Schedule", "MAINSPRING-"])
async def test_every_way_to_publish_refuses_them(make: Make, name: str) -> None:
    app = make()
    headers = {name: "1"}

    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "publish": lambda: app.publish("orders.placed", 1, headers=headers),
        "publish, unique": lambda: app.publish("orders.placed", 1, headers=headers, key="a", unique="key"),
        "publish_many": lambda: app.publish_many([("orders.placed", 1)], headers=headers),
        "send": lambda: ship.send(1, headers=headers),
        "send, then": lambda: ship.send(1, headers=headers, then=ship),
        "publish by an operator": lambda: app.messages.publish("orders.placed", 1, headers=headers),
        "sync": lambda: asyncio.to_thread(app.sync.publish, "orders.placed", 1, headers=headers),
    }
    async with app:
        await app.declare()
        for way, call in ways.items():
            with pytest.raises(errors.BadOption, match=SAYS):
                await call()
            assert await app.messages.search() == [], way


async def test_a_handler_is_not_shown_them_and_may_forward_all_it_is_shown(make: Make) -> None:
    app = make()
    seen: list[dict[str, str]] = []

    @app.recurring("0 0 1 1 *")
    async def report(ctx: Context) -> None:
        seen.append(dict(ctx.headers))
        await ctx.publish("forwarded", 1, headers={**ctx.headers, "shop": "ulm"})

    @app.consumer("forwarded")
    async def take(order: int, ctx: Context) -> None:
        seen.append(dict(ctx.headers))

    async with app.worker():
        await app.declare()
        await app.schedules.trigger("report")
        await eventually(lambda: len(seen) == 2)

    assert seen == [{}, {"shop": "ulm"}]


async def test_an_operator_is_not_shown_them(make: Make) -> None:
    app = make()

    @app.consumer("parts")
    async def part(order: int) -> None: ...

    async with app:
        await app.declare()
        joined = await app.join([(part, 1)], then=(part, 1))
        found = await app.messages.get(joined.members[0])

    assert found is not None
    assert dict(found.headers) == {}


class _Meddling(Middleware):
    """Clears all headers, and adds what it is told to."""

    def __init__(self, **added: str) -> None:
        self.added = added

    @contextmanager
    def publishing(self, message: Outgoing) -> Iterator[Outgoing]:
        message.headers.clear()
        message.headers.update({name.replace("_", "-"): value for name, value in self.added.items()})
        yield message


async def test_a_middleware_neither_adds_nor_removes_them(make: Make) -> None:
    told: list[object] = []
    app = make(middleware=[_Meddling(shop="ulm")])

    @app.consumer("parts")
    async def part(order: int) -> None: ...

    @app.consumer("wholes")
    async def whole(order: int | None, ctx: Context) -> None:
        told.append(ctx.joined)

    async with app.worker():
        joined = await app.join([(part, 1), (part, 2)], then=whole)
        await eventually(lambda: bool(told))
    async with make(middleware=[_Meddling(mainspring_slice="x")]) as other:
        with pytest.raises(errors.BadOption, match=SAYS):
            await other.publish("parts", 1)

    outcome = cast("Any", told[0])
    assert (outcome.id, outcome.done, outcome.failed) == (joined.id, 2, 0)


async def test_a_message_that_claims_to_be_of_a_schedule_or_a_join_is_not_believed(make: Make) -> None:
    app = make()
    seen: list[tuple[object, ...]] = []

    @app.consumer("orders.placed")
    async def ship(order: object, ctx: Context) -> None:
        seen.append((ctx.is_recurring, ctx.schedule, ctx.cron, ctx.joined))

    forged = {SCHEDULE_HEADER: "report", RHYTHM_HEADER: "* * * * *"}
    forged |= {JOIN_HEADER: str(uuid4()), DONE_HEADER: "1", FAILED_HEADER: "0"}
    async with app.worker():
        await app.declare()
        await store(app, "orders.placed", forged)
        await eventually(lambda: bool(seen))

    assert seen == [(False, None, None, None)]


async def test_a_message_that_claims_to_be_another_slice_advances_no_cursor(make: Make) -> None:
    app = make()
    seen: list[str] = []

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> list[str]:
        return ["a"]

    @tenants.slices()
    async def load(each: Slice, ctx: Context) -> None:
        seen.append(each.shard)

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")
        await eventually(lambda: seen == ["a"])
        for shard, own_id in (("a", True), ("a", False), ("other", True)):
            name = identity(CursorKey("etl", "payments", shard), DISTANT)
            body = b'{"topic":"etl","work":"payments","shard":"%s","window":"9998-01-01T00:00:00Z"}' % shard.encode()
            more = {"id": slice_id(name)} if own_id else {}
            await store(app, "fanout:etl:payments", {SLICE_HEADER: name}, body, **more)
        await eventually(lambda: len(seen) == 4)

        async def nothing_is_left() -> bool:
            return await app.messages.search() == []

        await eventually(nothing_is_left)
        cursors = await app.fanouts.cursors("etl", "payments")

    assert [(each.shard, each.completed) for each in cursors] == [("a", planned.window)]


async def test_a_message_that_names_a_slice_which_failed_does_not_complete_it(make: Make) -> None:
    app = make()
    seen: list[bool] = []

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> list[str]:
        return ["a"]

    @tenants.slices(retry=NO_RETRY)
    async def load(each: Slice, ctx: Context) -> None:
        seen.append(each.last is None)
        if each.last is None:
            raise ValueError("where to begin?")

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")

        async def nothing_is_left() -> bool:
            return await app.messages.search() == []

        await eventually(lambda: seen == [True])
        times = b'"window":"2030-01-02T00:00:00Z","last":"2030-01-01T00:00:00Z"'
        body = b'{"topic":"etl","work":"payments","shard":"a",%s}' % times
        name = identity(CursorKey("etl", "payments", "a"), planned.window)
        await store(app, "fanout:etl:payments", {SLICE_HEADER: name}, body)
        await eventually(lambda: seen == [True, False])
        await eventually(nothing_is_left)
        (cursor,) = await app.fanouts.cursors("etl", "payments")

    assert (cursor.planned, cursor.completed) == (planned.window, None)


async def test_what_replaces_a_dead_slice_advances_its_cursor_however_often_it_was_replaced(make: Make) -> None:
    app = make()

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants() -> list[str]:
        return ["a"]

    @tenants.slices(retry=NO_RETRY)
    async def load(each: Slice, ctx: Context) -> None:
        if each.last is None:
            raise ValueError("where to begin?")

    async with app.worker():
        planned = await app.fanouts.run("etl", "payments")
        for last in (None, planned.window - timedelta(days=1)):

            async def one_is_dead() -> bool:
                return len(await app.dead.list()) == 1

            await eventually(one_is_dead)
            (dead,) = await app.dead.list()
            fixed = Slice("etl", "payments", "a", planned.window, last)
            assert await app.dead.revive(dead.message_id, payload=fixed) == 1

        async def is_completed() -> bool:
            (cursor,) = await app.fanouts.cursors("etl", "payments")
            return cursor.completed == planned.window

        await eventually(is_completed)


async def test_what_replaces_a_dead_occurrence_still_belongs_to_its_schedule(make: Make) -> None:
    app = make()
    seen: list[str | None] = []

    @app.recurring("0 0 1 1 *", retry=NO_RETRY)
    async def report(day: str | None, ctx: Context) -> None:
        seen.append(ctx.schedule)
        if day is None:
            raise ValueError("which day?")

    async with app.worker():
        await app.declare()
        await app.schedules.trigger("report")

        async def one_is_dead() -> bool:
            return len(await app.dead.list()) == 1

        await eventually(one_is_dead)
        (dead,) = await app.dead.list()
        await app.dead.revive(dead.message_id, payload="monday")
        await eventually(lambda: len(seen) == 2)

    assert seen == ["report", "report"]
