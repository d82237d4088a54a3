import asyncio
import os
import threading

import pytest

from mainspring import Mainspring
from mainspring.app.connection import Connection, Opening
from mainspring.model.errors import Misuse, NotOpen, SchemaTooNew, StorageUnavailable
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock
from tests.unit.app.stage import NOON


class Counted(MemoryStorage):
    """A storage that counts how often it and its siblings were opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.closed = 0
        self.trouble: list[Exception] = []

    async def open(self) -> None:
        self.opened += 1
        migrate = self.schema.migrate

        async def troubled() -> list[str]:
            if self.trouble:
                raise self.trouble.pop(0)
            return await migrate()

        self.schema.migrate = troubled  # type: ignore[method-assign]

    async def close(self) -> None:
        self.closed += 1


async def opened(entrance: Connection) -> Opening:
    opening = await entrance.opening("app.publish()")
    assert isinstance(opening, Opening)
    return opening


def connection(storage: MemoryStorage) -> Connection:
    return Connection(lambda: storage, HandClock(NOON), lambda: None, auto_migrate=False)


async def test_a_door_opens_once_and_closes_behind_the_last() -> None:
    storage = Counted()
    entrance = connection(storage)

    await asyncio.gather(entrance.open(), entrance.open())
    await entrance.close()
    assert (storage.opened, storage.closed) == (1, 0)

    await entrance.close()
    assert (storage.opened, storage.closed) == (1, 1)
    with pytest.raises(NotOpen):
        await entrance.opening("app.publish()")


async def test_what_is_used_before_it_is_open_says_how_to_open() -> None:
    with pytest.raises(NotOpen) as refused:
        await Mainspring("memory://").publish("a", 1)

    assert str(refused.value) == (
        "app.publish() needs an open app: write `async with app:` around it, or `async with app.worker():`"
    )


async def test_an_outage_does_not_stop_the_opening() -> None:
    storage = Counted()
    storage.trouble = [StorageUnavailable("away")]
    entrance = connection(storage)

    await entrance.open()
    opening = await opened(entrance)
    assert opening.migrating is not None
    await opening.migrating

    assert storage.trouble == []
    assert await storage.schema.version() > 0
    await entrance.close()


async def test_leaving_during_an_outage_stops_trying() -> None:
    storage = Counted()
    storage.trouble = [StorageUnavailable("away")] * 1000
    entrance = connection(storage)
    await entrance.open()
    migrating = (await opened(entrance)).migrating
    assert migrating is not None

    await entrance.close()

    assert migrating.cancelled()
    assert storage.closed == 1


async def test_a_schema_that_is_too_new_refuses_to_open_and_leaves_nothing_open() -> None:
    storage = Counted()
    storage.trouble = [SchemaTooNew(9, 1)]
    entrance = connection(storage)

    with pytest.raises(SchemaTooNew):
        await entrance.open()

    assert (storage.opened, storage.closed) == (1, 1)
    await entrance.open()
    await entrance.close()


def test_an_app_can_be_opened_again_on_another_loop() -> None:
    app = Mainspring("memory://")

    async def publish() -> int:
        async with app:
            await app.publish("a", 1)
            return len(await app.messages.list("parked"))

    assert asyncio.run(publish()) == 1
    assert asyncio.run(publish()) == 2


async def test_another_loop_cannot_use_what_this_one_opened() -> None:
    app = Mainspring("memory://")
    complaints: list[str] = []

    def elsewhere() -> None:
        with pytest.raises(Misuse) as refused:
            asyncio.run(app.publish("a", 1))
        complaints.append(str(refused.value))

    async with app:
        await asyncio.to_thread(elsewhere)

    [complaint] = complaints
    assert complaint == (
        "app.publish(): the app was opened on another event loop, and a connection cannot change loops: open it where "
        "it is used, or hand the call over with asyncio.run_coroutine_threadsafe"
    )
    assert threading.current_thread() is threading.main_thread()


async def test_a_forked_child_opens_anew_and_closes_nothing_of_its_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Counted()
    entrance = connection(storage)
    await entrance.open()
    parents = await opened(entrance)

    monkeypatch.setattr(os, "getpid", lambda: parents.pid + 1)
    childs = await entrance.opening("app.publish()")

    assert childs is not parents
    assert (storage.opened, storage.closed) == (2, 0)
    await entrance.close()
    assert storage.closed == 1


async def test_a_forked_child_that_leaves_closes_nothing_of_its_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Counted()
    entrance = connection(storage)
    await entrance.open()
    parents = await opened(entrance)

    monkeypatch.setattr(os, "getpid", lambda: parents.pid + 1)
    await entrance.close()
    await entrance.close_now()

    assert storage.closed == 0


async def test_sleepers_are_roused_again_after_an_opening_that_ended_too_soon() -> None:
    storage = Counted()
    roused = asyncio.Event()

    async def rouse() -> None:
        roused.set()

    storage.doorbell.rouse = rouse  # type: ignore[method-assign]
    entrance = connection(storage)
    await entrance.open()
    assert entrance.rouse()
    await entrance.close()

    await entrance.open()
    assert entrance.rouse()
    async with asyncio.timeout(5):
        await roused.wait()
    await entrance.close()
    assert not entrance.rouse()
