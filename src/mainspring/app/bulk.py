"""One thing that is done to everything a search finds, however much that is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Literal, assert_never, get_args

from mainspring.app.names import Namespace
from mainspring.app.paging import meant
from mainspring.model.browsing import DeadSelection, Filter, Picked
from mainspring.model.errors import BadOption, StorageUnavailable
from mainspring.model.message import Cancelled
from mainspring.storage.contract import Storage

Action = Literal["revive", "discard", "cancel", "run_now"]
Progress = Callable[[int], object]
"""Told how many are done so far, after every batch."""

BATCH = 500

_STATES: Mapping[Action, tuple[str, ...]] = {
    "revive": ("dead",),
    "discard": ("dead",),
    "cancel": ("live", "scheduled", "ready", "running", "parked"),
    "run_now": ("scheduled", "live"),
}
_NOTED: Mapping[Action, tuple[str, str]] = {
    "revive": ("revive", "revived"),
    "discard": ("discard", "discarded"),
    "cancel": ("cancel", "cancelled or asked to stop"),
    "run_now": ("hasten", "due now"),
}
"""What the audit calls it, and what has become of each."""
_UNSPOKEN = ("before", "limit", "prefix", "scan")
_SEARCHED = ("text", "error")


class Errand:
    """Goes from the newest match to the oldest, batch by batch.

    A delivery keeps its place when it is revived, and what is published meanwhile has a higher one. So nothing is met
    twice, and there is an end, also where everything that is revived dies again at once (invariant 19).
    """

    def __init__(
        self,
        storage: Storage,
        names: Namespace,
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
        narrowed = replace(wanted, state="scheduled") if action == "run_now" else wanted
        self._wanted = replace(meant(names, narrowed), limit=BATCH, before=None)
        self._subject = described(wanted)
        self._reason = reason
        self._rouse = rouse

    async def run(self, by: str, progress: Progress | None, stop: Callable[[], bool]) -> int:
        """Do it until all are done or ``stop`` says so. Returns to how many it was done."""
        total = 0
        before: int | None = None
        try:
            while not stop():
                page = await self._storage.ledger.browse(replace(self._wanted, before=before))
                if page.rows:
                    total += await self._do(tuple((each.message_id, each.group) for each in page.rows))
                if progress is not None:
                    progress(total)
                before = page.before
                if before is None:
                    break
        finally:
            # However it ends: what was done was done by somebody.
            if total:
                verb, done = _NOTED[self._action]
                await self._storage.controls.noted(verb, self._subject, by, f"{total} {done}")
        return total

    async def _do(self, picked: Picked) -> int:
        controls = self._storage.controls
        match self._action:
            case "revive":
                return await controls.revive(DeadSelection(picked=picked), None, len(picked))
            case "discard":
                return await controls.discard(DeadSelection(picked=picked), None, len(picked))
            case "run_now":
                return await controls.hasten(picked, None)
            case "cancel":
                answer = await withdraw(self._storage, picked, None, self._reason, self._rouse)
                return answer.cancelled + answer.asked
            case _:
                assert_never(self._action)


async def withdraw(
    storage: Storage, picked: Picked, by: str | None, reason: str, rouse: Callable[[], object]
) -> Cancelled:
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
