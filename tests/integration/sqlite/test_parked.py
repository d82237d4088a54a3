"""Rerouting and pruning look at a stretch of topics, however many are parked: ten thousand here."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from mainspring.model.message import Draft
from mainspring.model.retention import Retention
from mainspring.model.views import Declaration
from mainspring.storage.portable.retention import STRETCH
from mainspring.storage.sqlite import SqliteStorage

TOPICS = 10_000


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = SqliteStorage(str(tmp_path / "lots.db"))
    await storage.open()
    await storage.schema.migrate()
    for start in range(0, TOPICS, 2_000):
        drafts = [Draft(UUID(int=n + 1), f"orders.{n:06}.placed", b"") for n in range(start, start + 2_000)]
        await storage.mailbox.publish(drafts)
    yield storage
    await storage.close()


async def _declare(storage: SqliteStorage, group: str, *patterns: str) -> None:
    await storage.upkeep.declare([Declaration(group, "shop", patterns, f"shop:{group}")])


async def test_a_new_subscriber_is_found_by_name_in_one_turn_and_by_pattern_in_so_many(
    storage: SqliteStorage,
) -> None:
    await _declare(storage, "late", "orders.009998.placed")
    at_once = await storage.upkeep.reroute(1000)
    await _declare(storage, "wild", "orders.009999.*", "*.*.cancelled")
    turns = 0
    after: str | None = None
    while not (found := await storage.upkeep.reroute(1000, after)).routed:
        after, turns = found.last, turns + 1
        assert after is not None

    assert (at_once.routed, at_once.last) == (1, None)
    assert turns == TOPICS // STRETCH - 1


async def test_all_that_is_parked_is_routed_when_a_group_subscribes_to_everything(storage: SqliteStorage) -> None:
    await _declare(storage, "all", "#")
    routed = 0
    after: str | None = None
    for _ in range(2 * TOPICS // 1_000 + 1):
        found = await storage.upkeep.reroute(1_000, after)
        routed, after = routed + found.routed, found.last

    assert (routed, (await storage.ledger.tally(10)).parked) == (TOPICS, 0)


async def test_what_is_over_is_pruned_in_stretches_of_topics(storage: SqliteStorage) -> None:
    kept = Retention(parked=timedelta(days=365), topics={"orders.009999.*": {"parked": timedelta()}})
    turns, after = 0, None
    while True:
        pruned = await storage.upkeep.prune(kept, 1000, chore="parked", after=after)
        turns, after = turns + 1, pruned.last
        if after is None or pruned.parked:
            break

    assert (pruned.parked, turns) == (1, TOPICS // STRETCH)
