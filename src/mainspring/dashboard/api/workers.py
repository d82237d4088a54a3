"""Workers: who is there, and what they have in hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import plain, shown
from mainspring.dashboard.api.overview import SILENT_AFTER
from mainspring.dashboard.api.shapes import Delivery, delivery
from mainspring.dashboard.reading import Name, Reason
from mainspring.dashboard.route import Nothing, Visit, acting, viewing
from mainspring.model.views import DeliveryView, WorkerView

_HANDS = 50
_AT_ONCE = 500
_ASKED = 20
"""How many workers are asked for one by one, so that a look ends in time."""


class Worker(Struct, frozen=True):
    """A worker process as it last reported itself."""

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
    alive: bool
    hands: list[Delivery]
    """What it has in hand, at most fifty, newest first."""


class WorkerList(Struct, frozen=True):
    """The workers that reported themselves lately, by name."""

    now: datetime
    rows: list[Worker]


class Drain(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker that is to claim no more."""

    name: Name
    reason: Reason = ""


class ResumeWorker(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker that is to claim again."""

    name: Name


async def workers(visit: Visit, _asked: Nothing) -> WorkerList:
    """The workers, and what they have in hand."""
    roster = await visit.app.roster()
    rows = sorted(roster.workers, key=lambda worker: worker.name)
    alive = {each.name for each in rows if roster.now - each.beat_at <= SILENT_AFTER}
    hands = await _hands(visit, [each for each in rows if each.name in alive])
    return WorkerList(
        plain(roster.now),
        [
            shown(
                Worker,
                each,
                groups=list(each.groups),
                tripped=list(each.tripped),
                alive=each.name in alive,
                hands=[delivery(row, visit.redaction) for row in hands[each.name][:_HANDS]],
            )
            for each in rows
        ],
    )


async def _hands(visit: Visit, alive: Sequence[WorkerView]) -> dict[str, list[DeliveryView]]:
    """What each of them has in hand: by one look where there is not much, else worker by worker."""
    found: dict[str, list[DeliveryView]] = defaultdict(list)
    page = await visit.app.messages.search("running", limit=_AT_ONCE)
    for row in page.rows:
        found[row.held_by or ""].append(row)
    if page.before is not None:
        unseen = [each for each in alive if len(found[each.name]) < min(each.in_hand, _HANDS)]
        for each in unseen[:_ASKED]:
            found[each.name] = [*(await visit.app.messages.search("running", held_by=each.name, limit=_HANDS)).rows]
    return found


async def drain(visit: Visit, asked: Drain) -> None:
    """Let a worker finish what it has and claim no more."""
    await visit.app.workers.drain(asked.name, by=visit.by, reason=asked.reason)


async def resume(visit: Visit, asked: ResumeWorker) -> None:
    """Let a drained worker claim again."""
    await visit.app.workers.resume(asked.name, by=visit.by)


ROUTES = (
    viewing("/api/workers", workers, "The workers, and what they have in hand", WorkerList),
    acting("/api/workers/drain", drain, "Let a worker finish what it has and claim no more", Drain),
    acting("/api/workers/resume", resume, "Let a drained worker claim again", ResumeWorker),
)
