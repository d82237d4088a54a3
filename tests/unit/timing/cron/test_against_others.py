"""The same answers as cronsim and croniter, where they go by the same rules.

That is: in UTC, with ``day_match="or"`` (both are Vixie's heirs), without ``?``, macros and ranges that wrap around,
and with ranges and steps that lead somewhere: cronsim reads ``0-0/1`` as every value, croniter ``12/1`` in the months
and ``0-0`` in the days of week. cronsim also shares ``L``, ``LW``, ``nL`` and ``n#k``, and what becomes of fixed times
when clocks are turned, unless it is asked from within the second pass. croniter takes a day field like ``*/2`` for a
restriction, which Vixie's cron does not, and ends ``1/2`` in the days of week with Saturday and not with the Sunday
that is 7, so it is not asked about such fields.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mainspring.timing.cron import Cron
from tests.unit.timing.cron.expressions import plain_field

# Tracing doubles its time, and the tests beside it measure the lines that run here.
pytestmark = pytest.mark.unmeasured

EXAMPLES = 120
moments = st.datetimes(datetime(1990, 1, 1), datetime(2080, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
minutes, hours, months = plain_field(0, 59), plain_field(0, 23), plain_field(1, 12)
days, weekdays = plain_field(1, 31), plain_field(0, 6)
plain_days = days.filter(lambda text: not text.startswith("*/"))
plain_weekdays = weekdays.filter(lambda text: not re.search(r"(^|,)(\*|\d)/", text))
last_days = days | st.sampled_from(["L", "LW"])
some_weekdays = (
    weekdays | st.builds("{}#{}".format, st.integers(0, 6), st.integers(1, 5)) | st.integers(0, 6).map("{}L".format)
)


def _fields(*fields: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    five = st.tuples(*fields).map(" ".join)
    return five | st.builds("{} {}".format, minutes, five)


def _cronsim(expression: str, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    try:
        return CronSim(expression, start, reverse=reverse)
    except CronSimError:
        return iter(())  # it refuses days that never come


@given(_fields(minutes, hours, last_days, months, some_weekdays), moments)
@settings(max_examples=EXAMPLES, deadline=None)
def test_cronsim_finds_the_same_ahead(expression: str, start: datetime) -> None:
    ours = list(islice(Cron(expression, day_match="or").after(start), 5))

    assert ours == list(islice(_cronsim(expression, start), 5))


@given(_fields(minutes, hours, last_days, months, some_weekdays), moments)
@settings(max_examples=EXAMPLES, deadline=None)
def test_cronsim_finds_the_same_behind(expression: str, start: datetime) -> None:
    cron = Cron(expression, day_match="or")
    ours: list[datetime] = []
    at = cron.previous(start)
    while at is not None and len(ours) < 5:
        ours.append(at)
        at = cron.previous(at)

    assert ours == list(islice(_cronsim(expression, start, reverse=True), 5))


@given(_fields(minutes, hours, plain_days | st.just("L"), months, plain_weekdays), moments)
@settings(max_examples=EXAMPLES, deadline=None)
def test_croniter_finds_the_same(expression: str, start: datetime) -> None:
    ours = list(islice(Cron(expression, day_match="or").after(start), 5))
    assume(ours)

    theirs = croniter(expression, start, ret_type=datetime, second_at_beginning=True)

    assert ours == [theirs.get_next() for _ in range(5)]


@given(_fields(minutes, hours, plain_days, months, plain_weekdays), moments)
@settings(max_examples=EXAMPLES, deadline=None)
def test_croniter_finds_the_same_when_both_days_must_match(expression: str, start: datetime) -> None:
    found = Cron(expression).next(start)

    try:
        theirs = croniter(expression, start, ret_type=datetime, day_or=False, second_at_beginning=True).get_next()
    except CroniterBadDateError:
        theirs = None  # it looks fifty years ahead

    assert found == theirs


fixed_hours = st.lists(st.integers(0, 5).map(str), min_size=1, max_size=3).map(",".join)
fixed_minutes = st.lists(st.integers(0, 59).map(str), min_size=1, max_size=3).map(",".join)
changes = st.sampled_from(
    [
        (datetime(2026, 3, 8, 7, tzinfo=UTC), "America/New_York"),
        (datetime(2026, 11, 1, 6, tzinfo=UTC), "America/New_York"),
        (datetime(2026, 3, 29, 1, tzinfo=UTC), "Europe/Riga"),
        (datetime(2026, 10, 25, 1, tzinfo=UTC), "Europe/Riga"),
        (datetime(2026, 4, 4, 16, tzinfo=UTC), "Australia/Sydney"),
        (datetime(2026, 10, 3, 16, tzinfo=UTC), "Australia/Sydney"),
    ]
)


@given(fixed_minutes, fixed_hours, changes, st.integers(2, 30))
@settings(max_examples=EXAMPLES, deadline=None)
def test_cronsim_turns_the_clocks_alike_for_fixed_times(
    minute: str, hour: str, change: tuple[datetime, str], hours_before: int
) -> None:
    expression = f"{minute} {hour} * * *"
    start = (change[0] - timedelta(hours=hours_before)).astimezone(ZoneInfo(change[1]))

    ours = [each.astimezone(UTC) for each in islice(Cron(expression).after(start), 12)]

    assert ours == [each.astimezone(UTC) for each in islice(_cronsim(expression, start), 12)]
