"""The functions of ``only_if``: asked by the node that fires, before it locks any row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from enum import Enum, auto
from inspect import isawaitable
from typing import Any, NamedTuple

from mainspring.model.interrupts import is_interrupt
from mainspring.model.schedule import Schedule
from mainspring.model.text import described
from mainspring.runtime.offload import Threads
from mainspring.runtime.schedules.declarations import Declared
from mainspring.runtime.schedules.plan import CODE, CannotPlan, Plan
from mainspring.runtime.service import FOREVER
from mainspring.storage.contract import Timetable

PATIENCE = 5.0
"""Seconds within which a condition must answer, from its start, and for which other schedules of this node wait."""
_AT_ONCE = 16
"""How many plain functions are called at a time."""

Condition = Callable[[], Any]
"""Whether an occurrence may run now: plain, in a thread, or async."""


class _Asked(Enum):
    """Why a condition gave no answer."""

    IN_VAIN = auto()
    """It failed or took too long."""
    TOO_LATE = auto()
    """Others took the time: it was not called, or has time left."""


class _Call(NamedTuple):
    """A call of a plain function."""

    occurrence: tuple[datetime | None, int]
    until: float
    """When its time is over, by the loop's clock."""
    answer: asyncio.Future[Any]


class Conditions:
    """The conditions of a worker's own code, and their answers for the occurrences that are due.

    An answer counts for one occurrence of one revision of the schedule. A condition that fails, or takes too long,
    leaves its schedule for a while: it is neither fired nor skipped. A plain function that has not returned is not
    called again before it has, so each has a thread at most, and takes none from the others.

    All that are asked together get ``PATIENCE``. One that began late is awaited by the next ``ask``, until its own time
    is over.
    """

    def __init__(self, declared: Mapping[str, Declared], report: Callable[[str, str], None]) -> None:
        self._functions: dict[str, Condition] = {
            name: each.code["only_if"][0] for name, each in declared.items() if each.code.get("only_if")
        }
        self._report = report
        self._answers: dict[str, tuple[datetime | None, int, bool]] = {}
        self._threads = Threads(len(self._functions))
        self._running: dict[str, _Call] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._functions)

    async def ask(self, timetable: Timetable, leave: Collection[str]) -> list[str]:
        """Ask those whose schedules are due. Returns the schedules whose condition failed or took too long.

        Those that it had no time for are due still, and unanswered.
        """
        sheet = await timetable.read([name for name in self._functions if name not in leave])
        frozen = {each.app for each in sheet.freezes}
        rows = [row for row in sheet.schedules if frozen.isdisjoint(("", row.app)) and _is_active(row)]
        due = [row for row in rows if row.next_at is not None and row.next_at <= sheet.now]
        turn = asyncio.Semaphore(_AT_ONCE)
        until = asyncio.get_running_loop().time() + PATIENCE
        answers = await asyncio.gather(*(self._ask(row, turn, until) for row in due))
        self._answers = {
            row.name: (row.next_at, row.revision, answer)
            for row, answer in zip(due, answers, strict=True)
            if isinstance(answer, bool)
        }
        return [row.name for row, answer in zip(due, answers, strict=True) if answer is _Asked.IN_VAIN]

    def is_unanswered(self, plan: Plan, row: Schedule) -> bool:
        """Return whether this occurrence has come due since its condition was asked."""
        if not _is_code(plan.fields.only_if) or row.name not in self._functions:
            return False
        return self._answers.get(row.name, (None, 0))[:2] != (row.next_at, row.revision)

    def answer(self, plan: Plan, row: Schedule) -> bool | None:
        """Return the answer for this occurrence; None if it has no such condition. Raises CannotPlan."""
        condition = plan.fields.only_if
        if condition is None or not _is_code(condition):
            return None
        if row.name not in self._functions:
            raise CannotPlan(f"only_if is decided by {condition[len(CODE) :]}, which this process does not have")
        return self._answers[row.name][2]

    async def _ask(self, row: Schedule, turn: asyncio.Semaphore, until: float) -> bool | _Asked:
        name, occurrence = row.name, (row.next_at, row.revision)
        call = self._running.get(name)
        if call is not None and call.answer.done():
            call = None
        if call is not None and (call.occurrence != occurrence or call.until <= until - PATIENCE):
            self._report(name, "its only_if= has not returned since it was called last, and is not called again before")
            return _Asked.IN_VAIN
        function = self._functions[name]
        ends = until if call is None else call.until
        limit = asyncio.timeout_at(ends)
        try:
            async with limit:
                if asyncio.iscoroutinefunction(function):
                    return bool(await function())
                if call is not None:
                    return bool(await _result(call))
                ends = FOREVER if turn.locked() else until
                async with turn:
                    ends = min(ends, asyncio.get_running_loop().time() + PATIENCE)
                    self._running[name] = call = _Call(occurrence, ends, self._threads.call(function))
                    return bool(await _result(call))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a user's function may raise anything
            if is_interrupt(error):
                raise
            late = limit.expired()
            if late and ends > until:
                return _Asked.TOO_LATE
            why = f"has not returned within {PATIENCE:g} s" if late else f"failed: {described(error)}"
            self._report(name, f"its only_if= {why}")
        return _Asked.IN_VAIN


async def _result(call: _Call) -> Any:
    result = await asyncio.shield(call.answer)  # it is done when the function has returned
    return await result if isawaitable(result) else result


def _is_active(row: Schedule) -> bool:
    return row.paused_at is None and row.retired_at is None and _is_code(row.layers.get("only_if"))


def _is_code(only_if: object) -> bool:
    return isinstance(only_if, str) and only_if.startswith(CODE)
