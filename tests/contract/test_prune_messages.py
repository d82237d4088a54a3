"""Pruning of messages goes by whole batches: who prunes learns whether more of them wait, however few were removed."""

import pytest

from mainspring.model.message import Keep
from mainspring.model.retention import Pruned, Retention
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, NOW, WORKER, claim, draft, publish, turn

PLAIN = Retention(repeats=HOUR)
BATCHES = 3


async def end(storage: Storage, size: int, keep: Keep = "none") -> None:
    """Publish so many messages, and end them at once."""
    await publish(storage, *(draft(group="mailer") for _ in range(size)))
    held = await claim(storage)
    await storage.mailbox.settle([Settlement(each.claim, DONE, keep, NOW) for each in held], WORKER)


async def pruned(storage: Storage, limit: int) -> list[tuple[int, str | None]]:
    """What each of several prunings has removed, and whether it was told to go on."""
    answers = [await storage.upkeep.prune(PLAIN, limit, chore="messages") for _ in range(BATCHES + 1)]
    return [(each.messages, each.last) for each in answers]


@pytest.mark.parametrize(("size", "limit"), [(3, 5), (3, 3), (3, 2), (1, 1)])
async def test_it_goes_on_while_batches_are_left_over(storage: Storage, size: int, limit: int) -> None:
    for _ in range(BATCHES):
        await end(storage, size)
    turn(storage, 2 * HOUR)

    assert await pruned(storage, limit) == [(size, ""), (size, ""), (size, None), (0, None)]


async def test_it_goes_on_though_nothing_of_a_batch_can_be_removed(storage: Storage) -> None:
    for _ in range(BATCHES):
        await end(storage, 3, keep="all")
    turn(storage, 2 * HOUR)

    assert await pruned(storage, 5) == [(0, ""), (0, ""), (0, None), (0, None)]


async def test_batches_whose_time_has_not_come_are_not_waited_for(storage: Storage) -> None:
    await end(storage, 3)
    turn(storage, HOUR)
    await end(storage, 3)
    turn(storage, 1.5 * HOUR)

    assert await pruned(storage, 3) == [(3, None), (0, None), (0, None), (0, None)]


async def test_all_chores_at_once_take_one_round_of_messages(storage: Storage) -> None:
    for _ in range(BATCHES):
        await end(storage, 3)
    turn(storage, 2 * HOUR)

    assert await storage.upkeep.prune(PLAIN, 5) == Pruned(messages=3)
