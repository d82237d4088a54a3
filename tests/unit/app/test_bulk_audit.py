"""The line in the audit of something that is done to everything a search finds: true at every moment."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mainspring import Mainspring
from mainspring.app.admin.bulk import BATCH
from mainspring.model.errors import StorageUnavailable
from mainspring.model.search import By, DeadSelection, Filter
from tests.unit.app.steered import audited, bury, storage_of


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")
    async with app:
        yield app


async def test_a_bulk_is_stopped_between_two_batches(app: Mainspring) -> None:
    await bury(app, 3 * BATCH)
    told: list[int] = []

    count = await app.messages.apply("discard", Filter("dead"), progress=told.append, stop=lambda: len(told) == 2)

    assert (count, told) == (2 * BATCH, [BATCH, 2 * BATCH])
    assert await audited(app) == [("app", "discard", "state dead", f"{2 * BATCH} discarded; stopped")]


async def test_a_bulk_that_fails_half_way_is_audited_for_what_it_has_done(app: Mainspring) -> None:
    await bury(app, 2 * BATCH)

    def full(_: int) -> None:
        raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="terminal"):
        await app.messages.apply("discard", Filter("dead"), by="ann", progress=full)

    assert await audited(app) == [("ann", "discard", "state dead", f"{BATCH} discarded; failed: RuntimeError")]


async def test_what_is_told_of_a_batch_whose_answer_was_lost_is_what_the_storage_knows(app: Mainspring) -> None:
    await bury(app, 3 * BATCH)
    controls = (await storage_of(app)).controls
    discard, batches = controls.discard, []

    async def lost(which: DeadSelection, by: By, limit: int) -> int:
        done = await discard(which, by, limit)
        batches.append(done)
        if len(batches) == 2:
            raise StorageUnavailable("the answer was lost")
        return done

    controls.discard = lost  # type: ignore[method-assign]

    with pytest.raises(StorageUnavailable):
        await app.messages.apply("discard", Filter("dead"), by="ann")

    assert await audited(app) == [
        ("ann", "discard", "state dead", f"{2 * BATCH} discarded; failed: StorageUnavailable")
    ]


async def test_a_bulk_that_cannot_say_how_it_ended_has_said_how_far_it_came(app: Mainspring) -> None:
    await bury(app, 2 * BATCH)
    controls = (await storage_of(app)).controls

    async def away(line: int, standing: str) -> None:
        raise StorageUnavailable(f"{line} {standing}")

    def full(_: int) -> None:
        raise RuntimeError("the terminal is gone")

    controls.amend = away  # type: ignore[method-assign]

    with pytest.raises(RuntimeError, match="terminal"):
        await app.messages.apply("discard", Filter("dead"), by="ann", progress=full)

    assert await audited(app) == [("ann", "discard", "state dead", f"{BATCH} discarded; goes on")]


async def test_there_is_a_line_before_anything_is_changed(app: Mainspring) -> None:
    await bury(app, 1)
    controls = (await storage_of(app)).controls
    revive, seen = controls.revive, []

    async def looked(which: DeadSelection, by: By, limit: int) -> int:
        seen.extend(await audited(app))
        return await revive(which, by, limit)

    controls.revive = looked  # type: ignore[method-assign]

    await app.messages.apply("revive", Filter("dead"), by="ann")

    assert seen == [("ann", "revive", "state dead", "0 revived; goes on")]


async def test_a_bulk_whose_caller_is_cancelled_ends_the_batch_in_hand_and_says_so(app: Mainspring) -> None:
    await bury(app, 3 * BATCH)
    controls = (await storage_of(app)).controls
    discard = controls.discard
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waits(which: DeadSelection, by: By, limit: int) -> int:
        begun.set()
        await go_on.wait()
        return await discard(which, by, limit)

    controls.discard = waits  # type: ignore[method-assign]
    bulk = asyncio.create_task(app.messages.apply("discard", Filter("dead"), by="ann"))
    await begun.wait()
    bulk.cancel()
    await asyncio.sleep(0)
    assert not bulk.done()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await bulk
    assert await audited(app) == [("ann", "discard", "state dead", f"{BATCH} discarded; cancelled")]
    assert len(await app.dead.list(limit=1_500)) == 2 * BATCH


async def test_a_bulk_that_ends_with_its_loop_says_so(app: Mainspring) -> None:
    await bury(app, 2 * BATCH)
    controls = (await storage_of(app)).controls
    discard, second = controls.discard, asyncio.Event()
    batches: list[int] = []

    async def waits(which: DeadSelection, by: By, limit: int) -> int:
        if batches:
            second.set()
            await asyncio.Event().wait()
        batches.append(await discard(which, by, limit))
        return batches[-1]

    controls.discard = waits  # type: ignore[method-assign]
    bulk = asyncio.create_task(app.messages.apply("discard", Filter("dead"), by="ann"))
    await second.wait()
    (work,) = [each for each in asyncio.all_tasks() if each.get_name() == "mainspring-discard"]
    for each in (bulk, work):  # as asyncio.run() does in the end
        each.cancel()

    with pytest.raises(asyncio.CancelledError):
        await bulk
    assert await audited(app) == [("ann", "discard", "state dead", f"{BATCH} discarded; cancelled")]


async def test_nothing_that_matches_is_no_line_in_the_audit(app: Mainspring) -> None:
    told: list[int] = []

    assert await app.messages.apply("revive", Filter("dead"), progress=told.append) == 0
    assert (told, await audited(app)) == ([0], [])
