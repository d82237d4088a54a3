"""The built-in checks: of the database, reading by reading, and of the workers and leases of this process."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.app.blocking import in_loop
from mainspring.app.observe.forward_checks import of_forwards
from mainspring.app.observe.rights import RightsCheck, lacks
from mainspring.app.observe.schedule_checks import ScheduleChecks
from mainspring.model.errors import (
    MainspringError,
    NotGranted,
    SchemaMissing,
    SchemaTooNew,
    StorageError,
    StorageUnavailable,
)
from mainspring.model.health import BuiltIn, Check, HealthLimits, Status, built_in, worst
from mainspring.model.inbox import InboxFilter, InboxView
from mainspring.model.lease import LeaseTrouble
from mainspring.model.search import Filter
from mainspring.model.symptom import AHEAD, LostObject, stands_still
from mainspring.model.views import Counts, GroupView, Roster, Tally, WorkerView
from mainspring.storage.contract import Ledger, Storage
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

_PATIENCE = 8.0
_PAGE = 500
_PAGES = 4
_SHOWN = 5
"""How many names a summary contains; the data has all."""
_NEW = timedelta(hours=1)
"""How long a dead letter is new."""


def failed(error: Exception) -> Check:
    """Return the result if the database cannot be used."""
    return built_in("storage", "unhealthy", str(error), {"error": type(error).__name__})


def of_process(workers: Sequence[Worker], leases: Sequence[LeaseTrouble]) -> list[Check]:
    """Check the workers and the leases of this process. Waits for nothing."""
    of_work = (*_breakers(workers), *_overrunning(workers), *_newer(workers))
    return [*_loops(workers), *of_work, *_subscriptions(workers), *_leases(leases)]


class StorageChecks:
    """The checks of one database. It never raises for what is broken: it reports it, and what was found before."""

    def __init__(
        self, storage: Storage, limits: HealthLimits, schedules: ScheduleChecks, workers: Sequence[Worker]
    ) -> None:
        self._storage = storage
        self._limits = limits
        self._schedules = schedules
        self._workers = workers
        self._found: list[Check] = []
        self._rights = RightsCheck(works=bool(workers))
        self._roster: Roster | None = None

    async def run(self) -> list[Check]:
        """Run every check, within seconds."""
        begun = time.monotonic()
        try:
            async with _patience():
                await self._run()
        except TimeoutError:
            summary = f"the database did not answer within {_PATIENCE:.0f} s"
            self._unreachable(built_in("storage", "unhealthy", summary, seconds=time.monotonic() - begun))
        except MainspringError as error:
            self._unreachable(replace(failed(error), seconds=time.monotonic() - begun))
        return self._found

    def _unreachable(self, check: Check) -> None:
        self._found = [check, *(each for each in self._found if each.name != "storage")]

    async def _run(self) -> None:
        begun = time.monotonic()
        latency = await self._storage.ping()
        milliseconds = round(latency / timedelta(milliseconds=1), 3)
        answered, data = f"answered in {milliseconds:.1f} ms", {"latency_ms": milliseconds}
        self._found.append(built_in("storage", "healthy", answered, data, seconds=time.monotonic() - begun))
        readings: dict[BuiltIn, Callable[[], Awaitable[list[Check]]]] = {
            "rights": lambda: self._rights.run(self._storage.schema),
            "schema": self._schema,
            "deliveries": self._deliveries,
            "inbox": self._inbox,
            "schedules": self._due,
            "clock": self._clock,
        }
        for name, reading in readings.items():
            await self._read(name, reading)
        self._found += self._rights.unread()

    async def _read(self, name: BuiltIn, reading: Callable[[], Awaitable[list[Check]]]) -> None:
        """Add the checks of a reading. One that the database rejects is a result, and the others continue."""
        begun = time.monotonic()
        try:
            checks = await reading()
        except (StorageUnavailable, SchemaTooNew):
            raise
        except NotGranted as error:
            if self._rights.is_beyond(name):
                return
            lacking = [each for each in self._found if each.name == "rights"]
            self._found = [each for each in self._found if each.name != "rights"]
            self._found.append(replace(lacking[0], status="unhealthy") if lacking else lacks([str(error)]))
            return
        except StorageError as error:
            damaged = any(each.name == "schema" for each in self._found)
            if not damaged:  # else it is the reason, and reported
                if isinstance(error, SchemaMissing):
                    raise
                checks = [built_in(name, "unhealthy", str(error), {"error": type(error).__name__})]
            else:
                checks = []
        seconds = time.monotonic() - begun
        self._found += [replace(each, seconds=seconds) for each in checks]

    async def _schema(self) -> list[Check]:
        await self._storage.schema.check()
        return _damaged(await self._storage.schema.missing())

    async def _deliveries(self) -> list[Check]:
        limits, ledger = self._limits, self._storage.ledger
        most = max(limits.backlog[1], *(each or 0 for each in limits.dead))
        tally = await ledger.tally(most + 1)
        counts = tally.groups
        roster = self._roster = await ledger.roster()
        paused = {each.name for each in roster.groups if each.paused_at is not None}
        overdue = await _overdue(ledger, tally, paused, limits)
        new = await ledger.buried(_NEW, _PAGE * _PAGES)
        late = f"ready for longer than {spell(limits.overdue_after)}"
        return [
            _waiting("backlog", {each.group: each.ready for each in counts}, paused, limits.backlog, "ready"),
            _waiting("overdue", overdue, paused, limits.overdue, late),
            _measure("lapsed", sum(each.lapsed for each in counts), (limits.lapsed, None), "claims lapsed"),
            _dead(new, sum(each.dead for each in counts), limits),
            _alive(roster, limits),
            _served(roster, limits),
            _claimed(roster, counts, limits),
            await _parked(ledger, tally, limits),
            *await of_forwards(ledger, tally, limits),
        ]

    async def _inbox(self) -> list[Check]:
        limits = self._limits
        return [_received(await self._storage.inbox.browse(InboxFilter(stuck=limits.stuck_after, limit=_PAGE)), limits)]

    async def _due(self) -> list[Check]:
        roster = self._roster or await self._storage.ledger.roster()
        alive = {each.app for each in roster.alive(self._limits.worker_silent_after)}
        overrunning = [each for worker in self._workers for each in worker.overrunning()]
        return [await self._schedules.run(self._storage, self._limits, alive, overrunning)]

    async def _clock(self) -> list[Check]:
        return [*_clock(await self._storage.schema.ahead())]


def _patience() -> AbstractAsyncContextManager[object]:
    # Without a loop, as in a blocking test, a timeout is impossible.
    return asyncio.timeout(_PATIENCE) if in_loop() else nullcontext()


def _damaged(missing: Sequence[LostObject]) -> list[Check]:
    if not missing:
        return []
    missing = sorted(missing, key=lambda each: not each.needed)
    names = [str(each) for each in missing]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    summary = f"{shown} is missing, although the migration that creates it was applied: {missing[0].remedy}"
    status: Status = "unhealthy" if any(each.needed for each in missing) else "degraded"
    return [built_in("schema", status, summary, {"missing": names})]


def _dead(new: Mapping[str, int], total: int, limits: HealthLimits) -> Check:
    count = sum(new.values())
    named = f" ({_named(new)})" if new else ""
    status = worst((_grade(count, limits.new_dead), _grade(total, limits.dead)))
    hint = "" if status == "healthy" else ": see `mainspring dead causes`"
    data = {"new": count, "groups": dict(new), "count": total, "limits": {"new": limits.new_dead, "all": limits.dead}}
    return built_in("dead", status, f"{count:,} new in the last hour{named}, {total:,} in all{hint}", data)


def _named(counts: Mapping[str, int]) -> str:
    """Return groups or topics with their counts, the largest first."""
    largest = sorted(counts.items(), key=lambda each: -each[1])[:_SHOWN]
    return ", ".join(f"{group} {many:,}" for group, many in largest) + (", …" if len(counts) > _SHOWN else "")


def _clock(ahead: timedelta) -> Iterator[Check]:
    if ahead > AHEAD:
        yield built_in("clock", "degraded", stands_still(ahead), {"ahead": ahead.total_seconds()})


def _received(stuck: Sequence[InboxView], limits: HealthLimits) -> Check:
    data: dict[str, object] = {"count": len(stuck), "limits": (limits.stuck, None)}
    if len(stuck) <= limits.stuck:
        return built_in("inbox", "healthy", f"{len(stuck):,} stuck", data)
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
    return built_in("inbox", "degraded", hint, data)


def _measure(name: BuiltIn, count: int, limits: tuple[int, int | None], what: str) -> Check:
    return built_in(name, _grade(count, limits), f"{count:,} {what}", {"count": count, "limits": limits})


def _waiting(
    name: BuiltIn, ready: Mapping[str, int], paused: Collection[str], limits: tuple[int, int], what: str
) -> Check:
    """Check how much waits. What waits in a paused group does so on purpose: it degrades at most."""
    total = sum(ready.values())
    held = {group: count for group, count in sorted(ready.items()) if count and group in paused}
    found = _measure(name, total, limits, what)
    if not held:
        return found
    status = worst((_grade(total - sum(held.values()), limits), _grade(total, (limits[0], None))))
    of_them = f"{sum(held.values()):,} of them paused ({_named(held)}): see `mainspring groups list`"
    return replace(found, status=status, summary=f"{found.summary}, {of_them}", data={**found.data, "paused": held})


def _grade(count: int, limits: tuple[int, int | None]) -> Status:
    degraded, unhealthy = limits
    if unhealthy is not None and count > unhealthy:
        return "unhealthy"
    return "degraded" if count > degraded else "healthy"


async def _overdue(ledger: Ledger, tally: Tally, paused: Collection[str], limits: HealthLimits) -> dict[str, int]:
    """Count by group, those that are not paused first, until it is enough to be unhealthy."""
    since = tally.now - limits.overdue_after
    late = [each for each in tally.groups if each.oldest_ready_at is not None and each.oldest_ready_at < since]
    found: dict[str, int] = {}
    for each in sorted(late, key=lambda each: each.group in paused):
        found[each.group] = await _overdue_in(ledger, each, since)
        if sum(found.values()) > limits.overdue[1]:
            break
    return found


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


async def _parked(ledger: Ledger, tally: Tally, limits: HealthLimits) -> Check:
    """Check for messages that no group has subscribed to for long: their topic may be misspelled."""
    since = tally.now - limits.parked_after
    found = await ledger.browse(Filter(state="parked", until=since, limit=_PAGE)) if tally.parked else None
    topics = Counter(each.topic for each in found.rows) if found is not None else Counter[str]()
    count = topics.total()
    data = {"count": count, "topics": dict(topics), "limits": (limits.parked, None)}
    if count <= limits.parked:
        return built_in("parked", "healthy", f"{count:,} parked for longer than {spell(limits.parked_after)}", data)
    more = " or more" if found is not None and found.before is not None else ""
    hint = (
        f"{count:,}{more} parked for longer than {spell(limits.parked_after)}, since no group subscribes "
        f"({_named(topics)}): see `mainspring messages list --state parked`"
    )
    return built_in("parked", "degraded", hint, data)


def _alive(roster: Roster, limits: HealthLimits) -> Check:
    alive = roster.alive(limits.worker_silent_after)
    served = roster.served(limits.worker_silent_after)
    needy = [each for each in roster.groups if not _is_queue(each)]
    waiting = sorted({each.app for each in needy} - {each.app for each in needy if each.name in served})
    data = {
        "alive": len(alive),
        "silent": len(roster.workers) - len(alive),
        "in_hand": sum(each.in_hand for each in alive),
        "unserved": waiting,
    }
    if waiting:
        hint = f"{len(alive)} alive, none of {', '.join(waiting)}: start one, as in `mainspring worker MODULE:APP`"
        return built_in("workers", "degraded", hint, data)
    return built_in("workers", "healthy", f"{len(alive)} alive", data)


def _is_queue(group: GroupView) -> bool:
    """Return whether code of the application's own claims from it, which needs no worker."""
    return group.options.get("kind") == "queue"


def _served(roster: Roster, limits: HealthLimits) -> Check:
    since = roster.now - limits.unserved_after
    unserved = sorted(each.name for each in roster.groups if (each.served_at or each.declared_at) < since)
    paused = sorted(each.name for each in roster.groups if each.paused_at)
    data = {"unserved": unserved, "paused": paused}
    if unserved:
        hint = f"no process serves {', '.join(unserved)}: start one, or run `mainspring groups retire`"
        return built_in("groups", "degraded", hint, data)
    now = roster.served(limits.worker_silent_after)
    counted = "all" if len(now) == len(roster.groups) else f"{len(now)} of {len(roster.groups)}"
    return built_in("groups", "healthy", f"{counted} served, {len(paused)} paused", data)


def _claimed(roster: Roster, counts: Sequence[Counts], limits: HealthLimits) -> Check:
    ready = {each.group: each.ready for each in counts if each.ready}
    alive = roster.alive(limits.worker_silent_after)
    paused = [each.name for each in roster.groups if each.name in ready and each.paused_at is not None]
    drained = [group for group in sorted(ready) if _drained([each for each in alive if group in each.groups])]
    waiting = {each.name for each in roster.groups if each.name in ready and each.paused_at is None}
    unserved = sorted(waiting - roster.served(limits.worker_silent_after))
    found = {"paused": sorted(paused), "drained": drained, "unserved": unserved}
    data = {**found, "ready": {group: ready[group] for group in sorted({*paused, *drained, *unserved})}}
    reasons = []
    if unserved:
        reasons.append(f"no live process serves {', '.join(unserved)}: start one, or see `mainspring workers list`")
    if paused:
        reasons.append(f"{', '.join(found['paused'])} is paused: see `mainspring groups list`")
    if drained:
        reasons.append(f"all workers of {', '.join(found['drained'])} drain: see `mainspring workers list`")
    if reasons:
        return built_in("claiming", "degraded", f"ready work is not claimed: {'; '.join(reasons)}", data)
    return built_in("claiming", "healthy", "every group with work is served", data)


def _drained(serving: Sequence[WorkerView]) -> bool:
    # A worker asked to drain continues until it notices.
    return bool(serving) and all(each.condition in ("draining", "drained") for each in serving)


def _newer(workers: Sequence[Worker]) -> Iterator[Check]:
    for worker in workers:
        for group, versions in worker.awaiting_newer().items():
            hint = f"messages for {group} wait for a worker with newer code: {versions[0]}"
            yield built_in("version", "degraded", hint, {"group": group, "versions": list(versions)}, of=group)


def _breakers(workers: Sequence[Worker]) -> Iterator[Check]:
    for worker in workers:
        for group, left in worker.pauses().items():
            yield built_in(
                "breaker",
                "degraded",
                f"{group} failed too often and is paused here, for {spell(left)} more",
                {"group": group, "seconds": left.total_seconds()},
                of=group,
            )


def _subscriptions(workers: Sequence[Worker]) -> Iterator[Check]:
    for worker in workers:
        for group in worker.subscribing.retired:
            hint = f"{group} was retired while a worker here has its consumer: remove it, or restart the worker"
            yield built_in("subscriptions", "degraded", hint, {"group": group, "retired": True}, of=group)
        for group, (patterns, ago) in worker.subscribing.missed().items():
            missed = sorted(patterns)
            yield built_in(
                "subscriptions",
                "degraded",
                f"{group} had lost its subscription to {', '.join(missed)}, restored {spell(ago)} ago: run this "
                "release of Mainspring in every worker of the app",
                {"group": group, "patterns": missed, "seconds": ago.total_seconds()},
                of=group,
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
    yield built_in("overrunning", "degraded", hint, data)


def _loops(workers: Sequence[Worker]) -> Iterator[Check]:
    for number, worker in enumerate(workers, 1):
        of = None if len(workers) == 1 else number
        reports = worker.progress()
        data = {loop: {"turns": each.turns, "failures": each.failures} for loop, each in reports.items()}
        failing = [f"{loop}: {each.error}" for loop, each in reports.items() if each.failures]
        if any(each.ended for each in reports.values()):
            yield built_in("worker", "unhealthy", "; ".join(failing), data, of=of)
        elif failing:
            yield built_in("worker", "degraded", "; ".join(failing), data, of=of)
        elif not worker.ready:
            hint = "not ready: waiting for the database or its schema, or stopping"
            yield built_in("worker", "degraded", hint, data, of=of)
        else:
            yield built_in("worker", "healthy", "every loop progresses", data, of=of)


def _leases(troubles: Sequence[LeaseTrouble]) -> Iterator[Check]:
    if not troubles:
        return
    reasons = [
        f"{each.name} was lost {spell(each.since)} ago: {each.why}"
        if each.lost
        else f"{each.name} could not be renewed for {spell(each.since)}: {each.why}"
        for each in troubles[:_SHOWN]
    ]
    more = f"; and {len(troubles) - _SHOWN:,} more" if len(troubles) > _SHOWN else ""
    data = {
        "lost": sorted({each.name for each in troubles if each.lost}),
        "late": sorted({each.name for each in troubles if not each.lost}),
    }
    yield built_in("leases", "degraded", "; ".join(reasons) + more, data)
