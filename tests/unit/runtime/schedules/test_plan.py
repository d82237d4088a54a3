"""When a plan is due: bounds, days off, clock changes, and what has no occurrence at all."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.runtime.schedules.plan import CannotPlan, Plan, read_plan
from tests.unit.runtime.schedules.making import DAY, HOUR, NOON, SECOND, plan

INSTANT = timedelta(microseconds=1)


def following(made: Plan, after: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    at = made.next(after)
    while at is not None and len(found) < count:
        found.append(at)
        at = made.next(at)
    return found


def local(found: datetime | None, zone: str) -> str:
    assert found is not None
    assert found.tzinfo is UTC
    return found.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M %z")


def test_start_and_end_are_part_of_it() -> None:
    bounded = plan("0 * * * *", start="2026-06-01T14:00:00+00:00", end="2026-06-01T16:00:00+00:00")

    assert following(bounded, NOON, 10) == [NOON + n * HOUR for n in (2, 3, 4)]
    assert bounded.next(NOON + 4 * HOUR) is None
    assert bounded.previous(NOON + 9 * HOUR) == NOON + 4 * HOUR
    assert bounded.previous(NOON + 2 * HOUR) == NOON + 2 * HOUR
    assert bounded.previous(NOON + 2 * HOUR - INSTANT) is None


def test_an_interval_is_counted_from_its_start() -> None:
    every = plan("every 7h", start="2026-06-01T12:34:56+00:00")
    start = datetime(2026, 6, 1, 12, 34, 56, tzinfo=UTC)

    assert following(every, NOON, 3) == [start, start + 7 * HOUR, start + 14 * HOUR]
    assert plan("every 7h").next(NOON) != start


def test_an_interval_takes_no_notice_of_clock_changes() -> None:
    daily = plan("every 1d", timezone="Europe/Berlin", start="2026-03-27T08:00:00+00:00")
    wall = plan("0 9 * * *", timezone="Europe/Berlin")
    before = datetime(2026, 3, 27, tzinfo=UTC)

    assert [at.hour for at in following(daily, before, 4)] == [8, 8, 8, 8]
    assert [at.hour for at in following(wall, before, 4)] == [8, 8, 7, 7]


def test_days_off_are_those_of_its_zone() -> None:
    # Christmas in Auckland begins at 11:00 UTC of the day before.
    kiwi = plan("0 * * * *", timezone="Pacific/Auckland", holidays=["2026-12-25"])

    found = following(kiwi, datetime(2026, 12, 24, 9, tzinfo=UTC), 2)

    assert [local(at, "Pacific/Auckland") for at in found] == ["12-24 23:00 +1300", "12-26 00:00 +1300"]


def test_workdays_and_holidays_go_together() -> None:
    # The 25th is a Thursday, the 1st of January one too.
    office = plan("0 9 * * *", workdays=["mon-fri"], holidays=["2025-12-25", "2025-12-26", "2026-01-01"])

    found = following(office, datetime(2025, 12, 24, 12, tzinfo=UTC), 4)

    assert [at.date() for at in found] == [date(2025, 12, 29), date(2025, 12, 30), date(2025, 12, 31), date(2026, 1, 2)]
    assert office.previous(datetime(2025, 12, 29, tzinfo=UTC)) == datetime(2025, 12, 24, 9, tzinfo=UTC)


def test_days_that_code_tells_are_asked_for() -> None:
    def odd(day: date) -> bool:
        return day.day % 2 == 1

    made = read_plan({"rhythm": "0 9 * * *", "holidays": ["sun", "code:odd"]}, {"holidays": (odd,)})

    assert [at.day for at in following(made, NOON, 4)] == [2, 4, 6, 8]


def test_a_function_of_days_that_fails_says_which_it_was() -> None:
    def broken(_day: date) -> bool:
        raise LookupError("no calendar")

    made = read_plan({"rhythm": "0 9 * * *", "holidays": ["code:shop.broken"]}, {"holidays": (broken,)})

    with pytest.raises(CannotPlan, match=r"^holidays: shop.broken failed for 2026-06-02: LookupError: no calendar$"):
        made.next(NOON)


# Midnight is left out there: 23:59:59 is followed by 01:00.
@pytest.mark.parametrize(
    ("zone", "day"),
    [("America/Santiago", "2026-09-06"), ("Asia/Beirut", "2026-03-29"), ("Africa/Cairo", "2026-04-24")],
)
@pytest.mark.parametrize("hour", [0, 1])
def test_a_day_without_midnight_after_a_day_off_begins_when_it_begins(zone: str, day: str, hour: int) -> None:
    the_day = date.fromisoformat(day)
    off = (the_day - timedelta(days=1)).isoformat()
    midnight = plan(f"0 {hour} * * *", timezone=zone, holidays=[off])
    before = datetime.combine(the_day, datetime.min.time(), ZoneInfo(zone)) - timedelta(days=1, hours=1)

    found = midnight.next(before)

    assert local(found, zone)[:11] == f"{day[5:]} 01:00"
    assert found is not None
    assert midnight.previous(found) == found


@pytest.mark.parametrize("zone", ["America/Santiago", "Asia/Beirut"])
def test_a_day_off_without_midnight_is_passed_as_a_whole(zone: str) -> None:
    day = date(2026, 9, 6) if zone == "America/Santiago" else date(2026, 3, 29)
    hourly = plan("0 * * * *", timezone=zone, holidays=[day.isoformat()])
    evening = datetime.combine(day - timedelta(days=1), datetime.min.time(), ZoneInfo(zone)).replace(hour=23)

    found = hourly.next(evening.astimezone(UTC))

    assert found is not None
    assert found.astimezone(ZoneInfo(zone)).strftime("%d %H:%M") == f"{day.day + 1:02} 00:00"
    assert hourly.previous(found - INSTANT) == evening.astimezone(UTC)


def test_clocks_that_strike_midnight_twice_never_lead_back() -> None:
    # On 2010-11-07 St. John's went from 00:01 back to 23:01 of the day before, which is a day off here.
    zone = "America/St_Johns"
    minutely = plan("* * * * *", timezone=zone, holidays=["2010-11-06"])

    found = following(minutely, datetime(2010, 11, 5, 12, tzinfo=UTC), 2_000)

    assert all(before < after for before, after in pairwise(found))
    assert all(at.astimezone(ZoneInfo(zone)).date() != date(2010, 11, 6) for at in found)


@given(
    zone=st.sampled_from(["Europe/Berlin", "America/Santiago", "Asia/Beirut", "Australia/Lord_Howe"]),
    rhythm=st.sampled_from(["*/15 * * * *", "0 0 * * *", "30 2 * * *", "every 35m", "every 11h"]),
    off=st.sampled_from([["sat", "sun"], ["mon-fri"], ["wed", "2010-11-06", "2026-10-25"]]),
    start=st.datetimes(datetime(2010, 10, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 - Hypothesis wants them so
)
@settings(max_examples=100, deadline=None)
def test_the_way_back_meets_the_same_occurrences(zone: str, rhythm: str, off: list[str], start: datetime) -> None:
    made = plan(rhythm, timezone=zone, holidays=off)
    after = start.replace(tzinfo=UTC)

    forward = following(made, after, 6)
    backward = []
    at = made.previous(forward[-1])
    while at is not None and at > after:
        backward.append(at)
        at = made.previous(at - INSTANT)
    assert backward[::-1] == forward


@pytest.mark.parametrize(
    "fields",
    [
        {"rhythm": "0 0 30 2 *"},
        {"rhythm": "0 9 * * sat", "workdays": ["mon-fri"]},
        {"rhythm": "0 9 * * *", "holidays": ["mon-sun"]},
        {"rhythm": "every 100ms", "holidays": ["mon-sun"]},
        {"rhythm": "every 7d", "workdays": ["2020-02-29"]},
        {"rhythm": "every 36500d", "holidays": ["mon-sun"]},
        {"rhythm": "every 36500d", "holidays": ["mon-sun"], "timezone": "Pacific/Kiritimati"},
        {"rhythm": "at 2026-06-01T12:00:00+00:00"},
        {"rhythm": "at 2026-07-01T12:00:00+00:00", "end": "2026-06-30T00:00:00+00:00"},
        {"rhythm": "every 1s", "end": "2026-06-01T12:00:00+00:00"},
    ],
)
def test_what_has_no_occurrence_answers_none_and_does_not_search_for_ever(fields: dict[str, Any]) -> None:
    assert read_plan(fields).next(NOON) is None


def test_a_single_instant_is_an_occurrence_once() -> None:
    once = plan("at 2026-06-01T14:00:00+02:00", timezone="Asia/Tokyo")

    assert once.next(NOON - SECOND) == NOON
    assert once.next(NOON) is None
    assert once.previous(NOON) == NOON


def test_on_gap_and_day_match_are_the_expressions_own() -> None:
    berlin = {"timezone": "Europe/Berlin"}
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)

    assert local(plan("30 2 * * *", **berlin).next(before), "Europe/Berlin") == "03-29 03:00 +0200"
    assert local(plan("30 2 * * *", on_gap="skip", **berlin).next(before), "Europe/Berlin") == "03-30 02:30 +0200"
    assert [at.day for at in following(plan("0 0 13 * fri", day_match="or"), NOON, 3)] == [5, 12, 13]
    assert plan("0 0 13 * fri").next(NOON) == datetime(2026, 11, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "missing required field `rhythm`"),
        ({"rhythm": "0 9 * *"}, "field"),
        ({"rhythm": "every never"}, "is not a duration"),
        ({"rhythm": "every 10ms"}, "too often"),
        ({"rhythm": "at noon"}, "noon"),
        ({"rhythm": "at 2026-06-01T12:00:00"}, "no time zone"),
        ({"rhythm": "every 1h", "timezone": "Mars/Olympus"}, r"timezone='Mars/Olympus' is not in the time zone"),
        ({"rhythm": "every 1h", "timezone": "../etc"}, "not in the time zone database"),
        ({"rhythm": "every 1h", "timezone": "Europe"}, "not in the time zone database"),
        ({"rhythm": "every 1h", "overlap": "sometimes"}, "Invalid enum value 'sometimes'"),
        ({"rhythm": "every 1h", "colour": "red"}, "unknown field `colour`"),
        ({"rhythm": "every 1h", "holidays": ["someday"]}, "neither a weekday, a date nor country:"),
        ({"rhythm": "every 1h", "holidays": ["code:shop.closed"]}, "decided by shop.closed, which this process does"),
        ({"rhythm": "every 1h", "start": "soon"}, "RFC3339"),
    ],
)
def test_what_cannot_be_followed_says_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotPlan, match=message):
        read_plan(fields)


def test_a_plan_that_is_there_a_day_later_is_the_same() -> None:
    assert plan("0 9 * * *").next(NOON) == plan("0 9 * * *").next(NOON + HOUR)
    assert plan("0 9 * * *").next(NOON + DAY) == datetime(2026, 6, 3, 9, tzinfo=UTC)
