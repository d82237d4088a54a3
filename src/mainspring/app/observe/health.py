"""Health: read-only checks, bounded in time, with the numbers behind each result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from mainspring.app.blocking import in_loop
from mainspring.model.errors import MainspringError, NotGranted, StorageError
from mainspring.model.inbox import InboxFilter, InboxView
from mainspring.model.schedule import Schedule
from mainspring.model.search import Filter
from mainspring.model.symptom import AHEAD, stands_still
from mainspring.model.views import WORKER_SILENT_AFTER, Counts, DeliveryView, Roster, Tally, WorkerView
from mainspring.storage.contract import Ledger, Storage
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.runtime.schedules.plan import Plan
    from mainspring.runtime.worker import Worker

Status = Literal["healthy", "degraded", "unhealthy"]
_ORDER: tuple[Status, ...] = ("healthy", "degraded", "unhealthy")
_PATIENCE = 8.0
_PAGE = 500
_PAGES = 4


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    summary: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Health:
    """The worst of all check results."""

    status: Status
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether work gets done, even if slowly."""
        return self.status != "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Thresholds for degraded and for unhealthy."""

    backlog: tuple[int, int] = (10_000, 50_000)
    """Ready deliveries of all groups together."""
    overdue: tuple[int, int] = (10, 100)
    """Deliveries that have been ready for longer than ``overdue_after``."""
    overdue_after: timedelta = timedelta(minutes=5)
    lapsed: int = 0
    """Lapsed claims not taken over yet."""
    unserved_after: timedelta = timedelta(hours=24)
    worker_silent_after: timedelta = WORKER_SILENT_AFTER
    stuck: int = 0
    """Inbox messages in processing for longer than ``stuck_after``."""
    stuck_after: timedelta = timedelta(hours=1)
    silenced_after: timedelta = timedelta(minutes=5)
    """How long a run may delay its schedule's next three occurrences before it is reported."""


async def examine(storage: Storage, workers: Sequence[Worker], limits: HealthLimits) -> Health:
    """Run every check. Never raises for a broken component: it reports it."""
    checks = [*_loops(workers), *_breakers(workers), *_overrunning(workers), *_subscriptions(workers)]
    try:
        async with _patience():
            checks += await _database(storage, limits)
    except TimeoutError:
        checks.append(Check("storage", "unhealthy", f"the database did not answer within {_PATIENCE:.0f} s"))
    except MainspringError as error:
        checks.append(Check("storage", "unhealthy", str(error), {"error": type(error).__name__}))
    return Health(max((each.status for each in checks), key=_ORDER.index), tuple(checks))


def _patience() -> AbstractAsyncContextManager[object]:
    # Without a loop, as in a blocking test, a timeout is impossible.
    return asyncio.timeout(_PATIENCE) if in_loop() else nullcontext()


def unopened(error: StorageError) -> Health:
    """Return the result if the database cannot be opened."""
    return Health("unhealthy", (Check("storage", "unhealthy", str(error), {"error": type(error).__name__}),))


async def _database(storage: Storage, limits: HealthLimits) -> list[Check]:
    latency = await storage.ping()
    milliseconds = round(latency / timedelta(milliseconds=1), 3)
    storage_check = Check("storage", "healthy", f"answered in {milliseconds:.1f} ms", {"latency_ms": milliseconds})
    lacking = await storage.schema.lacking()
    try:
        found = await _stored(storage, limits)
    except NotGranted as error:
        return [storage_check, _lacking("unhealthy", lacking or [str(error)])]
    return [storage_check, *([_lacking("degraded", lacking)] if lacking else []), *found]


def _lacking(status: Status, lacking: Sequence[str]) -> Check:
    more = f" and {len(lacking) - 1:,} more: see `mainspring doctor`" if len(lacking) > 1 else ""
    return Check("rights", status, f"this role lacks {lacking[0]}{more}", {"lacking": list(lacking)})


async def _stored(storage: Storage, limits: HealthLimits) -> list[Check]:
    await storage.schema.check()
    tally = await storage.ledger.tally(limits.backlog[1] + 1)
    counts = tally.groups
    overdue = await _overdue(storage.ledger, tally, counts, limits)
    roster = await storage.ledger.roster()
    blocked = await _blocked(storage, roster.now, limits.silenced_after)
    stuck = InboxFilter(stuck=limits.stuck_after, limit=_PAGE)
    return [
        *_clock(await storage.schema.ahead()),
        _measure("backlog", sum(each.ready for each in counts), limits.backlog, "ready"),
        _measure("overdue", overdue, limits.overdue, f"ready for longer than {spell(limits.overdue_after)}"),
        _measure("lapsed", sum(each.lapsed for each in counts), (limits.lapsed, None), "claims lapsed"),
        _alive(roster, limits),
        _served(roster, limits),
        _claimed(roster, counts, limits),
        _received(await storage.inbox.browse(stuck), limits),
        _schedules(blocked, roster.now),
    ]


def _clock(ahead: timedelta) -> Iterator[Check]:
    if ahead > AHEAD:
        yield Check("clock", "degraded", stands_still(ahead), {"ahead": ahead.total_seconds()})


def _received(stuck: Sequence[InboxView], limits: HealthLimits) -> Check:
    data: dict[str, object] = {"count": len(stuck), "limits": (limits.stuck, None)}
    if len(stuck) <= limits.stuck:
        return Check("inbox", "healthy", f"{len(stuck):,} stuck", data)
    longest = stuck[-1]
    data["example"] = {
        "message_id": longest.message_id,
        "source": longest.source,
        "group": longest.group,
        "since": longest.changed_at,
    }
    count = f"{len(stuck):,}" if len(stuck) < _PAGE else f"{_PAGE:,} or more"
    hint = (
        f"{count} stuck for longer than {spell(limits.stuck_after)}, as {longest.message_id} of {longest.source}: see "
        "`mainspring inbox list --stuck`"
    )
    return Check("inbox", "degraded", hint, data)


def _measure(name: str, count: int, limits: tuple[int, int | None], what: str) -> Check:
    degraded, unhealthy = limits
    status: Status = "healthy"
    if unhealthy is not None and count > unhealthy:
        status = "unhealthy"
    elif count > degraded:
        status = "degraded"
    return Check(name, status, f"{count:,} {what}", {"count": count, "limits": limits})


async def _overdue(ledger: Ledger, tally: Tally, counts: Sequence[Counts], limits: HealthLimits) -> int:
    since = tally.now - limits.overdue_after
    late = [each for each in counts if each.oldest_ready_at is not None and each.oldest_ready_at < since]
    total = 0
    for each in late:
        total += await _overdue_in(ledger, each, since)
        if total > limits.overdue[1]:
            break
    return total


async def _overdue_in(ledger: Ledger, counts: Counts, since: datetime) -> int:
    # Counted from the newest; older pages were published earlier, and are as late as the last row seen.
    seen = found = 0
    before: int | None = None
    late = False
    for _ in range(_PAGES):
        page = await ledger.browse(Filter(state="ready", group=counts.group, before=before, limit=_PAGE))
        seen += len(page.rows)
        found += sum(row.due_at < since for row in page.rows)
        if page.before is None:
            return found
        before, late = page.before, page.rows[-1].due_at < since if page.rows else late
    return found + (max(counts.ready - seen, 0) if late else 1)


def _alive(roster: Roster, limits: HealthLimits) -> Check:
    alive = roster.alive(limits.worker_silent_after)
    data = {
        "alive": len(alive),
        "silent": len(roster.workers) - len(alive),
        "in_hand": sum(each.in_hand for each in alive),
    }
    status: Status = "degraded" if roster.groups and not alive else "healthy"
    return Check("workers", status, f"{len(alive)} alive", data)


def _served(roster: Roster, limits: HealthLimits) -> Check:
    since = roster.now - limits.unserved_after
    unserved = sorted(each.name for each in roster.groups if (each.served_at or each.declared_at) < since)
    paused = sorted(each.name for each in roster.groups if each.paused_at)
    data = {"unserved": unserved, "paused": paused}
    if unserved:
        hint = f"no worker serves {', '.join(unserved)}: start one, or run `mainspring groups retire`"
        return Check("groups", "degraded", hint, data)
    return Check("groups", "healthy", f"all served, {len(paused)} paused", data)


def _claimed(roster: Roster, counts: Sequence[Counts], limits: HealthLimits) -> Check:
    ready = {each.group: each.ready for each in counts if each.ready}
    alive = roster.alive(limits.worker_silent_after)
    paused = [each.name for each in roster.groups if each.name in ready and each.paused_at is not None]
    drained = [group for group in sorted(ready) if _drained([each for each in alive if group in each.groups])]
    found = {"paused": sorted(paused), "drained": drained}
    data = {**found, "ready": {group: ready[group] for group in sorted({*paused, *drained})}}
    reasons = []
    if paused:
        reasons.append(f"{', '.join(found['paused'])} is paused: see `mainspring groups list`")
    if drained:
        reasons.append(f"all workers of {', '.join(found['drained'])} drain: see `mainspring workers list`")
    if reasons:
        return Check("claiming", "degraded", f"ready work is not claimed: {'; '.join(reasons)}", data)
    return Check("claiming", "healthy", "no group with work is paused or drained", data)


def _drained(serving: Sequence[WorkerView]) -> bool:
    # A worker asked to drain continues until it notices. Groups without workers fail another check.
    return bool(serving) and all(each.condition in ("draining", "drained") for each in serving)


def _breakers(workers: Sequence[Worker]) -> Iterator[Check]:
    for worker in workers:
        for group, left in worker.pauses().items():
            yield Check(
                f"breaker {group}",
                "degraded",
                f"{group} failed too often and is paused here, for {spell(left)} more",
                {"group": group, "seconds": left.total_seconds()},
            )


def _subscriptions(workers: Sequence[Worker]) -> Iterator[Check]:
    for worker in workers:
        for group in worker.subscribing.retired:
            hint = f"{group} was retired while a worker here has its consumer: remove it, or restart the worker"
            yield Check(f"subscriptions {group}", "degraded", hint, {"group": group, "retired": True})
        for group, (patterns, ago) in worker.subscribing.missed().items():
            missed = sorted(patterns)
            yield Check(
                f"subscriptions {group}",
                "degraded",
                f"{group} had lost its subscription to {', '.join(missed)}, restored {spell(ago)} ago: run this "
                "release of Mainspring in every worker of the app",
                {"group": group, "patterns": missed, "seconds": ago.total_seconds()},
            )


def _overrunning(workers: Sequence[Worker]) -> Iterator[Check]:
    found = sorted((each for worker in workers for each in worker.overrunning()), key=lambda each: each.since)
    if not found:
        return
    longest = found[-1]
    group, schedule = longest.group, longest.schedule
    hint = (
        f"{len(found):,} running despite a stop request, the longest message {longest.message_id} of {group}, sent "
        f"{spell(longest.since)} ago ({longest.reason}): let CancelledError out of an `async def`, check "
        "ctx.cancelled in a plain function, or give it cpu=True"
    )
    data: dict[str, object] = {
        "count": len(found),
        "group": group,
        "message_id": str(longest.message_id),
        "reason": longest.reason,
        "seconds": longest.since.total_seconds(),
        "schedule": schedule,
    }
    yield Check("overrunning", "degraded", hint, data)


def _schedules(blocked: Sequence[Blocked], now: datetime) -> Check:
    if not blocked:
        return Check("schedules", "healthy", "none is blocked by an earlier run", {"silent": []})
    _, longest = blocked[0]
    since, shown = now - longest.scheduled_for, sorted({name for name, _ in blocked})
    hint = (
        f"{', '.join(shown)} is blocked by an unfinished run, the longest message "
        f"{longest.message_id} of {longest.group}, due {spell(since)} ago: see `mainspring "
        f"messages show {longest.message_id}`; cancel it, or give its consumer a shorter timeout"
    )
    data = {"silent": shown, "message_id": str(longest.message_id), "seconds": since.total_seconds()}
    return Check("schedules", "degraded", hint, data)


def _loops(workers: Sequence[Worker]) -> Iterator[Check]:
    for number, worker in enumerate(workers, 1):
        name = "worker" if len(workers) == 1 else f"worker {number}"
        reports = worker.progress()
        data = {loop: {"turns": each.turns, "failures": each.failures} for loop, each in reports.items()}
        failing = [f"{loop}: {each.error}" for loop, each in reports.items() if each.failures]
        if any(each.ended for each in reports.values()):
            yield Check(name, "unhealthy", "; ".join(failing), data)
        elif failing:
            yield Check(name, "degraded", "; ".join(failing), data)
        elif not worker.ready:
            yield Check(name, "degraded", "not ready: waiting for the database or its schema, or stopping", data)
        else:
            yield Check(name, "healthy", "every loop progresses", data)


_MISSED = 3
"""How many occurrences in a row a run may outlast: one or two may be a busy day."""


Blocked = tuple[str, DeliveryView]
"""A schedule, and the run that blocks it."""


async def _blocked(storage: Storage, now: datetime, after: timedelta) -> list[Blocked]:
    """Return the schedules with a run longer than ``after`` and their next three occurrences; longest first.

    If nothing runs for so long, as usual, schedules are not read.
    """
    running = [row for row in await _running(storage) if now - row.scheduled_for > after]
    if not running:
        return []
    sheet = await storage.timetable.read()
    found = [(schedule.name, row) for schedule in sheet.schedules for row in _blocking(schedule, running, now)]
    return sorted(found, key=lambda each: each[1].scheduled_for)


async def _running(storage: Storage) -> list[DeliveryView]:
    rows: list[DeliveryView] = []
    before: int | None = None
    for _ in range(_PAGES):
        page = await storage.ledger.browse(Filter(state="running", before=before, limit=_PAGE))
        rows += page.rows
        before = page.before
        if before is None:
            break
    return rows


def _blocking(schedule: Schedule, running: Sequence[DeliveryView], now: datetime) -> Iterator[DeliveryView]:
    if schedule.retired_at is not None or schedule.paused_at is not None:
        return
    # Here, since every app imports this module, and most have no schedule that is blocked.
    from mainspring.runtime.schedules.decisions import occurrence
    from mainspring.runtime.schedules.plan import CannotPlan, read_plan

    try:
        plan = read_plan(schedule.layers)
    except CannotPlan:
        return  # its days are computed by code that is not here
    if plan.fields.overlap not in ("skip", "queue"):
        return
    for row in running:
        if row.topic != plan.fields.topic or not _outlasts(row, plan, now):
            continue
        if occurrence(plan, schedule, row.scheduled_for).draft.id == row.message_id:
            yield row


def _outlasts(row: DeliveryView, plan: Plan, now: datetime) -> bool:
    at: datetime | None = row.scheduled_for
    for _ in range(_MISSED):
        at = None if at is None else plan.next(at)
    return at is not None and at < now
