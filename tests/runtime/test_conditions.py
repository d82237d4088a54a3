"""``only_if``: the node that fires asks before it locks anything, and what is not met is skipped and counted."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from mainspring.model.message import Draft
from mainspring.model.schedule import QUEUE_EMPTY
from mainspring.runtime.schedules import conditions
from mainspring.runtime.schedules.declarations import Declared, Scheduling
from tests.runtime.scheduling import HOUR, HOURLY, MINUTE, NOON, SECOND, Node, Scene

NOON_ID = UUID(int=1)
CODED = {**HOURLY, "only_if": "code:shop.is_open"}


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.prepare()
    return scene


def node(scene: Scene, condition: Callable[[], Any] | None = None) -> Node:
    code = {} if condition is None else {"only_if": (condition,)}
    declared = {} if condition is None else {"report": Declared(CODED, {}, code)}
    return Node(scene.storage.sibling(), scene.clock, Scheduling("app", declared), HOUR)


@pytest.mark.parametrize("kind", ["plain", "async", "returns an awaitable"])
@pytest.mark.parametrize("met", [True, False])
async def test_it_fires_if_its_condition_is_met_and_is_skipped_otherwise(scene: Scene, kind: str, met: bool) -> None:
    asked: list[bool] = []

    def plain() -> bool:
        asked.append(threading.current_thread() is threading.main_thread())
        return met

    async def later() -> bool:
        asked.append(True)
        return met

    kinds: dict[str, Callable[[], Any]] = {"plain": plain, "async": later, "returns an awaitable": partial(later)}
    firing = node(scene, kinds[kind])
    await firing.turn()
    assert asked == []

    scene.clock.advance(HOUR)
    await firing.turn()

    assert asked == [kind != "plain"]  # a plain function may block, so it has a thread
    assert await scene.due_times() == ([NOON + HOUR] if met else [])
    row = await scene.row()
    assert (row.fired, row.missed, row.skipped, row.next_at) == (int(met), 0, int(not met), NOON + 2 * HOUR)


async def test_no_row_is_locked_while_it_is_asked(scene: Scene) -> None:
    async def rename() -> bool:
        if (await scene.row()).pause_reason is None:
            await scene.edit(pause_reason="it was asked")  # asked again, since the answer was for what it was before
        return True

    firing = node(scene, rename)
    await firing.turn()
    scene.clock.advance(HOUR)

    await firing.turn()
    await firing.turn()

    assert (await scene.row()).pause_reason == "it was asked"
    assert await scene.due_times() == [NOON + HOUR]


async def test_an_answer_counts_for_the_definition_that_it_was_given_for(scene: Scene) -> None:
    answers = [True, False]  # the second one is for the row as it is by then

    async def edited() -> bool:
        if len(answers) == 2:
            await scene.edit(edits={"priority": 1})
        return answers.pop(0)

    firing = node(scene, edited)
    await firing.turn()
    scene.clock.advance(HOUR)

    await firing.turn()
    assert answers == [False]
    assert (await scene.row()).fired == 0  # asked once more, in the next turn
    await firing.turn()

    row = await scene.row()
    assert (row.fired, row.skipped, answers) == (0, 1, [])


@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_condition_without_an_answer_leaves_its_schedule_for_a_minute(
    scene: Scene, how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE", 0.01)
    broken = True

    async def moody() -> bool:
        if broken and how == "raises":
            raise RuntimeError("no idea")
        if broken:
            await asyncio.Event().wait()
        return True

    await scene.put("other", definition={**HOURLY, "overlap": "allow"})
    firing = node(scene, moody)
    await firing.turn()
    scene.clock.advance(HOUR)
    await firing.turn()
    broken = False
    scene.clock.advance(30 * SECOND)
    await firing.turn()
    before = await scene.row()
    scene.clock.advance(MINUTE)
    await firing.turn()

    assert (before.fired, before.skipped) == (0, 0)
    assert (await scene.row("other")).fired == 2
    assert (await scene.row()).fired == 1
    said = "its only_if= failed: RuntimeError: no idea" if how == "raises" else "its only_if= has not returned within"
    assert said in caplog.text


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """What plain functions wait for: set at the end, whatever happens."""
    event = threading.Event()
    yield event
    event.set()


def asking(scene: Scene, **functions: Callable[[], Any]) -> Node:
    definition = {**CODED, "overlap": "allow"}
    declared = {name: Declared(definition, {}, {"only_if": (each,)}) for name, each in functions.items()}
    return Node(scene.storage.sibling(), scene.clock, Scheduling("app", declared), HOUR)


async def test_plain_functions_that_hang_take_no_thread_from_others_and_are_not_called_again_before_they_return(
    scene: Scene, hanging: threading.Event, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE", 0.2)
    monkeypatch.setattr(conditions, "_AT_ONCE", 2)
    begun: list[str] = []

    def stuck(name: str) -> Callable[[], bool]:
        def function() -> bool:
            begun.append(name)
            return hanging.wait(60)

        return function

    names = [f"stuck {number}" for number in range(5)]
    firing = asking(scene, **{name: stuck(name) for name in names}, fine=lambda: True)
    await firing.turn()
    for _ in range(3):
        scene.clock.advance(HOUR)
        await firing.turn()

    assert sorted(begun) == names
    assert (await scene.row("fine")).fired == 3
    assert "schedule fine" not in caplog.text
    assert "its only_if= has not returned within 0.2 s" in caplog.text
    assert "its only_if= has not returned since it was called last" in caplog.text

    hanging.set()
    for each in firing.scheduler._conditions._running.values():  # nothing else tells that a thread is done
        await asyncio.wait([each.answer])
    scene.clock.advance(HOUR)
    await firing.turn()
    assert (await scene.row(names[0])).fired == 1


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_all_conditions_that_are_asked_together_have_the_time_of_one(
    scene: Scene, kind: str, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE", 0.2)
    monkeypatch.setattr(conditions, "_AT_ONCE", 2)

    async def never() -> None:
        await asyncio.Event().wait()

    names = [f"stuck {number}" for number in range(20)]
    firing = asking(scene, **dict.fromkeys(names, never if kind == "async" else lambda: hanging.wait(60)))
    await firing.turn()
    scene.clock.advance(HOUR)

    began = asyncio.get_running_loop().time()
    await firing.turn()

    assert asyncio.get_running_loop().time() - began < 5 * conditions.PATIENCE
    assert len(firing.scheduler._left) == (20 if kind == "async" else 2)  # the others were not called


async def test_a_condition_that_began_late_has_its_own_time_and_is_called_once(
    scene: Scene, hanging: threading.Event, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE", 2.0)
    monkeypatch.setattr(conditions, "_AT_ONCE", 1)
    begun: list[str] = []

    def first() -> bool:
        begun.append("first")
        hanging.wait(1.2)
        return True

    def second() -> bool:
        begun.append("second")
        hanging.wait(1.2)
        return True

    firing = asking(scene, first=first, second=second)
    await firing.turn()
    scene.clock.advance(HOUR)
    await firing.turn()
    fired = sorted([(await scene.row("first")).fired, (await scene.row("second")).fired])
    await firing.turn()

    assert fired == [0, 1]
    assert [(await scene.row(name)).fired for name in ("first", "second")] == [1, 1]
    assert sorted(begun) == ["first", "second"]
    assert "has not returned" not in caplog.text


async def test_the_minute_begins_when_the_condition_has_not_answered(scene: Scene) -> None:
    asked: list[int] = []

    async def slow() -> bool:
        asked.append(1)
        scene.clock.advance(2 * MINUTE)
        raise RuntimeError("no idea")

    firing = node(scene, slow)
    await firing.turn()
    scene.clock.advance(HOUR)
    await firing.turn()
    await firing.turn()

    assert asked == [1]


async def test_a_timeout_of_its_own_is_reported_as_what_it_is(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    def slow() -> bool:
        raise TimeoutError("the bank did not answer")

    firing = node(scene, slow)
    await firing.turn()
    scene.clock.advance(HOUR)
    await firing.turn()

    assert "its only_if= failed: TimeoutError: the bank did not answer" in caplog.text


async def test_a_node_without_the_function_leaves_it_to_others(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    await node(scene, lambda: True).turn()
    scene.clock.advance(HOUR)

    await node(scene).turn()

    assert (await scene.row()).fired == 0
    assert "only_if is decided by shop.is_open, which this process does not have" in caplog.text


async def test_a_condition_that_an_operator_has_replaced_is_not_asked(scene: Scene) -> None:
    asked: list[int] = []
    firing = node(scene, lambda: asked.append(1))
    await firing.turn()
    await scene.edit(edits={"only_if": QUEUE_EMPTY})
    scene.clock.advance(HOUR)

    await firing.turn()

    assert asked == []
    assert (await scene.row()).fired == 1


@pytest.mark.parametrize(("waiting", "fired"), [(0, 1), (1, 0)])
async def test_a_queue_that_is_not_empty_skips_it(
    scene: Scene, waiting: int, fired: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainspring.scheduler")
    drafts = [Draft(NOON_ID, "work", b"1", group="work")][:waiting]
    await scene.storage.mailbox.publish(drafts)
    await scene.put(definition={**HOURLY, "only_if": QUEUE_EMPTY})

    await node(scene).turn()

    row = await scene.row()
    assert (row.fired, row.skipped) == (fired, 1 - fired)
    told = "schedule report: 1 occurrences are skipped: only_if='queue empty', and its group has something ready"
    assert (told in caplog.text) is not bool(fired)


async def test_what_was_missed_is_logged_once_with_how_many_and_why(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.put()
    scene.clock.advance(3 * HOUR)
    firing = node(scene)

    await firing.turn()
    await firing.turn()

    told = [each.getMessage() for each in caplog.records if "missed" in each.getMessage()]
    assert told == [
        f"schedule report: 3 occurrences were missed since {NOON}, and misfire='latest' makes up for 1",
    ]
