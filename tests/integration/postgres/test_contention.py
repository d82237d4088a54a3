"""Many writers on the same rows wait for each other in one order, never in a circle."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Delivery
from mainspring.model.retention import Retention
from mainspring.model.verdict import DONE, Release, Retry, Settlement, Verdict
from mainspring.model.verdict import Failure as Why
from mainspring.storage.contract import Keyed
from mainspring.storage.postgres import PostgresStorage
from tests.integration.postgres.acting import DRIVERS, TOPIC, Connection, claim, declare, draft, publish

pytestmark = pytest.mark.parametrize("driver", DRIVERS)

ROUNDS = 15
BATCH = 60


async def test_settling_extending_and_cancelling_the_same_rows_never_deadlocks(
    make: Callable[[], PostgresStorage],
) -> None:
    settler, twin, keeper, operator = (make() for _ in range(4))
    await settler.schema.migrate()
    await declare(settler)
    chance = random.Random(1)
    trouble: list[StorageUnavailable] = []

    async def settle(storage: PostgresStorage, held: list[Delivery], mixed: bool) -> None:
        verdicts: list[Verdict] = [DONE, Release(), Retry(timedelta(), Why("error", "boom"))] if mixed else [DONE]
        chosen = chance.sample(held, len(held))
        await storage.mailbox.settle([Settlement(each.claim, chance.choice(verdicts)) for each in chosen], "node")

    async def extend(held: list[Delivery]) -> None:
        for _ in range(3):
            chosen = chance.sample(held, len(held))
            await keeper.mailbox.extend([each.claim for each in chosen], "node", timedelta(minutes=1))

    async def cancel() -> None:
        await operator.mailbox.cancel(Keyed(TOPIC, "same"), "why")

    for _ in range(ROUNDS):
        await publish(settler, BATCH, key="same")
        held = await claim(settler)
        answers = await asyncio.gather(
            settle(settler, held, mixed=False),
            settle(twin, held, mixed=True),
            extend(held),
            cancel(),
            return_exceptions=True,
        )
        trouble += [each for each in answers if isinstance(each, StorageUnavailable)]
        assert not [each for each in answers if isinstance(each, Exception) and each not in trouble]

    assert trouble == []


async def test_a_claim_that_was_answered_is_a_claim_that_was_written(make: Callable[[], PostgresStorage]) -> None:
    storages = [make() for _ in range(4)]
    await storages[0].schema.migrate()
    await declare(storages[0])
    await publish(storages[0], BATCH)

    async def take_and_return(storage: PostgresStorage) -> int:
        hollow = 0
        for _ in range(60):
            held = await claim(storage, 20)
            settled = await storage.mailbox.settle([Settlement(each.claim, Release()) for each in held], "node")
            hollow += len(settled.lost) + len(settled.gone)
        return hollow

    # Rows are released and taken again under everybody's eyes, between a snapshot and a lock.
    assert sum(await asyncio.gather(*map(take_and_return, storages))) == 0


async def test_retrying_the_same_batch_in_another_order_never_deadlocks(make: Callable[[], PostgresStorage]) -> None:
    storages = [make() for _ in range(4)]
    await storages[0].schema.migrate()
    await declare(storages[0])
    chance = random.Random(2)

    for _ in range(ROUNDS):
        drafts = [draft() for _ in range(BATCH)]
        answers = await asyncio.gather(*(each.mailbox.publish(chance.sample(drafts, BATCH)) for each in storages))
        stored: list[UUID] = [id for answer in answers for id in answer.stored]
        assert sorted(stored) == sorted(each.id for each in drafts)


async def test_many_janitors_route_and_prune_without_counting_anything_twice(
    make: Callable[[], PostgresStorage],
) -> None:
    storages = [make() for _ in range(3)]
    first = storages[0]
    await first.schema.migrate()
    await publish(first, 100, topic="later")
    await declare(first, "mail", "later")

    routed = await asyncio.gather(*(each.upkeep.reroute(100) for each in storages))
    held = await claim(first)
    await first.mailbox.settle([Settlement(each.claim, DONE, "all") for each in held], "node")
    at_once = Retention(repeats=timedelta(), done=timedelta(), failures=timedelta())
    runs = await asyncio.gather(*(each.upkeep.prune(at_once, 1000) for each in storages))
    messages = [await first.upkeep.prune(at_once, 1000) for _ in range(3)]

    assert (sum(each.routed for each in routed), len(held)) == (100, 100)
    assert sum(each.runs for each in runs) == 100
    assert sum(each.messages for each in [*runs, *messages]) == 100


async def test_old_runs_that_must_be_kept_do_not_hide_those_that_need_not(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage, 60)
    held = await claim(storage)
    failure = Retry(timedelta(), Why("error", "boom"))
    await storage.mailbox.settle([Settlement(each.claim, failure) for each in held], "node")
    # Fifty deliveries are not through yet; behind their old runs are those of ten that are.
    again = await claim(storage)
    await storage.mailbox.settle([Settlement(each.claim, DONE) for each in again[50:]], "node")
    await connection.execute(f"UPDATE {postgres_schema}.run SET finished_at = now() + id * interval '1 second'")
    storage.now = held[0].claimed_at + timedelta(days=365)

    # Each look is at ten times the limit: one of them starts behind the fifty, sooner or later.
    pruned = looks_since = 0
    for _ in range(200):
        pruned += (await storage.upkeep.prune(Retention(), 2)).runs
        looks_since += pruned >= 10
        if looks_since > 20:
            break

    assert pruned == 10
