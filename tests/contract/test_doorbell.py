"""The doorbell: a hint, on the listener's own loop."""

import asyncio
import threading
from uuid import uuid4

import pytest

from mainspring.model.join import Join
from mainspring.model.schedule import NEVER
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE
from mainspring.storage.contract import Storage
from tests.contract.acting import NOON, bury_one, claim_one, declare, draft, publish, settle, siblings
from tests.contract.scheduling import NAME, NOTE, keep, look, occurrence, schedule

pytestmark = [pytest.mark.memory, pytest.mark.psycopg]

PATIENCE = 20.0
"""Far longer than any bell takes; only a bell that never rings is waited for so long."""


class QueueWaiter:
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
    ear = QueueWaiter(storage)
    await storage.doorbell.arm(["mailer"])

    async with siblings(storage, 1) as (other,):
        await publish(other, draft())
        await ear.hears("mailer")

    assert ear.threads == {threading.get_ident()}


async def test_a_publish_straight_to_a_group_is_heard(storage: Storage) -> None:
    ear = QueueWaiter(storage)
    await storage.doorbell.arm(["mailer"])

    await publish(storage, draft(group="mailer"))

    await ear.hears("mailer")


async def test_a_parked_message_is_heard_when_it_is_routed(storage: Storage) -> None:
    await publish(storage, draft())
    await declare(storage, "mailer")
    ear = QueueWaiter(storage)
    await storage.doorbell.arm(["mailer"])

    await storage.upkeep.reroute(10)

    await ear.hears("mailer")


async def test_a_ring_is_heard_by_everyone(storage: Storage) -> None:
    async with siblings(storage, 2) as (one, other):
        ears = [QueueWaiter(one), QueueWaiter(other)]
        for door in (one, other):
            await door.doorbell.arm(["mailer"])

        await storage.doorbell.ring()

        for ear in ears:
            await ear.hears()


async def test_a_rewritten_schedule_is_heard_by_everyone(storage: Storage) -> None:
    async with siblings(storage, 2) as (one, other):
        ears = [QueueWaiter(one), QueueWaiter(other)]
        for door in (one, other):
            await door.doorbell.arm(["mailer"])

        await keep(storage, schedule())

        for ear in ears:
            await ear.hears()


async def test_thawed_schedules_are_heard(storage: Storage) -> None:
    await storage.timetable.freeze("shop", "ann", "upgrade")
    ear = QueueWaiter(storage)
    await storage.doorbell.arm(["mailer"])

    await storage.timetable.thaw("shop", "ann")

    await ear.hears()


async def test_a_delivery_that_waits_no_longer_is_heard(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", schedule=NAME))
    await storage.timetable.enter([occurrence(NOON, due_at=NEVER)], NOTE)
    await settle(storage, await claim_one(storage), DONE)
    ear = QueueWaiter(storage)
    await storage.doorbell.arm(["mailer"])

    await look(storage)

    await ear.hears("mailer")


async def test_a_publish_from_another_thread_is_heard_on_the_listeners_loop(storage: Storage) -> None:
    ear = QueueWaiter(storage)
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


async def test_a_member_that_ends_without_a_verdict_is_heard_by_everyone(storage: Storage) -> None:
    await declare(storage, "printer")
    cancelled, retired = draft(group="mailer"), draft(group="printer")
    await storage.mailbox.join(Join(uuid4(), draft(group="boss")), [cancelled, retired])
    async with siblings(storage, 2) as (one, other):
        first = QueueWaiter(one)
        await storage.mailbox.cancel(cancelled.id, "obsolete")
        await first.hears()
        second = QueueWaiter(other)
        await storage.controls.retire("printer", "ann", 10)
        await second.hears()
