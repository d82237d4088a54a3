"""One thing that is done to everything a search finds, however much that is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Literal, assert_never, get_args

from mainspring.app.background import in_loop
from mainspring.app.paging import meant
from mainspring.model.browsing import By, DeadSelection, Filter, Line, Picked
from mainspring.model.errors import BadOption, StorageError, StorageUnavailable
from mainspring.model.message import Cancelled
from mainspring.storage.contract import Storage

Action = Literal["revive", "discard", "cancel", "run_now"]
Progress = Callable[[int], object]
"""Told how many are done so far, after every batch."""

BATCH = 500

_STATES: Mapping[Action, tuple[str, ...]] = {
    "revive": ("dead",),
    "discard": ("dead",),
    "cancel": ("live", "scheduled", "ready", "running", "lapsed", "retrying", "parked"),
    "run_now": ("scheduled", "retrying", "live"),
}
_NOTED: Mapping[Action, tuple[str, str]] = {
    "revive": ("revive", "revived"),
    "discard": ("discard", "discarded"),
    "cancel": ("cancel", "cancelled or asked to stop"),
    "run_now": ("hasten", "due now"),
}
"""What the audit calls it, and what has become of each."""
_UNSPOKEN = ("before", "limit", "scan", "weight")
_SEARCHED = ("text", "error")


class Errand:
    """Goes from the newest match to the oldest, batch by batch.

    A delivery keeps its place when it is revived, and what is published meanwhile has a higher one. So nothing is met
    twice, and there is an end, also where everything that is revived dies again at once (invariant 19).
    """

    def __init__(
        self,
        storage: Storage,
        action: Action,
        wanted: Filter,
        reason: str,
        rouse: Callable[[], object],
    ) -> None:
        if action not in get_args(Action):
            raise BadOption(f"action={action!r} must be one of {', '.join(get_args(Action))}")
        if wanted.state not in _STATES[action]:
            fitting = " or ".join(repr(each) for each in _STATES[action])
            raise BadOption(f"{action} does nothing to what is {wanted.state}: let the filter's state be {fitting}")
        self._storage = storage
        self._action: Action = action
        narrowed = replace(wanted, state="scheduled") if (action, wanted.state) == ("run_now", "live") else wanted
        self._wanted = replace(meant(narrowed), limit=BATCH, before=None)
        self._subject = described(wanted)
        self._cancelled = False
        self._reason = reason
        self._rouse = rouse

    async def run(self, by: str, progress: Progress | None, stop: Callable[[], bool]) -> int:
        """Do it until all are done or ``stop`` says so. Returns to how many it was done."""
        if not in_loop():
            return await self._run(by, progress, stop)  # in a test nothing waits, and so nobody is cancelled
        # The batch in hand comes to its end also where the caller is cancelled, and so does the line in the audit.
        work = asyncio.create_task(self._run(by, progress, stop), name=f"mainspring-{self._action}")
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            self._cancelled = True
            await asyncio.wait([work])
            work.exception()  # nobody is left to hear of it
            raise
        return work.result()

    async def _run(self, by: str, progress: Progress | None, stop: Callable[[], bool]) -> int:
        line: Line | None = None
        try:
            before: int | None = None
            while not (halted := self._cancelled or stop()):
                page = await self._storage.ledger.browse(replace(self._wanted, before=before))
                if page.rows:
                    line = line or await self._begun(by)
                    line = line.after(await self._do(tuple((each.message_id, each.group) for each in page.rows), line))
                if progress is not None:
                    progress(0 if line is None else line.done)
                before = page.before
                if before is None:
                    break
        except BaseException as error:
            if line is not None:
                with contextlib.suppress(StorageError):  # it says that it goes on, then, and how far it has come
                    cancelled = isinstance(error, asyncio.CancelledError)
                    told = "cancelled" if cancelled else f"failed: {type(error).__name__}"
                    await self._storage.controls.amend(line.id, told)
            raise
        if line is None:
            return 0
        standing = "ended" if not halted else "cancelled" if self._cancelled else "stopped"
        await self._storage.controls.amend(line.id, standing)
        return line.done

    async def _begun(self, by: str) -> Line:
        """The line in the audit (invariant 22): there before anything is changed, brought up to date in every batch."""
        verb, words = _NOTED[self._action]
        line = Line(0, words)
        return replace(line, id=await self._storage.controls.noted(verb, self._subject, by, line.told))

    async def _do(self, picked: Picked, line: Line) -> int:
        controls = self._storage.controls
        match self._action:
            case "revive":
                return await controls.revive(DeadSelection(picked=picked), line, len(picked))
            case "discard":
                return await controls.discard(DeadSelection(picked=picked), line, len(picked))
            case "run_now":
                return await controls.hasten(picked, line)
            case "cancel":
                answer = await withdraw(self._storage, picked, line, self._reason, self._rouse)
                return answer.cancelled + answer.asked
            case _:
                assert_never(self._action)


async def withdraw(storage: Storage, picked: Picked, by: By, reason: str, rouse: Callable[[], object]) -> Cancelled:
    """Cancel these deliveries, and tell whom it concerns."""
    answer = await storage.controls.withdraw(picked, by, reason)
    if answer.asked:
        with contextlib.suppress(StorageUnavailable):  # only a hint: the next heartbeat would tell the holders
            await storage.doorbell.ring()
    if answer.cancelled:
        rouse()  # under an order, others may have waited for it
    return answer


def described(wanted: Filter) -> str:
    """A filter in words, for the audit. What payloads and errors were searched for may be a secret: it is not in it."""
    given = ((each.name, getattr(wanted, each.name)) for each in fields(wanted) if each.name not in _UNSPOKEN)
    said = ((name, "…" if name in _SEARCHED else value) for name, value in given if value is not None)
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in said)
