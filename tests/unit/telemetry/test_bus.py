import asyncio
import logging

import pytest

from mainspring.telemetry.bus import Bus


class Rang:
    pass


class Fell:
    pass


def test_nobody_is_told_what_nobody_wants() -> None:
    bus = Bus()
    assert not bus
    bus.subscribe(Rang, lambda event: None)

    assert bus
    assert bus.wants(Rang)
    assert not bus.wants(Fell)
    bus.emit(Fell())


def test_subscribers_are_told_in_their_order() -> None:
    bus, told = Bus(), []
    bus.subscribe(Rang, lambda event: told.append(("first", event)))
    bus.subscribe(Rang, lambda event: told.append(("second", event)))

    event = Rang()
    bus.emit(event)

    assert told == [("first", event), ("second", event)]


async def test_a_hook_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus()
    told: list[Rang] = []

    def broken(event: Rang) -> None:
        raise OSError("away")

    async def broken_too(event: Rang) -> None:
        raise OSError("away as well")

    bus.subscribe(Rang, broken)
    bus.subscribe(Rang, broken_too)
    bus.subscribe(Rang, told.append)
    with caplog.at_level(logging.ERROR):
        bus.emit(Rang())
        await bus.settled()

    assert len(told) == 1
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["away", "away as well"]
    assert "broken" in caplog.records[0].getMessage()


async def test_async_hooks_run_beside_and_can_be_waited_for() -> None:
    bus, gate, done = Bus(), asyncio.Event(), []

    async def slow(event: Rang) -> None:
        await gate.wait()
        done.append(event)

    bus.subscribe(Rang, slow)
    bus.emit(Rang())
    assert done == []

    gate.set()
    await bus.settled()
    assert len(done) == 1
