"""A rhythm as it would be followed, before any schedule has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Unpack
from zoneinfo import ZoneInfo

from mainspring.app.options import whole
from mainspring.app.timings import RhythmOption, TimingOptions, check_has_occurrences, read_timing
from mainspring.runtime.schedules.plan import Plan, read_plan
from mainspring.timing.rhythm import Rhythm

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rhythm means: its next times, on the clocks of its zone."""

    rhythm: Rhythm
    zone: ZoneInfo
    after: datetime
    times: tuple[datetime, ...]


def preview(
    rhythm: RhythmOption, count: int = 5, *, after: datetime | None = None, **options: Unpack[TimingOptions]
) -> Preview:
    """The first ``count`` times after this one [now]; without an offset it is read off the clocks of the zone.

    Raises BadOption or CronError, for a rhythm that is never due too.
    """
    whole(count, "count", least=1, most=_MOST)
    fields, code = read_timing(rhythm, options)
    plan = read_plan(fields, code)
    since = after or datetime.now(UTC)
    since = since.astimezone(plan.zone) if since.tzinfo else since.replace(tzinfo=plan.zone)
    check_has_occurrences(plan, "this", since)
    return Preview(plan.rhythm, plan.zone, since, tuple(upcoming(plan, since, count)))


def upcoming(plan: Plan, after: datetime, count: int) -> list[datetime]:
    """The first ``count`` times after this one, on the clocks of the plan's zone."""
    times: list[datetime] = []
    moment = plan.next(after)
    while moment is not None and len(times) < count:
        times.append(moment.astimezone(plan.zone))
        moment = plan.next(moment)
    return times
