"""The janitor prunes by itself, by the retention of its app, and goes on at once while there is more."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft, Keep
from mainspring.model.retention import Retention
from mainspring.model.verdict import DONE, Settlement
from mainspring.model.views import RunStatus, RunView
from mainspring.runtime.janitor import Pruning
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock
from tests.runtime.stage import rows

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAUSE = timedelta(seconds=30)
"""Between two prunings; the first comes no later."""


def pruning(storage: MemoryStorage, clock: HandClock, retention: Retention) -> Pruning:
    return Pruning(storage.upkeep, retention, RateLimitedLog(clock), clock)


def run(topic: str, status: RunStatus = "done") -> RunView:
    return RunView(0, uuid4(), "mail", topic, 1, status, NOON, NOON, None, None, None, None, None)


async def kept(storage: MemoryStorage) -> list[tuple[str, str]]:
    return sorted((each.topic, each.status) for each in await storage.ledger.runs(None, None, 10_000))


async def test_each_topic_is_pruned_by_its_own_retention() -> None:
    storage, clock = MemoryStorage(), HandClock(NOON)
    await storage.upkeep.record([run(topic, status) for topic in ("a.b", "c") for status in ("done", "failed")])
    keeps_house = pruning(storage, clock, Retention(done=2 * HOUR, topics={"a.*": {"done": None, "failures": HOUR}}))

    storage.now = NOON + 3 * HOUR
    clock.advance(PAUSE)
    await keeps_house.turn()

    assert await kept(storage) == [("a.b", "done"), ("c", "failed")]


async def test_more_than_a_batch_goes_in_turns_that_follow_at_once() -> None:
    storage, clock = MemoryStorage(), HandClock(NOON)
    await storage.upkeep.record([run("a.b") for _ in range(4_500)])
    keeps_house = pruning(storage, clock, Retention(topics={"a.*": {"done": HOUR}}))

    storage.now = NOON + 3 * HOUR
    clock.advance(PAUSE)
    pauses = [await keeps_house.turn() for _ in range(3)]

    assert [pause < 1 for pause in pauses] == [True, True, False]
    assert await kept(storage) == []


@pytest.mark.parametrize(("keep", "left"), [("none", 0), ("all", 12)])
async def test_messages_are_pruned_at_once_to_the_last_batch(
    keep: Keep, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.janitor._PRUNE_BATCH", 5)
    storage, clock = MemoryStorage(), HandClock(NOON)
    storage.now = NOON
    keeps_house = pruning(storage, clock, Retention(repeats=HOUR, done=None))
    for _ in range(4):
        await storage.mailbox.publish([Draft(uuid4(), "a.b", b"", group="mail") for _ in range(3)])
        held = await storage.mailbox.claim([ClaimRequest("mail", 10, ALL_LEVELS)], "node", HOUR)
        await storage.mailbox.settle([Settlement(each.claim, DONE, keep, timedelta()) for each in held], "node")

    storage.now = NOON + 2 * HOUR
    clock.advance(PAUSE)
    pauses = [await keeps_house.turn() for _ in range(4)]

    assert all(pause < 1 for pause in pauses[:3])
    assert pauses[3] == PAUSE.total_seconds()
    assert len(rows(storage, "SELECT 1 FROM mainspring_message")) == left
    assert rows(storage, "SELECT * FROM mainspring_ended") == []
