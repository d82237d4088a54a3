"""Bulk actions: one action on everything that a search finds, in the background of the server, and past ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias
from uuid import UUID, uuid4

from msgspec import Struct, structs

from mainspring.app.admin.bulk import Action, BulkState, check_state, described, read_record
from mainspring.app.admin.search import checked
from mainspring.app.maintenance import AUDIT
from mainspring.dashboard.api.messages import Search, check_search, criteria
from mainspring.dashboard.api.views import Rows, ScannedPage, scan
from mainspring.dashboard.responses import Problem, problem_of, shown
from mainspring.dashboard.route import Call, Limit, Nothing, PageQuery, Params, get, post
from mainspring.dashboard.security.redaction import MASK
from mainspring.model.search import Filter
from mainspring.model.views import AuditView

Work: TypeAlias = Callable[[Callable[[int], object], Callable[[], bool]], Awaitable[int]]
"""Does the work. Its arguments report how many are done, and return whether to stop."""

MOST_RUNNING = 4
KEPT = 50
"""How many are remembered, including running ones."""
_SCANNED, _AT_ONCE = 2_000, 500
"""How many audit entries are scanned for one page, and how many are read at a time."""


@dataclass(slots=True, eq=False, kw_only=True)
class BulkShown:
    """A bulk action and its progress."""

    id: UUID
    action: Action
    filter: Search
    state: BulkState = "running"
    done: int = 0
    started_at: datetime
    ended_at: datetime | None = None
    by: str
    error: str | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Bulk(BulkShown):
    """A bulk action of this process."""

    subject: str
    """The search in words, as in the audit."""
    stopping: bool = False
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class Bulks:
    """The bulk actions of this process. Only the latest are remembered, and all end with the server."""

    def __init__(self) -> None:
        self._bulks: dict[UUID, Bulk] = {}

    def __iter__(self) -> Iterator[Bulk]:
        """Iterate, newest first."""
        return iter(sorted(self._bulks.values(), key=lambda each: each.started_at, reverse=True))

    def get(self, id: UUID) -> Bulk:
        """Return the one of this id. Raises Problem if it is unknown here."""
        found = self._bulks.get(id)
        if found is None:
            raise Problem(404, "not_found", "no such bulk action here: another process runs it, or it has ended")
        return found

    def start(self, action: Action, filter: Search, by: str, work: Work, subject: str = "") -> Bulk:
        """Start it in the background. Raises Problem if too many are running."""
        if sum(each.state == "running" for each in self._bulks.values()) >= MOST_RUNNING:
            raise Problem(409, "busy", f"{MOST_RUNNING} bulk actions are running: wait for one, or stop one")
        bulk = Bulk(id=uuid4(), action=action, filter=filter, subject=subject, by=by, started_at=datetime.now(UTC))
        self._bulks[bulk.id] = bulk
        self._forget()
        bulk.task = asyncio.create_task(_run(bulk, work), name=f"mainspring-dashboard-{action}")
        return bulk

    def stop(self, id: UUID) -> Bulk:
        """Stop it after its current batch. Completed batches stay."""
        bulk = self.get(id)
        bulk.stopping = bulk.state == "running"
        return bulk

    async def aclose(self) -> None:
        """Stop all of them, and wait until they have ended."""
        running = [each.task for each in self._bulks.values() if each.task is not None and not each.task.done()]
        for each in self._bulks.values():
            each.stopping = True
        if running:
            await asyncio.wait(running)

    def _forget(self) -> None:
        over = [each for each in self._bulks.values() if each.state != "running"]
        for each in over[: max(len(self._bulks) - KEPT, 0)]:
            del self._bulks[each.id]


async def _run(bulk: Bulk, work: Work) -> None:
    def progress(done: int) -> None:
        bulk.done = done

    try:
        bulk.done = await work(progress, lambda: bulk.stopping)
        bulk.state = "stopped" if bulk.stopping else "done"
    except Exception as error:  # noqa: BLE001 - any error is shown with the action
        bulk.state, bulk.error = "failed", problem_of(error).message
    finally:
        bulk.ended_at = datetime.now(UTC)


class BulkRequest(Params, frozen=True):
    """A bulk action to start."""

    action: Action
    filter: Search


class BulkKey(Params, frozen=True):
    """One bulk action."""

    id: UUID


class BulkList(Rows[BulkShown], frozen=True):
    """The bulk actions that this process remembers, newest first."""


async def start(call: Call, params: BulkRequest) -> BulkShown:
    """Start a bulk action."""
    check_search(call, params.filter)
    check_state(params.action, params.filter.state)
    app, by, filter = call.app, call.by, checked(Filter(**criteria(params.filter)))

    async def work(progress: Callable[[int], object], stop: Callable[[], bool]) -> int:
        return await app.messages.apply(params.action, filter, by=by, progress=progress, stop=stop)

    return _shown(call.services.bulks.start(params.action, params.filter, by, work, described(filter)), call)


async def bulks(call: Call, _params: Nothing) -> BulkList:
    """Return the bulk actions of this process."""
    return BulkList([_shown(each, call) for each in call.services.bulks])


async def bulk(call: Call, params: BulkKey) -> BulkShown:
    """Return one bulk action."""
    return _shown(call.services.bulks.get(params.id), call)


async def stop(call: Call, params: BulkKey) -> BulkShown:
    """Stop a bulk action after its current batch."""
    return _shown(call.services.bulks.stop(params.id), call)


def _shown(found: Bulk, call: Call) -> BulkShown:
    params = found.filter
    if not call.may_search:
        # The search text may itself be a value that is masked.
        searched = {name: MASK for name in ("text", "error") if getattr(params, name) is not None}
        params = structs.replace(params, **searched)
    return shown(BulkShown, found, filter=params)


class HistoryQuery(PageQuery, frozen=True):
    """The page to read."""

    limit: Limit = 20


class BulkPast(Struct, frozen=True):
    """A bulk action by its audit entry, which is updated with every batch."""

    id: int
    at: datetime
    """When it started."""
    by: str
    action: Action
    subject: str
    """The search in words."""
    done: int
    state: BulkState
    """Also ``running`` if its process died: the entry stays at the last batch."""
    error: str | None
    here: bool
    """Whether it is running in this process, which alone can stop it."""


class BulkHistory(ScannedPage[BulkPast], frozen=True):
    """Bulk actions of all processes, newest first. A short or even empty page is not necessarily the last."""


async def history(call: Call, params: HistoryQuery) -> BulkHistory:
    """Return one page of bulk actions."""
    going = [each for each in call.services.bulks if each.state == "running"]

    keep = partial(_past, going=going)
    return BulkHistory(*await scan(call.app.audit, AUDIT.cursor, keep, params, most=_SCANNED, at_once=_AT_ONCE))


def _past(line: AuditView, going: list[Bulk]) -> BulkPast | None:
    record = read_record(line)
    if record is None:
        return None
    # Both are newest first. An action has one line in the audit.
    ours = (each for each in going if (each.by, each.action, each.subject) == (line.by, record.action, line.subject))
    own = next(ours, None) if record.state == "running" else None
    if own is not None:
        going.remove(own)
    more = {each.name: getattr(record, each.name) for each in fields(record)}
    return shown(BulkPast, line, **more, here=own is not None)


ROUTES = (
    post("/api/bulk", start, "Start a bulk action", status=202),
    get("/api/bulk", bulks, "The bulk actions of this process, newest first"),
    get("/api/bulk/history", history, "Bulk actions of all processes"),
    get("/api/bulk/{id}", bulk, "One bulk action and its progress"),
    post("/api/bulk/{id}/stop", stop, "Stop a bulk action after its current batch"),
)
