import asyncio
from uuid import UUID, uuid4

import pytest

from mainspring.app.batcher import BATCH, PublishBatcher
from mainspring.model.errors import SchemaMissing, StorageError, StorageUnavailable
from mainspring.model.message import Draft, Receipt
from mainspring.timing.clock import HandClock
from tests.unit.app.stage import NOON, Moody, Patience


class Stage:
    def __init__(self) -> None:
        self.storage = Moody()
        self.clock = HandClock(NOON)
        self.sleep = Patience(self.clock)
        self.rung = 0
        self.batcher = PublishBatcher(self.storage, self.clock, self._ring, self.sleep)

    def _ring(self) -> None:
        self.rung += 1


def draft(topic: str = "a", id: UUID | None = None) -> Draft:
    return Draft(id or uuid4(), topic, b"1")


async def test_publishes_of_one_turn_travel_together() -> None:
    stage = Stage()
    drafts = [draft() for _ in range(20)]

    receipts = await asyncio.gather(*(stage.batcher.publish(each, fresh=True) for each in drafts))

    assert receipts == [Receipt(each.id, "stored") for each in drafts]
    assert stage.storage.batches == [drafts]
    assert stage.rung == 1


async def test_a_batch_has_a_limit() -> None:
    stage = Stage()

    await asyncio.gather(*(stage.batcher.publish(draft(), fresh=True) for _ in range(BATCH + 1)))

    assert [len(batch) for batch in stage.storage.batches] == [BATCH, 1]


async def test_what_arrives_while_a_batch_travels_is_the_next_batch() -> None:
    stage = Stage()
    gate = asyncio.Event()
    store = stage.storage.mailbox.publish

    async def slow(drafts: object) -> object:
        await gate.wait()
        return await store(drafts)  # type: ignore[arg-type]

    stage.storage.mailbox.publish = slow  # type: ignore[method-assign, assignment]
    first = asyncio.create_task(stage.batcher.publish(draft(), fresh=True))
    await asyncio.sleep(0)
    later = [asyncio.create_task(stage.batcher.publish(draft(), fresh=True)) for _ in range(3)]
    await asyncio.sleep(0)

    gate.set()
    await asyncio.gather(first, *later)

    assert [len(batch) for batch in stage.storage.batches] == [1, 3]


async def test_an_id_of_the_callers_own_that_is_known_is_a_duplicate() -> None:
    stage, given = Stage(), draft()
    await stage.batcher.publish(given, fresh=False)

    again = await stage.batcher.publish(given, fresh=False)

    assert again == Receipt(given.id, "duplicate")
    assert stage.rung == 1


async def test_the_same_id_twice_in_one_batch_is_stored_once() -> None:
    stage, given = Stage(), draft()

    receipts = await asyncio.gather(*(stage.batcher.publish(given, fresh=False) for _ in range(2)))

    assert [receipt.status for receipt in receipts] == ["stored", "duplicate"]


async def test_an_outage_is_waited_out() -> None:
    stage, given = Stage(), draft()
    stage.storage.before = [StorageUnavailable("away")] * 3

    receipt = await stage.batcher.publish(given, fresh=True)

    assert receipt == Receipt(given.id, "stored")
    assert stage.storage.batches == [[given]] * 4
    assert all(0.5 * most <= nap <= most for nap, most in zip(stage.sleep.naps, (0.05, 0.1, 0.2), strict=True))


async def test_a_lost_answer_is_no_duplicate_when_the_id_was_made_here() -> None:
    stage, given = Stage(), draft()
    stage.storage.after = [StorageUnavailable("the reply was lost")]

    receipt = await stage.batcher.publish(given, fresh=True)

    assert receipt == Receipt(given.id, "stored")


async def test_a_long_outage_is_told_within_the_deadline() -> None:
    stage = Stage()
    stage.storage.before = [StorageUnavailable("away")] * 1000

    with pytest.raises(StorageUnavailable, match="away"):
        await stage.batcher.publish(draft(), fresh=True)

    assert 8.0 <= stage.clock.monotonic() <= 10.0


async def test_those_who_wait_behind_an_outage_do_not_wait_one_after_another() -> None:
    stage = Stage()
    stage.storage.before = [StorageUnavailable("away")] * 1000

    outcomes = await asyncio.gather(
        *(stage.batcher.publish(draft(), fresh=True) for _ in range(BATCH * 3)), return_exceptions=True
    )

    assert {type(outcome) for outcome in outcomes} == {StorageUnavailable}
    assert stage.clock.monotonic() <= 10.0


async def test_a_bad_draft_fails_alone() -> None:
    stage = Stage()
    await stage.storage.schema.migrate()
    stage.storage.poison = {"bad": StorageError("the database said no")}
    drafts = [draft("a"), draft("bad"), draft("b")]

    outcomes = await asyncio.gather(
        *(stage.batcher.publish(each, fresh=True) for each in drafts), return_exceptions=True
    )

    assert outcomes[0] == Receipt(drafts[0].id, "stored")
    assert isinstance(outcomes[1], StorageError)
    assert outcomes[2] == Receipt(drafts[2].id, "stored")
    assert [len(batch) for batch in stage.storage.batches] == [3, 1, 1, 1]


async def test_a_missing_schema_is_told_to_all_at_once() -> None:
    stage = Stage()
    stage.storage.before = [SchemaMissing(0, 1)]

    outcomes = await asyncio.gather(
        *(stage.batcher.publish(draft(), fresh=True) for _ in range(3)), return_exceptions=True
    )

    assert {str(outcome) for outcome in outcomes} == {str(SchemaMissing(0, 1))}
    assert len(stage.storage.batches) == 1


async def test_a_database_error_that_hides_a_missing_schema_is_explained() -> None:
    stage = Stage()
    stage.storage.before = [StorageError("no such table")]

    async def check() -> None:
        raise SchemaMissing(0, 1)

    stage.storage.schema.check = check  # type: ignore[method-assign]

    with pytest.raises(SchemaMissing):
        await stage.batcher.publish(draft(), fresh=True)


async def test_an_error_nobody_expected_leaves_no_caller_waiting() -> None:
    stage = Stage()
    stage.storage.before = [RuntimeError("a bug")]

    with pytest.raises(RuntimeError, match="a bug"):
        await stage.batcher.publish(draft(), fresh=True)


async def test_a_caller_who_gave_up_in_time_is_not_stored() -> None:
    stage = Stage()
    given_up, kept = draft("given.up"), draft("kept")
    first = asyncio.create_task(stage.batcher.publish(given_up, fresh=True))
    second = asyncio.create_task(stage.batcher.publish(kept, fresh=True))
    await asyncio.sleep(0)

    first.cancel()
    await second

    assert stage.storage.batches == [[kept]]


async def test_closing_waits_for_what_is_on_its_way() -> None:
    stage = Stage()
    publishing = asyncio.create_task(stage.batcher.publish(draft(), fresh=True))
    await asyncio.sleep(0)

    await stage.batcher.close()

    assert publishing.done() or (await publishing).status == "stored"
    assert len(stage.storage.batches) == 1


async def test_many_are_stored_batch_after_batch() -> None:
    stage = Stage()
    drafts = [draft() for _ in range(BATCH * 2 + 1)]

    receipts = await stage.batcher.publish_many(drafts)

    assert receipts == [Receipt(each.id, "stored") for each in drafts]
    assert [len(batch) for batch in stage.storage.batches] == [BATCH, BATCH, 1]
