"""Workers, and what they have in hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from mainspring.dashboard.answers import plain, shown
from mainspring.dashboard.api.overview import SILENT_AFTER
from mainspring.dashboard.api.shapes import Delivery, delivery
from mainspring.dashboard.reading import NO_NUL, Reason
from mainspring.dashboard.route import Nothing, Visit, acting, viewing
from mainspring.model.views import Condition, DeliveryView, WorkerView

Seat: TypeAlias = Annotated[str, Meta(min_length=1, max_length=401, pattern=NO_NUL)]
"""An app and the name of a worker."""

_HANDS = 50
_AT_ONCE = 500
_ASKED = 20
"""The maximum number of workers that are queried one by one, to limit the time."""


class Worker(Struct, frozen=True):
    """A worker process by its last report."""

    name: str
    app: str
    host: str
    pid: int
    groups: list[str]
    in_hand: int
    bell: str
    started_at: datetime
    beat_at: datetime
    tripped: list[str]
    draining_at: datetime | None
    drained_by: str | None
    drains: bool
    """Whether it has confirmed that it claims no more."""
    condition: Condition
    """``drain asked`` until it has confirmed."""
    alive: bool
    hands: list[Delivery]
    """What it has in hand, at most fifty, newest first."""


class WorkerList(Struct, frozen=True):
    """The workers that reported recently, by name."""

    now: datetime
    rows: list[Worker]


class Drain(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker to drain. Its name may be prefixed by its app, as in shop/node-1."""

    name: Seat
    reason: Reason = ""


class ResumeWorker(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker to resume, named in the same way."""

    name: Seat


async def workers(visit: Visit, _asked: Nothing) -> WorkerList:
    """Return the workers, and what they have in hand."""
    roster = await visit.app.roster()
    rows = sorted(roster.workers, key=lambda worker: (worker.name, worker.app))
    alive = [each for each in rows if roster.now - each.beat_at <= SILENT_AFTER]
    hands = await _hands(visit, alive)
    return WorkerList(
        plain(roster.now),
        [
            shown(
                Worker,
                each,
                groups=list(each.groups),
                tripped=list(each.tripped),
                alive=each in alive,
                hands=[delivery(row, visit.redaction) for row in _held(each, hands[each.name])[:_HANDS]],
            )
            for each in rows
        ],
    )


async def _hands(visit: Visit, alive: Sequence[WorkerView]) -> dict[str, list[DeliveryView]]:
    """Return what each has in hand: by one query if there is little, else worker by worker."""
    found: dict[str, list[DeliveryView]] = defaultdict(list)
    pages = [await visit.app.messages.search(each, limit=_AT_ONCE) for each in ("running", "lapsed")]
    for page in pages:
        for row in page.rows:
            found[row.held_by or ""].append(row)
    if any(page.before is not None for page in pages):
        unseen = [each for each in alive if len(found[each.name]) < min(each.in_hand, _HANDS)]
        for each in unseen[:_ASKED]:
            found[each.name] = [*(await visit.app.messages.search("live", held_by=each.name, limit=_HANDS)).rows]
    return found


def _held(worker: WorkerView, rows: Sequence[DeliveryView]) -> list[DeliveryView]:
    """Filter by group: a worker of another app may have the same name, but a group belongs to one app."""
    return [row for row in rows if row.group in worker.groups]


async def drain(visit: Visit, asked: Drain) -> None:
    """Let a worker finish what it has in hand and claim no more."""
    await visit.app.workers.drain(asked.name, by=visit.by, reason=asked.reason)


async def resume(visit: Visit, asked: ResumeWorker) -> None:
    """Let a drained worker claim again."""
    await visit.app.workers.resume(asked.name, by=visit.by)


ROUTES = (
    viewing("/api/workers", workers, "The workers, and what they have in hand", WorkerList),
    acting("/api/workers/drain", drain, "Let a worker finish what it has in hand and claim no more", Drain),
    acting("/api/workers/resume", resume, "Let a drained worker claim again", ResumeWorker),
)
