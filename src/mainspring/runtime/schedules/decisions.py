"""Decides which occurrences of a due schedule are published, and which are skipped."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, assert_never
from uuid import UUID, uuid5

import msgspec

from mainspring.model.join import Join, as_members
from mainspring.model.message import MANUAL_HEADER, Draft, Priority
from mainspring.model.schedule import (
    DEAD_HEADER,
    NEVER,
    NEXT_HEADER,
    OWN_RETRY,
    QUEUE_EMPTY,
    RETRY_HEADER,
    RHYTHM_HEADER,
    SCHEDULE_HEADER,
    START_HEADER,
    TIMEOUT_HEADER,
    Due,
    Occurrence,
    Schedule,
    ScheduleAdvance,
    jitter_share,
)
from mainspring.runtime.schedules.plan import CODE, Following, Plan
from mainspring.timing.rhythm import Once

COUNTED = 10_000
"""How many occurrences of one schedule are counted at a time: beyond them only the latest are searched."""
_KEPT = 1_000
"""How many of the latest are kept."""
_MOST_WAITING = 100
"""How many occurrences may wait for an earlier run to end."""
_NAMESPACE = UUID("6d61696e-7370-7269-8e67-7363686564ab")


def decide(plan: Plan, due: Due, now: datetime, counted: int = COUNTED, *, met: bool | None = None) -> ScheduleAdvance:
    """Decide which occurrences from the schedule's next time until now to publish, and when it is due again.

    ``met`` is what the function of its ``only_if`` has returned; None if it has none. At most so many are counted one
    by one: beyond them ``missed`` may be too low, and nothing else differs.
    """
    schedule, policy = due.schedule, plan.fields
    assert schedule.next_at is not None, "a schedule without a next time is never due"
    tolerated = now - timedelta(seconds=policy.misfire_after)
    pending = _pending(plan, schedule.next_at, now, tolerated, counted)
    times = _in_time(plan, pending, tolerated)
    busy = bool(due.unfinished or due.waiting)
    is_met = not due.busy if policy.only_if == QUEUE_EMPTY else met is not False
    fit = _fitting(plan, due, times) if is_met else _Fit()
    return ScheduleAdvance(
        base_at=pending.latest[-1],
        next_at=pending.next_at,
        occurrences=(
            *(occurrence(plan, schedule, at) for at in fit.starting),
            *(occurrence(plan, schedule, at, waits=True) for at in fit.waiting),
        ),
        missed=pending.total - len(times),
        skipped=len(times) - len(fit.starting) - len(fit.waiting),
        why_missed=f"since {schedule.next_at}, and misfire={policy.misfire!r} makes up for {len(times)}",
        why_skipped=f"overlap={policy.overlap!r}, an earlier run is unfinished" if is_met else _unmet(policy.only_if),
        stop_running=policy.overlap == "cancel" and busy and bool(times) and is_met,
        release_waiting=policy.overlap == "allow" and due.waiting > 0,
    )


def occurrence(plan: Plan, schedule: Schedule, at: datetime, *, waits: bool = False) -> Occurrence:
    """Return the message of one due time. Its id derives from both: it cannot be stored twice (invariant 5).

    With a jitter it starts later than it is due, by a share that is the same on every node.
    """
    which = f"{schedule.name}\n{at.timestamp():.6f}"
    if isinstance(plan.rhythm, Once):
        # A second request for the same time is another message; so is one after its row was recreated.
        which += f"\n{schedule.revision}\n{schedule.created_at.timestamp():.6f}"
    draft = message(plan, schedule.name, at, uuid5(_NAMESPACE, which))
    if waits:
        return followed(plan, draft, NEVER)
    jitter = plan.fields.jitter
    if not jitter:
        return followed(plan, draft)
    start = at + timedelta(seconds=jitter * jitter_share(draft.id))
    return followed(plan, replace(draft, headers={**(draft.headers or {}), START_HEADER: start.isoformat()}), start)


def followed(plan: Plan, draft: Draft, due_at: datetime | None = None) -> Occurrence:
    """Return the occurrence of this message, as the only member of a join where something follows it."""
    then, failed = plan.fields.then, plan.fields.failed
    if then is None and failed is None:
        return Occurrence(draft, due_at)
    # Derived from the message: whatever publishes it again opens no second join.
    id = uuid5(_NAMESPACE, f"join\n{draft.id}")
    join = Join(id, *(None if each is None else _following(each, draft, id) for each in (then, failed)))
    return Occurrence(as_members(join, [draft])[0], due_at, join)


def _following(wanted: Following, draft: Draft, id: UUID) -> Draft:
    return Draft(
        id=id,
        topic=wanted.topic,
        payload=wanted.payload,
        content_type=wanted.content_type,
        key=draft.key,
        group=wanted.group,
        priority=draft.priority,
        correlation_id=draft.correlation_id or str(draft.id),
        causation_id=draft.id,
    )


def message(plan: Plan, schedule: str, at: datetime | None, id: UUID, *, manual: bool = False) -> Draft:
    """Return the message that a schedule publishes; a manual run is outside of its rhythm."""
    fields = plan.fields
    headers = {**fields.headers, SCHEDULE_HEADER: schedule, RHYTHM_HEADER: str(plan.rhythm), **_run_headers(plan)}
    # A manual run is outside of the rhythm: no next occurrence ends its retries.
    if at is not None and not manual and (following := plan.next(at)) is not None:
        headers[NEXT_HEADER] = following.isoformat()
    if manual:
        headers[MANUAL_HEADER] = "true"
    return Draft(
        id=id,
        topic=fields.topic,
        payload=fields.payload,
        content_type=fields.content_type,
        headers=headers,
        key=fields.key,
        group=fields.group if fields.mode == "direct" else None,
        priority=Priority(fields.priority),
        at=at,
        correlation_id=fields.correlation_id,
        schedule=schedule,
        manual=manual,
    )


def _run_headers(plan: Plan) -> dict[str, str]:
    """Return how its runs are to go, for the executor: only what differs from the defaults."""
    fields = plan.fields
    # A topic has consumers of any kind, and each has its own policy.
    retry = OWN_RETRY if fields.retry is None and fields.mode == "publish" else fields.retry
    headers: dict[str, str] = {}
    if retry is not None:
        headers[RETRY_HEADER] = msgspec.json.encode(retry).decode()
    if fields.timeout is not None:
        headers[TIMEOUT_HEADER] = str(fields.timeout)
    # Two one-time jobs under one name are two jobs: the failure of one repeats no other's.
    dead = "all" if fields.dead is None and isinstance(plan.rhythm, Once) else fields.dead
    if dead is not None:
        headers[DEAD_HEADER] = dead
    return headers


def _unmet(only_if: str | None) -> str:
    if only_if == QUEUE_EMPTY:
        return f"only_if={only_if!r}, and its group has something ready or running"
    return f"only_if={(only_if or '').removeprefix(CODE)} returned False"


class _Pending(NamedTuple):
    """The occurrences until now: their number, the latest of them, and the first one after."""

    total: int
    latest: Sequence[datetime]
    next_at: datetime | None


class _Fit(NamedTuple):
    """The occurrences that start now, and those that wait for an earlier run to end."""

    starting: Sequence[datetime] = ()
    waiting: Sequence[datetime] = ()


def _pending(plan: Plan, first: datetime, now: datetime, tolerated: datetime, counted: int) -> _Pending:
    latest: deque[datetime] = deque(maxlen=_KEPT)
    count = 0
    most = counted if first < tolerated else COUNTED
    at: datetime | None = first
    while at is not None and at <= now:
        latest.append(at)
        count += 1
        if count == most:
            return _far_behind(plan, now, tolerated, latest, count)
        at = plan.next(at)
    return _Pending(count, list(latest), at)


def _far_behind(plan: Plan, now: datetime, tolerated: datetime, latest: deque[datetime], count: int) -> _Pending:
    """Search from the other end: after a week without a node, a rhythm of seconds is half a million behind."""
    found: list[datetime] = []
    at = plan.previous(now)
    while at is not None and at > latest[-1] and not _are_enough(plan, found, tolerated):
        found.append(at)
        at = plan.previous(at - timedelta(microseconds=1))
    latest.extend(reversed(found))
    return _Pending(count + len(found), list(latest), plan.next(now))


def _are_enough(plan: Plan, found: Sequence[datetime], tolerated: datetime) -> bool:
    """Return whether these latest ones, newest first, are all that the misfire policy can use."""
    policy = plan.fields.misfire
    match policy:
        case "latest":
            return len(found) == 1
        case "skip":
            return len(found) == _KEPT or (bool(found) and found[-1] < tolerated)
        case "all":
            return len(found) == plan.fields.catch_up
        case _:
            assert_never(policy)


def _in_time(plan: Plan, pending: _Pending, tolerated: datetime) -> Sequence[datetime]:
    """Return the occurrences that the misfire policy admits: all of them, unless the first is too late."""
    is_late = pending.latest[0] < tolerated or pending.total > len(pending.latest)
    if not is_late:
        return pending.latest
    policy = plan.fields.misfire
    match policy:
        case "latest":
            # One run makes up for all.
            return [pending.latest[-1]]
        case "skip":
            return [at for at in pending.latest if at >= tolerated]
        case "all":
            return pending.latest[-plan.fields.catch_up :]
        case _:
            assert_never(policy)


def _fitting(plan: Plan, due: Due, times: Sequence[datetime]) -> _Fit:
    """Apply the overlap policy: which of them start now, and which wait. Of several due at once, one starts."""
    busy = bool(due.unfinished or due.waiting)
    policy = plan.fields.overlap
    match policy:
        case "allow":
            return _Fit(times)
        case "skip":
            return _Fit() if busy else _Fit(times[:1], times[1 : 1 + _MOST_WAITING])
        case "queue":
            starting = times[: 0 if busy else 1]
            return _Fit(starting, times[len(starting) :][: max(0, _MOST_WAITING - due.waiting)])
        case "cancel":
            newest = times[-1:]
            return _Fit((), newest) if busy else _Fit(newest)
        case _:
            assert_never(policy)
