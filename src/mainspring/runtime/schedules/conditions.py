"""The functions of ``only_if``: asked by the node that fires, before it locks any row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from inspect import isawaitable
from typing import Any

from mainspring.model.interrupts import is_interrupt
from mainspring.model.schedule import Schedule
from mainspring.model.text import described
from mainspring.runtime.offload import Threads
from mainspring.runtime.schedules.declarations import Declared
from mainspring.runtime.schedules.plan import CODE, CannotPlan, Plan
from mainspring.storage.contract import Timetable

PATIENCE = 5.0
"""Seconds within which a condition must answer, from its start: other schedules of this node wait for it."""
_AT_ONCE = 16
"""How many conditions are asked at a time."""

Condition = Callable[[], Any]
"""Whether an occurrence may run now: plain, in a thread, or async."""


class Conditions:
    """The conditions of a worker's own code, and their answers for the occurrences that are due.

    An answer counts for one occurrence of one revision of the schedule. A condition that fails, or takes too long,
    leaves its schedule for a while: it is neither fired nor skipped. A plain function that has not returned is not
    called again before it has, so each has a thread at most, and takes none from the others.
    """

    def __init__(self, declared: Mapping[str, Declared], report: Callable[[str, str], None]) -> None:
        self._functions: dict[str, Condition] = {
            name: each.code["only_if"][0] for name, each in declared.items() if each.code.get("only_if")
        }
        self._report = report
        self._answers: dict[str, tuple[datetime | None, int, bool]] = {}
        self._threads = Threads(len(self._functions))
        self._running: dict[str, asyncio.Future[Any]] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._functions)

    async def ask(self, timetable: Timetable, leave: Collection[str]) -> list[str]:
        """Ask those whose schedules are due. Returns the schedules whose condition gave no answer."""
        sheet = await timetable.read([name for name in self._functions if name not in leave])
        frozen = {each.app for each in sheet.freezes}
        rows = [row for row in sheet.schedules if frozen.isdisjoint(("", row.app)) and _is_active(row)]
        due = [row for row in rows if row.next_at is not None and row.next_at <= sheet.now]
        turn = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(self._ask(row.name, turn) for row in due))
        self._answers = {
            row.name: (row.next_at, row.revision, answer)
            for row, answer in zip(due, answers, strict=True)
            if answer is not None
        }
        return [row.name for row, answer in zip(due, answers, strict=True) if answer is None]

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

    async def _ask(self, name: str, turn: asyncio.Semaphore) -> bool | None:
        running = self._running.get(name)
        if running is not None and not running.done():
            self._report(name, "its only_if= has not returned since it was called last, and is not called again before")
            return None
        async with turn:
            limit = asyncio.timeout(PATIENCE)
            try:
                async with limit:
                    return bool(await self._call(name))
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # a user's function may raise anything
                if is_interrupt(error):
                    raise
                late = limit.expired()
                why = f"has not returned within {PATIENCE:g} s" if late else f"failed: {described(error)}"
                self._report(name, f"its only_if= {why}")
        return None

    async def _call(self, name: str) -> Any:
        function = self._functions[name]
        if asyncio.iscoroutinefunction(function):
            return await function()
        self._running[name] = answer = self._threads.call(function)
        result = await asyncio.shield(answer)  # it is done when the function has returned
        return await result if isawaitable(result) else result


def _is_active(row: Schedule) -> bool:
    return row.paused_at is None and row.retired_at is None and _is_code(row.layers.get("only_if"))


def _is_code(only_if: object) -> bool:
    return isinstance(only_if, str) and only_if.startswith(CODE)
