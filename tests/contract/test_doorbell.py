"""The doorbell: a hint, on the listener's own loop."""

import asyncio
import threading

import pytest

from mainspring.model.views import DeadSelection
from mainspring.storage.contract import Storage
from tests.contract.acting import bury_one, declare, draft, publish, siblings

PATIENCE = 20.0
"""Far longer than any bell takes; only a bell that never rings is waited for so long."""


class Ear:
    """Hears the bell of a storage, and remembers for which groups it rang and in which thread."""

    def __init__(self, storage: Storage) -> None:
        self.heard: list[str] = []
        self.threads: set[int] = set()
        self._rang = asyncio.Event()
        storage.doorbell.listen(self._hear)

    def _hear(self, group: str) -> None:
        self.heard.append(group)
        self.threads.add(threading.get_ident())
        self._rang.set()

    async def hears(self, *groups: str) -> None:
        """Wait until it rang for one of the groups, or for any."""
        async with asyncio.timeout(PATIENCE):
            while not {*groups, ""} & set(self.heard):
                self._rang.clear()
                await self._rang.wait()


@pytest.fixture(autouse=True)
def _real_clock(storage: Storage) -> None:
    """Bells are armed for a while by the database's own clock."""
    storage.now = None


async def test_a_publish_through_another_door_is_heard(storage: Storage) -> None:
    await declare(storage, "mailer")
    ear = Ear(storage)
    await storage.doorbell.arm(["mailer"])

    async with siblings(storage, 1) as (other,):
        await publish(other, draft())
        await ear.hears("mailer")

    assert ear.threads == {threading.get_ident()}


async def test_a_publish_straight_to_a_group_is_heard(storage: Storage) -> None:
    ear = Ear(storage)
    await storage.doorbell.arm(["mailer"])

    await publish(storage, draft(group="mailer"))

    await ear.hears("mailer")


async def test_a_parked_message_is_heard_when_it_is_routed(storage: Storage) -> None:
    await publish(storage, draft())
    await declare(storage, "mailer")
    ear = Ear(storage)
    await storage.doorbell.arm(["mailer"])

    await storage.upkeep.reroute(10)

    await ear.hears("mailer")


async def test_a_ring_is_heard_by_everyone(storage: Storage) -> None:
    async with siblings(storage, 2) as (one, other):
        ears = [Ear(one), Ear(other)]
        for door in (one, other):
            await door.doorbell.arm(["mailer"])

        await storage.doorbell.ring()

        for ear in ears:
            await ear.hears()


async def test_a_publish_from_another_thread_is_heard_on_the_listeners_loop(storage: Storage) -> None:
    ear = Ear(storage)
    await storage.doorbell.arm(["mailer"])
    other = storage.sibling()

    async def publish_there() -> None:
        await other.open()
        await publish(other, draft(group="mailer"))
        await other.close()

    await asyncio.to_thread(asyncio.run, publish_there())

    await ear.hears("mailer")
    assert ear.threads == {threading.get_ident()}


async def test_arming_and_disarming_may_be_repeated(storage: Storage) -> None:
    for _ in range(2):
        await storage.doorbell.arm(["mailer", "analytics"])
    for _ in range(2):
        await storage.doorbell.disarm(["mailer"])
    await storage.doorbell.disarm(["never armed"])
    await storage.doorbell.arm([])
    await storage.doorbell.disarm([])

    assert storage.doorbell.mode in ("notify", "watch", "poll")


async def test_nobody_needs_to_listen(storage: Storage) -> None:
    await storage.doorbell.ring()
    await bury_one(storage)

    assert await storage.controls.revive(DeadSelection(), "ann", 10) == 1
