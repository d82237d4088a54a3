"""Many writers on the same rows wait for each other in one order, never in a circle."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Delivery
from mainspring.model.verdict import DONE, Release, Retry, Settlement, Verdict
from mainspring.model.verdict import Failure as Why
from mainspring.storage.contract import Keyed
from mainspring.storage.postgres import PostgresStorage
from tests.integration.postgres.acting import TOPIC, claim, declare, draft, publish

ROUNDS = 15
BATCH = 60


async def test_settling_extending_and_cancelling_the_same_rows_never_deadlocks(
    make: Callable[[], PostgresStorage],
) -> None:
    settler, twin, keeper, operator = storages = [make() for _ in range(4)]
    await settler.schema.migrate()
    await declare(settler)
    chance = random.Random(1)
    trouble: list[StorageUnavailable] = []

    async def settle(storage: PostgresStorage, held: list[Delivery], mixed: bool) -> None:
        verdicts: list[Verdict] = [DONE, Release(), Retry(timedelta(), Why("error", "boom"))] if mixed else [DONE]
        chosen = chance.sample(held, len(held))
        await storage.mailbox.settle([Settlement(each.claim, chance.choice(verdicts)) for each in chosen])

    async def extend(held: list[Delivery]) -> None:
        for _ in range(3):
            chosen = chance.sample(held, len(held))
            await keeper.mailbox.extend([each.claim for each in chosen], timedelta(minutes=1))

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
    assert len(storages) == 4


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


async def test_many_janitors_prune_and_reroute_without_counting_anything_twice(
    make: Callable[[], PostgresStorage],
) -> None:
    storages = [make() for _ in range(3)]
    await storages[0].schema.migrate()
    await publish(storages[0], 100, topic="later")
    await declare(storages[0], "mail", "later")

    routed = await asyncio.gather(*(each.upkeep.reroute(100) for each in storages))

    assert sum(routed) == 100
    assert len(await claim(storages[0])) == 100
