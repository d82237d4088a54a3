"""Workers, and what they have in hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Annotated

from msgspec import Meta

from mainspring.dashboard.api.views import Rows
from mainspring.dashboard.responses import shown
from mainspring.dashboard.route import NO_NUL, Call, Nothing, Params, Reason, get, post
from mainspring.model.views import Condition, DeliveryView, WorkerView

_HANDS = 50
_AT_ONCE = 500
_QUERIED = 20
"""The maximum number of workers that are queried one by one, to limit the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(WorkerView):
    """A worker process by its last report."""

    condition: Condition = field()
    """``drain asked`` until it has confirmed."""
    alive: bool
    hands: list[DeliveryView]
    """What it has in hand, at most fifty, newest first."""


class WorkerList(Rows[Worker], frozen=True):
    """The workers that reported recently, by name."""

    now: datetime


class ResumeWorker(Params, frozen=True):
    """A worker to resume. Its name may be prefixed by its app, as in shop/node-1."""

    name: Annotated[str, Meta(min_length=1, max_length=401, pattern=NO_NUL)]


class Drain(ResumeWorker, frozen=True):
    """A worker to drain. Its name may be prefixed by its app, as in shop/node-1."""

    reason: Reason = ""


async def workers(call: Call, _params: Nothing) -> WorkerList:
    """Return the workers, and what they have in hand."""
    roster = await call.app.stats.roster()
    by_name = attrgetter("name", "app")
    rows, alive = sorted(roster.workers, key=by_name), sorted(roster.alive(), key=by_name)
    hands = await _hands(call, alive)
    return WorkerList(
        [shown(Worker, each, alive=each in alive, hands=_held(each, hands[each.name])[:_HANDS]) for each in rows],
        roster.now,
    )


async def _hands(call: Call, alive: Sequence[WorkerView]) -> dict[str, list[DeliveryView]]:
    """Return what each has in hand: by one query if there is little, else worker by worker."""
    found: dict[str, list[DeliveryView]] = defaultdict(list)
    pages = [await call.app.messages.search(each, limit=_AT_ONCE) for each in ("running", "lapsed")]
    for page in pages:
        for row in page:
            found[row.held_by or ""].append(row)
    if any(page.cursor is not None for page in pages):
        unseen = [each for each in alive if len(found[each.name]) < min(each.in_hand, _HANDS)]
        for each in unseen[:_QUERIED]:
            found[each.name] = await call.app.messages.search("live", held_by=each.name, limit=_HANDS)
    return found


def _held(worker: WorkerView, rows: Sequence[DeliveryView]) -> list[DeliveryView]:
    """Filter by group: a worker of another app may have the same name, but a group belongs to one app."""
    return [row for row in rows if row.group in worker.groups]


async def drain(call: Call, params: Drain) -> None:
    """Let a worker finish what it has in hand and claim no more."""
    await call.app.workers.drain(params.name, by=call.by, reason=params.reason)


async def resume(call: Call, params: ResumeWorker) -> None:
    """Let a drained worker claim again."""
    await call.app.workers.resume(params.name, by=call.by)


ROUTES = (
    get("/api/workers", workers, "The workers, and what they have in hand"),
    post("/api/workers/drain", drain, "Let a worker finish what it has in hand and claim no more"),
    post("/api/workers/resume", resume, "Let a drained worker claim again"),
)
