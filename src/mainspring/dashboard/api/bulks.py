"""Bulk actions: one action on everything that a search finds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import Struct, structs

from mainspring.app.paging import checked
from mainspring.dashboard.answers import Problem, shown
from mainspring.dashboard.api.messages import Search, cause_meant, check_search
from mainspring.dashboard.bulk import Action, Bulk, BulkState
from mainspring.dashboard.route import Nothing, Visit, acting, viewing
from mainspring.dashboard.security.redaction import MASK
from mainspring.model.browsing import Filter

_STATES: dict[Action, tuple[str, ...]] = {
    "revive": ("dead",),
    "discard": ("dead",),
    "cancel": ("live", "scheduled", "ready", "running", "lapsed", "retrying", "parked"),
    "run_now": ("live", "scheduled", "retrying"),
}
"""The states on which each action has an effect."""


class BulkWish(Struct, frozen=True, forbid_unknown_fields=True):
    """A bulk action to start."""

    action: Literal["revive", "discard", "cancel", "run_now"]
    filter: Search


class BulkKey(Struct, frozen=True, forbid_unknown_fields=True):
    """One bulk action."""

    id: UUID


class BulkShown(Struct, frozen=True):
    """A bulk action and its progress."""

    id: UUID
    action: Literal["revive", "discard", "cancel", "run_now"]
    filter: Search
    state: BulkState
    done: int
    total: int | None
    started_at: datetime
    ended_at: datetime | None
    by: str
    error: str | None


class BulkList(Struct, frozen=True):
    """The bulk actions that this process remembers, newest first."""

    rows: list[BulkShown]


async def start(visit: Visit, asked: BulkWish) -> BulkShown:
    """Start a bulk action."""
    check_search(visit, asked.filter)
    if asked.filter.state not in _STATES[asked.action]:
        states = " or ".join(_STATES[asked.action])
        told = f"{asked.action} has no effect on state {asked.filter.state!r}: set filter.state to {states}"
        raise Problem(422, "invalid", told)
    app, by, filter = visit.app, visit.by, checked(_filter(asked.filter))

    async def work(progress: Callable[[int], object], stop: Callable[[], bool]) -> int:
        return await app.messages.apply(asked.action, filter, by=by, progress=progress, stop=stop)

    return _shown(visit.house.bulks.start(asked.action, asked.filter, by, work), visit)


async def bulks(visit: Visit, _asked: Nothing) -> BulkList:
    """Return the bulk actions of this process."""
    return BulkList([_shown(each, visit) for each in visit.house.bulks])


async def bulk(visit: Visit, asked: BulkKey) -> BulkShown:
    """Return one bulk action."""
    return _shown(visit.house.bulks.get(asked.id), visit)


async def stop(visit: Visit, asked: BulkKey) -> BulkShown:
    """Stop a bulk action after its current batch."""
    return _shown(visit.house.bulks.stop(asked.id), visit)


def _filter(asked: Search) -> Filter:
    return Filter(
        state=asked.state,
        group=asked.group,
        topic=asked.topic,
        key=asked.key,
        error=asked.error,
        text=asked.text,
        since=asked.since,
        until=asked.until,
        held_by=asked.worker,
        fingerprint=cause_meant(asked.fingerprint),
    )


def _shown(found: Bulk, visit: Visit) -> BulkShown:
    asked: Search = found.filter
    if not visit.may_search:
        # The search text may itself be a value that is masked.
        searched = {name: MASK for name in ("text", "error") if getattr(asked, name) is not None}
        asked = structs.replace(asked, **searched)
    return shown(BulkShown, found, filter=asked)


ROUTES = (
    acting("/api/bulk", start, "Start a bulk action", BulkWish, BulkShown, 202),
    viewing("/api/bulk", bulks, "The bulk actions of this process, newest first", BulkList),
    viewing("/api/bulk/{id}", bulk, "One bulk action and its progress", BulkShown, BulkKey),
    acting("/api/bulk/{id}/stop", stop, "Stop a bulk action after its current batch", BulkKey, BulkShown),
)
