"""Namespaces never meet: every public call is made in one of two, and nothing of the other is changed or told."""

import asyncio
import inspect
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from mainspring import Mainspring
from tests.integration.namespaces.calls import CALLS, WIRING
from tests.integration.namespaces.report import note
from tests.integration.namespaces.world import ALONE, HANDLED, MINE, THEIRS, Place, shown, stock

ROOMS = (
    "",
    "messages",
    "dead",
    "groups",
    "workers",
    "schedules",
    "inbox",
    "leases",
    "joins",
    "fanouts",
    "stats",
    "queue",
)


class Face:
    """An app, or its ``sync``, with what the walk knows of it besides."""

    def __init__(self, face: Any, walked: Any, their_join: Any) -> None:
        self._face, self.walked, self.their_join = face, walked, their_join

    def __getattr__(self, name: str) -> Any:
        return getattr(self._face, name)


def offered(face: Any) -> Iterator[str]:
    """Every public call of an app or of its twin, by reflection."""
    for room in ROOMS:
        there = face if not room else face.queue("jobs", "jobs.new") if room == "queue" else getattr(face, room)
        besides = {*WIRING.get(room, ()), *((*ROOMS, "sync") if not room else ())}
        for name in dir(type(there)) + list(vars(there)):
            if not name.startswith("_") and name not in besides:
                yield f"{room}.{name}".removeprefix(".")


def test_every_public_call_has_its_place_in_the_walk() -> None:
    app = Mainspring("memory://")

    assert sorted(set(offered(app))) == sorted(CALLS)
    assert set(offered(app.sync)) <= set(CALLS)


async def test_no_call_of_one_namespace_reaches_into_another(place: Place, request: pytest.FixtureRequest) -> None:
    mine, theirs = place.app("mine", MINE), place.app("theirs", THEIRS)
    leaks: list[str] = []
    made = 0
    async with mine, theirs:
        await stock(mine, MINE)
        await stock(theirs, THEIRS)
        (their_join,) = await theirs.joins.list()
        walked = mine.consumers_of_the_walk  # type: ignore[attr-defined]
        seen, rows = await shown(theirs), await place.tables("theirs")
        assert THEIRS in repr(seen)
        assert place.engine == "memory" or THEIRS in repr(rows)
        for face in (mine, mine.sync):
            offers = set(offered(face))
            *_, last = (name for name in CALLS if name in offers)
            for name, call in CALLS.items():
                if name not in offers:
                    continue
                made += 1
                where = f"{type(face).__name__}.{name}"
                looks = Face(face, walked, their_join.id)
                try:
                    if face is mine:
                        answer = await awaited(call(looks))
                    else:
                        answer = await asyncio.to_thread(blocking, call, looks)
                except Exception as error:
                    raise AssertionError(f"{where} failed: {error!r}") from error
                if THEIRS in repr(answer):
                    leaks.append(f"{where} tells of the other namespace: {answer!r}")
                stored = await place.tables("theirs")
                leaks += [f"{where} changed the other's table {key}" for key in rows if rows[key] != stored[key]]
                rows = stored
                # What is shown is read from the tables: where these are compared, one look in the end is enough.
                if not rows or name == last:
                    now = await shown(theirs)
                    leaks += [f"{where} changed what the other shows as {key}" for key in seen if seen[key] != now[key]]
                    seen = now
        await asyncio.to_thread(mine.sync.close)
    note(request.node, place.engine, made, len(leaks))
    assert leaks == []


async def test_a_worker_takes_nothing_of_another_namespace(place: Place) -> None:
    mine, theirs = place.app("mine", MINE), place.app("theirs", THEIRS)
    async with theirs:
        await stock(theirs, THEIRS)
        await theirs.publish("orders.placed", {"who": THEIRS})
        seen, rows = await shown(theirs), await place.tables("theirs")

        async with mine.worker():
            await mine.publish("orders.placed", {"who": MINE}, message_id=HANDLED)
            async with asyncio.timeout(60):
                while not await mine.messages.list("done"):
                    await asyncio.sleep(0.01)
            assert await mine.messages.get(ALONE) is None

        assert (await shown(theirs), await place.tables("theirs")) == (seen, rows)


async def awaited(answer: Any) -> Any:
    if not inspect.isgenerator(answer):
        return await answer if inspect.isawaitable(answer) else answer
    return await _driven(answer)


async def _driven(steps: Generator[Any, Any, Any]) -> Any:
    try:
        step = next(steps)
        while True:
            try:
                got = await step if inspect.isawaitable(step) else step
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(got)
    except StopIteration as stop:
        return stop.value


def blocking(call: Any, face: Face) -> Any:
    answer = call(face)
    return _run(answer) if inspect.isgenerator(answer) else answer


def _run(steps: Generator[Any, Any, Any]) -> Any:
    try:
        step = next(steps)
        while True:
            step = steps.send(step)
    except StopIteration as stop:
        return stop.value
