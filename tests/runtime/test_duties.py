"""Every duty of the janitor in its own right: one that fails, or takes for ever, stops no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.retention import CHORES, Chore, Pruned, Retention
from mainspring.runtime.janitor import Pruning
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.worker import Worker
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock
from tests.runtime.stage import Stage

DUTIES = {
    "beat": "reporting",
    "declare": "subscribing",
    "reroute": "rerouting",
    "prune": "pruning",
    "recount": "recounting",
}
"""What each calls, and the loop that calls it."""


class Ailing:
    """``Upkeep`` of which one operation fails, or never answers, once it is told to."""

    def __init__(self, upkeep: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.ails: str | None = None
        self.hangs = False
        self._upkeep = upkeep

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._upkeep, name)

        async def called(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if name == self.ails:
                if self.hangs:
                    await asyncio.Event().wait()
                raise StorageUnavailable(f"{name} took too long")
            return await operation(*args, **options)

        return called


class Sickroom:
    """A storage with such an upkeep."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.upkeep = Ailing(storage.upkeep)
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.runtime.janitor._ROUND", 0.01)
    monkeypatch.setattr("mainspring.runtime.janitor._PRUNE_EVERY", 0.01)


async def _goes_on(stage: Stage, upkeep: Ailing, ailing: str) -> None:
    for name in DUTIES.keys() - {ailing}:
        before = upkeep.calls[name]
        await stage.until(lambda name=name, before=before: upkeep.calls[name] >= before + 3)  # type: ignore[misc]


def _failing(worker: Worker) -> set[str]:
    return {name for name, report in worker.progress().items() if report.failures}


@pytest.mark.parametrize("ailing", DUTIES)
async def test_a_duty_that_fails_stops_no_other_and_comes_back(stage: Stage, ailing: str) -> None:
    room = Sickroom(stage.storage)
    async with stage.worker(stage.handler(lambda *_: None), storage=room) as worker:
        await _goes_on(stage, room.upkeep, "")

        room.upkeep.ails = ailing
        await stage.until(lambda: _failing(worker) == {DUTIES[ailing]})
        await _goes_on(stage, room.upkeep, ailing)
        failing = _failing(worker)
        room.upkeep.ails = None
        await stage.until(lambda: not _failing(worker))

    assert failing == {DUTIES[ailing]}


@pytest.mark.parametrize("ailing", DUTIES)
async def test_a_duty_that_never_ends_stops_no_other(stage: Stage, ailing: str) -> None:
    room = Sickroom(stage.storage)
    room.upkeep.hangs = True
    worker = stage.make(stage.handler(lambda *_: None), storage=room)
    await worker.start()

    room.upkeep.ails = ailing
    before = room.upkeep.calls[ailing]
    await stage.until(lambda: room.upkeep.calls[ailing] > before)
    await _goes_on(stage, room.upkeep, ailing)
    room.upkeep.hangs = False

    await worker.stop()


class Shelves:
    """``Upkeep`` of which one chore fails."""

    def __init__(self, ailing: Chore | None = None) -> None:
        self.pruned: list[Chore] = []
        self.after: list[str | None] = []
        self.ailing = ailing
        self.last: str | None = None

    async def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Pruned:
        assert chore is not None
        if chore == self.ailing:
            raise StorageUnavailable("it took too long")
        self.pruned.append(chore)
        if chore == "dead":
            self.after.append(after)
        return Pruned(last=self.last) if chore == "dead" else Pruned()


def _pruning(upkeep: Shelves, clock: HandClock) -> Pruning:
    return Pruning(upkeep, Retention(), RateLimitedLog(clock), clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("ailing", get_args(Chore))
async def test_a_chore_that_fails_stops_no_other_and_is_told(ailing: Chore) -> None:
    clock = HandClock(datetime(2030, 1, 1, tzinfo=UTC))
    upkeep = Shelves(ailing)
    pruning = _pruning(upkeep, clock)
    clock.advance(timedelta(minutes=1))

    with pytest.raises(StorageUnavailable, match="it took too long"):
        await pruning.turn()

    assert upkeep.pruned == [each for each in CHORES if each != ailing]


async def test_a_walk_over_topics_goes_on_where_it_was_and_then_from_the_beginning() -> None:
    clock = HandClock(datetime(2030, 1, 1, tzinfo=UTC))
    upkeep = Shelves()
    pruning = _pruning(upkeep, clock)

    for upkeep.last in ("b", "d", None, None):
        clock.advance(timedelta(minutes=1))
        await pruning.turn()

    assert upkeep.after == [None, "b", "d", None]
