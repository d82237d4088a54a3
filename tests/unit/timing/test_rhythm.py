"""Intervals and single instants: against counting by hand, and written down and read again."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.timing.cron import Cron, CronError
from mainspring.timing.rhythm import EPOCH, SHORTEST, Every, Once, every, read_rhythm

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

zones = st.sampled_from(
    [UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe"), timezone(timedelta(hours=-9))]
)
# Small numbers, so that counting meets them: the arithmetic is the same for large ones.
periods = st.integers(100_000, 5_000_000).map(lambda micros: timedelta(microseconds=micros))
offsets = st.integers(-20_000_000, 20_000_000).map(lambda micros: timedelta(microseconds=micros))


def counted(period: timedelta, anchor: datetime, around: datetime) -> list[datetime]:
    """Every instant of the rhythm from well before to well after, one added to the other."""
    at = anchor
    while at > around - 2 * period:
        at -= period
    while at < around - 2 * period:
        at += period
    return [at + n * period for n in range(-1, 5)]


@given(period=periods, offset=offsets, zone=zones, inclusive=st.booleans())
@settings(max_examples=300, deadline=None)
def test_an_interval_agrees_with_counting(
    period: timedelta, offset: timedelta, zone: ZoneInfo, *, inclusive: bool
) -> None:
    asked = (NOON + offset).astimezone(zone)
    instants = counted(period, NOON, NOON + offset)
    rhythm = Every(period, NOON)

    following, before = rhythm.next(asked, inclusive=inclusive), rhythm.previous(asked, inclusive=inclusive)

    at = NOON + offset
    assert following == min(each for each in instants if each > at or (inclusive and each == at))
    assert before == max(each for each in instants if each < at or (inclusive and each == at))
    assert following is not None
    assert following.tzinfo is asked.tzinfo


@given(periods, st.integers(-50, 50))
def test_an_interval_is_at_each_of_its_own_instants(period: timedelta, step: int) -> None:
    rhythm, at = Every(period, NOON), NOON + step * period

    assert rhythm.next(at, inclusive=True) == rhythm.previous(at, inclusive=True) == at
    assert rhythm.next(at) == rhythm.next(at + MICROSECOND, inclusive=True) == at + period
    assert rhythm.previous(at) == rhythm.previous(at - MICROSECOND, inclusive=True) == at - period


def test_days_are_24_hours_whatever_clocks_do() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    daily = Every(timedelta(days=1), datetime(2026, 3, 28, 8, tzinfo=UTC))

    found = daily.next(datetime(2026, 3, 28, 12, tzinfo=berlin))

    assert found is not None
    assert found.isoformat() == "2026-03-29T10:00:00+02:00"


def test_all_nodes_count_from_the_same_instant() -> None:
    assert every("90s") == Every(timedelta(seconds=90), EPOCH)
    assert every("1d").next(NOON) == datetime(2026, 6, 2, tzinfo=UTC)


def test_the_ends_of_the_calendar_answer_none() -> None:
    century = Every(timedelta(days=36_500))

    assert century.next(datetime.max.replace(tzinfo=UTC)) is None
    assert century.previous(datetime.min.replace(tzinfo=UTC)) is None
    assert Every(timedelta(hours=1)).next(datetime(9999, 12, 31, 23, 30, tzinfo=UTC)) is None


@given(offset=offsets, zone=zones, inclusive=st.booleans())
def test_an_instant_is_before_or_after(offset: timedelta, zone: ZoneInfo, *, inclusive: bool) -> None:
    asked = (NOON + offset).astimezone(zone)
    is_to_come = offset < timedelta() or (inclusive and not offset)
    has_been = offset > timedelta() or (inclusive and not offset)

    assert Once(NOON).next(asked, inclusive=inclusive) == (NOON if is_to_come else None)
    assert Once(NOON).previous(asked, inclusive=inclusive) == (NOON if has_been else None)


@given(st.timedeltas(SHORTEST, timedelta(days=36_500)))
@settings(max_examples=500)
def test_an_interval_is_read_exactly_as_it_was_written(period: timedelta) -> None:
    assert read_rhythm(str(Every(period))) == Every(period)


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28)), zones)  # noqa: DTZ001 - Hypothesis wants them so
def test_an_instant_is_read_exactly_as_it_was_written(at: datetime, zone: ZoneInfo) -> None:
    written = Once(at.replace(tzinfo=UTC).astimezone(zone))

    assert read_rhythm(str(written)) == Once(at.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 90s", "every 1m30s"),
        ("  EVERY 1d2h3m4s5ms6us ", "every 1d2h3m4s5ms6us"),
        ("every 1.5h", "every 1h30m"),
        ("at 2026-06-01T12:00:00+02:00", "at 2026-06-01T12:00:00+02:00"),
        ("0 9 * * mon-fri", "0 9 * * mon-fri"),
    ],
)
def test_text_is_read_and_written(text: str, expected: str) -> None:
    rhythm = read_rhythm(text)

    assert str(rhythm) == expected
    assert str(read_rhythm(str(rhythm))) == expected
    assert rhythm.describe()


def test_what_an_expression_needs_is_handed_on() -> None:
    rhythm = read_rhythm("0 0 13 * fri", day_match="or", on_gap="skip")

    assert rhythm == Cron("0 0 13 * fri", day_match="or", on_gap="skip")
    assert read_rhythm("every 1h", anchor=NOON) == Every(timedelta(hours=1), NOON)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("every 99ms", "too often: the least is 100ms"),
        ("every 0s", "too often"),
        ("every fortnight", "is not a duration"),
        ("every 200000d", "longer than a hundred years"),
        ("at 2026-06-01T12:00:00", "has no time zone: write its offset too"),
        ("at lunch", "lunch"),
    ],
)
def test_what_is_no_rhythm_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_rhythm(text)


def test_a_bad_expression_is_a_cron_error() -> None:
    with pytest.raises(CronError):
        read_rhythm("61 * * * *")
    with pytest.raises(ValueError, match="every=5 has no unit"):
        every(5)  # type: ignore[arg-type]
