"""Bulk actions: one action applied to all deliveries that a search finds, batch by batch."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, assert_never, get_args

from mainspring.app.admin.search import bounded
from mainspring.app.blocking import in_loop
from mainspring.model.errors import BadOption, StorageError, StorageUnavailable
from mainspring.model.message import Cancelled
from mainspring.model.search import UNFINISHED, By, DeadSelection, Filter, Line, Picked
from mainspring.model.views import AuditView
from mainspring.storage.contract import Storage

Action = Literal["revive", "discard", "cancel", "run_now"]
BulkState = Literal["running", "done", "stopped", "failed"]
Progress = Callable[[int], object]
"""Called after every batch, with how many are done so far."""

BATCH = 500

_STATES: Mapping[Action, tuple[str, ...]] = {
    "revive": ("dead",),
    "discard": ("dead",),
    "cancel": ("live", "scheduled", "ready", "running", "lapsed", "retrying", "parked"),
    "run_now": ("live", "scheduled", "retrying"),
}
_AUDITED: Mapping[Action, tuple[str, str]] = {
    "revive": ("revive", "revived"),
    "discard": ("discard", "discarded"),
    "cancel": ("cancel", "cancelled or asked to stop"),
    "run_now": ("run_now", "due now"),
}
"""The name of the action in the audit, and what was done to each."""
_FORMER = {"hasten": "run_now"}
"""Actions in the audit under the name that an earlier release wrote."""
_ENDS: Mapping[str, BulkState] = {
    UNFINISHED: "running",
    "stopped": "stopped",
    "cancelled": "stopped",
    "failed": "failed",
}
_DETAIL = re.compile(r"(\d+) [a-z ]+(?:; (.+))?")
"""Reads ``Line.detail``: the count at its beginning, and how the action ended."""
_UNDESCRIBED = ("before", "limit", "scan", "weight", "previews")
_SEARCHED = ("text", "error")


class BulkRun:
    """Applies an action from the newest match to the oldest, batch by batch.

    A revived delivery keeps its ``seq``, and what is published during the run gets a higher one. So nothing is found
    twice, and the run ends, even if all revived deliveries die again at once (invariant 19).
    """

    def __init__(
        self,
        storage: Storage,
        action: Action,
        wanted: Filter,
        reason: str,
        wake: Callable[[], object],
    ) -> None:
        if action not in get_args(Action):
            raise BadOption(f"action={action!r} must be one of {', '.join(get_args(Action))}")
        check_state(action, wanted.state)
        self._storage = storage
        self._action: Action = action
        narrowed = replace(wanted, state="scheduled") if (action, wanted.state) == ("run_now", "live") else wanted
        self._wanted = replace(bounded(narrowed), limit=BATCH, before=None, previews=False)
        self._subject = described(wanted)
        self._cancelled = False
        self._reason = reason
        self._wake = wake

    async def run(self, by: str, progress: Progress | None, stop: Callable[[], bool]) -> int:
        """Apply it until all are done or ``stop`` returns True; return how many deliveries it was applied to."""
        if not in_loop():
            return await self._run(by, progress, stop)  # in a test nothing waits, so no caller is cancelled
        # The current batch and the line in the audit are completed even if the caller is cancelled.
        work = asyncio.create_task(self._run(by, progress, stop), name=f"mainspring-{self._action}")
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            self._cancelled = True
            await asyncio.wait([work])
            work.exception()  # no caller is left to report it to
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
                with contextlib.suppress(StorageError):  # then the line stays unfinished, at the last batch
                    cancelled = isinstance(error, asyncio.CancelledError)
                    end = "cancelled" if cancelled else f"failed: {type(error).__name__}"
                    await self._storage.controls.amend(line.id, end)
            raise
        if line is None:
            return 0
        end = "ended" if not halted else "cancelled" if self._cancelled else "stopped"
        await self._storage.controls.amend(line.id, end)
        return line.done

    async def _begun(self, by: str) -> Line:
        """Write the line in the audit before anything is changed (invariant 22); every batch updates it."""
        verb, words = _AUDITED[self._action]
        line = Line(0, words)
        return replace(line, id=await self._storage.controls.note(verb, self._subject, by, line.detail))

    async def _do(self, picked: Picked, line: Line) -> int:
        controls = self._storage.controls
        match self._action:
            case "revive":
                return await controls.revive(DeadSelection(picked=picked), line, len(picked))
            case "discard":
                return await controls.discard(DeadSelection(picked=picked), line, len(picked))
            case "run_now":
                return await controls.run_now(picked, line)
            case "cancel":
                answer = await cancel(self._storage, picked, line, self._reason, self._wake)
                return answer.cancelled + answer.asked
            case _:
                assert_never(self._action)


async def cancel(storage: Storage, picked: Picked, by: By, reason: str, wake: Callable[[], object]) -> Cancelled:
    """Cancel these deliveries; notify the holders of running ones."""
    answer = await storage.controls.cancel(picked, by, reason)
    if answer.asked:
        with contextlib.suppress(StorageUnavailable):  # only a hint: the next heartbeat notifies them
            await storage.doorbell.ring()
    if answer.cancelled:
        wake()  # under an order, others may have waited for it
    return answer


def described(wanted: Filter) -> str:
    """Describe a filter for the audit. Text searched for in payloads and errors may be a secret, and is left out."""
    given = ((each.name, getattr(wanted, each.name)) for each in fields(wanted) if each.name not in _UNDESCRIBED)
    shown = ((name, "…" if name in _SEARCHED else value) for name, value in given if value is not None)
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown)


def check_state(action: Action, state: str) -> None:
    """Raise BadOption if the action has no effect on deliveries in this state."""
    if state not in _STATES[action]:
        states = " or ".join(_STATES[action])
        raise BadOption(f"{action} has no effect on state {state!r}: set filter.state to {states}")


@dataclass(frozen=True, slots=True)
class BulkRecord:
    """A bulk action, by its line in the audit."""

    action: Action
    done: int
    state: BulkState
    """Also ``running`` if its process died: the line stays at the last batch."""
    error: str | None = None


def read_record(line: AuditView) -> BulkRecord | None:
    """Parse what ``BulkRun`` has written into the audit; return None for any other line."""
    written = _FORMER.get(line.action, line.action)
    action = next((action for action, (verb, _) in _AUDITED.items() if verb == written), None)
    detail = _DETAIL.fullmatch(line.detail)
    if action is None or detail is None or not line.subject.startswith("state "):
        return None
    end, _, error = (detail[2] or "").partition(": ")
    return BulkRecord(action, int(detail[1]), _ENDS.get(end, "done"), error or None)
