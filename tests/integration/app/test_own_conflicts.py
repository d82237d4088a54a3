"""What the library itself publishes under an id that is known as another message does not run, and that is said."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid5

import pytest

from mainspring import Context, Mainspring, Slice, every
from mainspring.model.fanout import CursorKey, identity, slice_id
from mainspring.runtime.schedules import decisions as deciding
from tests.integration.app.measuring import maker


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    return maker(request.param, tmp_path, postgres_url, postgres_schema)()


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was warned of so far."""
    with caplog.at_level(logging.WARNING, "mainspring"):
        yield lambda: [each.getMessage() for each in caplog.records if "is not stored" in each.getMessage()]


async def until(question: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not question():
            await asyncio.sleep(0.01)


async def test_a_message_under_the_id_of_a_join_holds_up_nothing(app: Mainspring) -> None:
    told: list[object] = []

    @app.consumer("parts")
    async def part(_: int) -> None: ...

    @app.consumer("wholes")
    async def whole(_: int, ctx: Context) -> None:
        assert ctx.joined is not None
        told.append((ctx.message_id, ctx.joined.id))

    async with app:
        await app.declare()
        joined = await app.join([(part, 1)], then=(whole, 2))
        await app.publish("joins.opened", str(joined.id), message_id=joined.id)
        async with app.worker():
            await until(lambda: told)

    assert told == [(joined.follows, joined.id)]


async def test_what_follows_a_join_under_a_known_id_is_said(app: Mainspring, warned: Callable[[], list[str]]) -> None:
    @app.consumer("parts")
    async def part(_: int) -> None: ...

    @app.consumer("wholes")
    async def whole(_: int) -> None: ...

    async with app:
        await app.declare()
        joined = await app.join([(part, 1)], then=(whole, 2))
        await app.publish("joins.opened", 1, message_id=joined.follows)
        async with app.worker():
            await until(warned)

    (said,) = warned()
    known = f"message {joined.follows} on wholes is not stored: its id is known as a message on joins.opened"
    assert said == f"{known}; it does not run: give that other message another message_id"


async def test_an_occurrence_under_a_known_id_is_said(app: Mainspring, warned: Callable[[], list[str]]) -> None:
    ran: list[str | None] = []

    @app.recurring(every("1s"))
    async def tick(ctx: Context) -> None:
        ran.append(ctx.schedule)

    async with app:
        await app.declare()
        (schedule,) = await app.schedules.list()
        assert schedule.next_at is not None
        taken = uuid5(deciding._NAMESPACE, f"{schedule.name}\n{schedule.next_at.timestamp():.6f}")
        await app.publish("ticks.wanted", 1, message_id=taken)
        async with app.worker():
            await until(lambda: warned() and ran)

    (said,) = warned()
    assert said.startswith(f"message {taken} on ")
    assert "is not stored: its id is known as a message on ticks.wanted; it does not run" in said


async def test_a_slice_under_a_known_id_is_said(app: Mainspring, warned: Callable[[], list[str]]) -> None:
    taken = []

    @app.fanout("etl", "payments", cron="0 0 1 1 *")
    async def tenants(ctx: Context) -> list[str]:
        assert ctx.scheduled_for is not None
        id = slice_id(identity(CursorKey("etl", "payments", "a"), ctx.scheduled_for))
        taken.append((await app.publish("tenants.named", 1, message_id=id)).id)
        return ["a", "b"]

    @tenants.slices()
    async def load(each: Slice) -> None: ...

    async with app:
        await app.declare()
        planned = await app.fanouts.run("etl", "payments")

    assert planned.published == 1
    (said,) = warned()
    known = f"message {taken[0]} on fanout:etl:payments is not stored: its id is known as a message on tenants.named"
    assert said == f"{known}; it does not run: give that other message another message_id"
