"""The view of a schedule, and a preview of a rhythm before any schedule has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Unpack
from zoneinfo import ZoneInfo

from mainspring.app.options import whole
from mainspring.app.schedule.timing import RhythmOption, TimingOptions, check_has_occurrences, read_timing
from mainspring.model.schedule import UNLIMITED, DeadLetters, Freeze, Layer, Misfire, Mode, Origin, Overlap, Schedule
from mainspring.model.views import RunTimes, RunView
from mainspring.runtime.schedules.plan import CODE, CannotPlan, Code, Plan, read_plan
from mainspring.timing.rhythm import Rhythm

ScheduleState = Literal["active", "paused", "retired", "frozen", "finished", "broken"]
"""Active: due at ``next_at``. Retired: its code is gone. Finished: it has no further occurrence. Broken: see
``problem``."""


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule: its options, its state, and its last run."""

    name: str
    app: str
    state: ScheduleState
    rhythm: str
    description: str
    """The rhythm in words."""
    timezone: str
    day_match: Literal["and", "or"]
    on_gap: Literal["fire", "skip"]
    next_at: datetime | None
    last_run: RunView | None
    """None: it never ran, or no run was kept."""
    mode: Mode
    topic: str
    group: str | None
    """The consumer in mode "direct"."""
    misfire: Misfire
    misfire_after: timedelta
    catch_up: int
    overlap: Overlap
    jitter: timedelta
    start: datetime | None
    end: datetime | None
    holidays: tuple[str, ...]
    workdays: tuple[str, ...]
    only_if: str | None
    """Its condition: "queue empty", or the function as ``code:shop.is_open``."""
    priority: int
    headers: Mapping[str, str]
    key: str | None
    correlation_id: str | None
    retry: str | Mapping[str, Any] | None
    """Its own retry policy, as data. None: that of its consumer for schedules."""
    timeout: timedelta | None
    """Its own time limit of one attempt. None: that of its consumer, unless it is ``untimed``."""
    untimed: bool
    """Whether it was given no limit at all."""
    dead: DeadLetters | None
    """Which of its dead letters are kept. None: what the app of its consumer says."""
    then: str | None
    """The group that follows when a run is done."""
    failed: str | None
    """The group that follows when an occurrence was buried or cancelled."""
    fired: int
    missed: int
    """Occurrences that the misfire policy dropped."""
    skipped: int
    """Occurrences that the overlap policy or ``only_if`` dropped."""
    origin: Origin
    defined: tuple[str, ...]
    """The fields that its definition sets, in code or by ``put``; the app's ``misfire_after`` is one of them,
    unless it is the default. The others have their defaults."""
    configured: tuple[str, ...]
    """The fields that configuration sets over the code's."""
    edited: tuple[str, ...]
    """The fields set at run time, over all others."""
    revision: int
    created_at: datetime
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    frozen_at: datetime | None = None
    """Since when all schedules of its app, or of every app, are frozen."""
    frozen_by: str | None = None
    freeze_reason: str | None = None
    retired_at: datetime | None = None
    problem: str | None = None
    """Why this process cannot follow it. It is not broken if only the functions for its days are missing here."""
    run_times: RunTimes | None = None
    """How long its latest kept runs took; None if there are none, and in lists."""

    @property
    def never_ran(self) -> bool:
        """Whether no run is known."""
        return self.last_run is None and self.fired == 0


def viewed(row: Schedule, freezes: Collection[Freeze], last_run: RunView | None, code: Code | None) -> ScheduleView:
    """Return a row's view."""
    layers = row.layers
    plan, problem = _read(layers, code)
    fields = (plan or read_plan({"rhythm": "every 1d"})).fields
    group = layers.get("group")
    freeze = next((each for each in freezes if each.app in ("", row.app)), None)
    return ScheduleView(
        name=row.name,
        app=row.app,
        state=_state(row, freeze, broken=plan is None),
        rhythm=str(layers.get("rhythm", "")),
        description="" if plan is None else plan.rhythm.describe(),
        timezone=str(layers.get("timezone", "UTC")),
        day_match=fields.day_match,
        on_gap=fields.on_gap,
        next_at=row.next_at,
        last_run=last_run,
        mode=fields.mode,
        topic=str(layers.get("topic", "")),
        group=None if group is None or fields.mode == "publish" else str(group),
        misfire=fields.misfire,
        misfire_after=timedelta(seconds=fields.misfire_after),
        catch_up=fields.catch_up,
        overlap=fields.overlap,
        jitter=timedelta(seconds=fields.jitter),
        start=fields.start,
        end=fields.end,
        holidays=tuple(layers.get("holidays", ())),
        workdays=tuple(layers.get("workdays", ())),
        only_if=fields.only_if,
        priority=fields.priority,
        headers=fields.headers,
        key=fields.key,
        correlation_id=fields.correlation_id,
        retry=fields.retry,
        timeout=timedelta(seconds=fields.timeout) if isinstance(fields.timeout, float) else None,
        untimed=fields.timeout == UNLIMITED,
        dead=fields.dead,
        then=None if fields.then is None else fields.then.group,
        failed=None if fields.failed is None else fields.failed.group,
        fired=row.fired,
        missed=row.missed,
        skipped=row.skipped,
        origin=row.origin,
        defined=tuple(sorted(row.definition)),
        configured=tuple(sorted(row.overrides)),
        edited=tuple(sorted(row.edits)),
        revision=row.revision,
        created_at=row.created_at,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        pause_reason=row.pause_reason,
        frozen_at=None if freeze is None else freeze.at,
        frozen_by=None if freeze is None else freeze.by,
        freeze_reason=None if freeze is None else freeze.reason,
        retired_at=row.retired_at,
        problem=problem,
    )


def _read(layers: Layer, code: Code | None) -> tuple[Plan | None, str | None]:
    """Return the plan, and why it cannot be followed here; None if no process could."""
    try:
        return read_plan(layers, code), None
    except CannotPlan as error:
        problem = str(error)
    by_function = {each for each in ("holidays", "workdays") if any(d.startswith(CODE) for d in layers.get(each, ()))}
    try:
        # All but those days is known without code.
        return read_plan({field: value for field, value in layers.items() if field not in by_function}), problem
    except CannotPlan:
        return None, problem


def _state(row: Schedule, freeze: Freeze | None, *, broken: bool) -> ScheduleState:
    if row.retired_at is not None:
        return "retired"
    if row.paused_at is not None:
        return "paused"
    if broken:
        return "broken"
    if row.next_at is None:
        return "finished"
    return "frozen" if freeze is not None else "active"


_MOST = 1000


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of a rhythm: its next times, in its zone."""

    rhythm: Rhythm
    zone: ZoneInfo
    after: datetime
    times: tuple[datetime, ...]


def preview(
    rhythm: RhythmOption, count: int = 5, *, after: datetime | None = None, **options: Unpack[TimingOptions]
) -> Preview:
    """Return the first ``count`` times after ``after`` [now]; without an offset, it is in the plan's zone.

    Raises BadOption or CronError, also for a rhythm that is never due.
    """
    whole(count, "count", least=1, most=_MOST)
    fields, code = read_timing(rhythm, options)
    plan = read_plan(fields, code)
    since = after or datetime.now(UTC)
    since = since.astimezone(plan.zone) if since.tzinfo else since.replace(tzinfo=plan.zone)
    check_has_occurrences(plan, "this", since)
    return Preview(plan.rhythm, plan.zone, since, tuple(upcoming(plan, since, count)))


def upcoming(plan: Plan, after: datetime, count: int) -> list[datetime]:
    """Return the first ``count`` times after ``after``, in the plan's zone."""
    times: list[datetime] = []
    moment = plan.next(after)
    while moment is not None and len(times) < count:
        times.append(moment.astimezone(plan.zone))
        moment = plan.next(moment)
    return times
