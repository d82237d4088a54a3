"""A Cron is a value, and it asks for datetimes that have a zone."""

import copy
import pickle
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring.timing.cron import Cron
from mainspring.timing.cron.plan import plan

NEW_YORK = ZoneInfo("America/New_York")


def test_two_that_read_the_same_are_equal() -> None:
    assert Cron("0 9 * * mon-fri") == Cron(" 0  9\t* * MON-FRI ")
    assert hash(Cron("0 9 * * mon-fri")) == hash(Cron(" 0  9\t* * MON-FRI "))
    assert Cron("@Daily") == Cron("0 0 * * *")
    assert Cron("0 9 * * *") != Cron("0 10 * * *")
    assert Cron("0 9 1 * 1") != Cron("0 9 1 * 1", day_match="or")
    assert Cron("0 9 * * *") != Cron("0 9 * * *", on_gap="skip")
    assert Cron("0 9 * * *") != "0 9 * * *"


def test_it_shows_what_was_given() -> None:
    cron = Cron("  0 9 * *  mon-fri\n", day_match="or", on_gap="skip")

    assert str(cron) == cron.expression == "0 9 * *  mon-fri"
    assert repr(cron) == "Cron('0 9 * *  mon-fri', day_match='or', on_gap='skip')"
    assert repr(Cron("@daily")) == "Cron('@daily')"
    assert (cron.day_match, cron.on_gap) == ("or", "skip")


@pytest.mark.parametrize("name", ["expression", "day_match", "new"])
def test_it_does_not_change(name: str) -> None:
    cron = Cron("@daily")

    with pytest.raises(AttributeError, match=f"a Cron is immutable: create another one with a different {name}"):
        setattr(cron, name, "or")
    with pytest.raises(AttributeError, match=f"a Cron is immutable: {name} cannot be deleted"):
        delattr(cron, name)


def test_it_survives_a_pickle_and_a_copy() -> None:
    cron = Cron("0 9 13 * fri", day_match="or", on_gap="skip")

    for again in (pickle.loads(pickle.dumps(cron)), copy.copy(cron), copy.deepcopy(cron)):
        assert again == cron
        assert repr(again) == repr(cron)


def test_the_same_expression_is_read_once() -> None:
    plan.cache_clear()

    for _ in range(10):
        Cron("17 4 * * *")

    assert (plan.cache_info().misses, plan.cache_info().hits) == (1, 9)


@pytest.mark.parametrize(
    ("expression", "seconds", "both"),
    [
        ("* * * * *", False, False),
        ("* * * * * *", True, False),
        ("@every_second", True, False),
        ("@every_minute", False, False),
        ("0 0 13 * 5", False, True),
        ("0 0 L * FRIL", False, True),
        ("0 0 13 * ?", False, False),
        ("0 0 */2 * 5", False, False),  # a field that begins with a star has never counted as a restriction
    ],
)
def test_it_knows_its_own_shape(expression: str, seconds: bool, both: bool) -> None:
    assert (Cron(expression).has_seconds, Cron(expression).restricts_both_days) == (seconds, both)


@pytest.mark.parametrize("ask", ["next", "previous", "after"])
def test_a_datetime_without_a_zone_is_refused_with_what_to_write(ask: str) -> None:
    with pytest.raises(ValueError, match=r"has no zone, and cron needs one: write \w+\.replace\(tzinfo=UTC\) or"):
        getattr(Cron("@daily"), ask)(datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(TypeError, match=r"is not a datetime: write one with a zone, such as datetime\.now\(UTC\)"):
        getattr(Cron("@daily"), ask)(date(2026, 1, 1))


def test_both_ends_of_a_span_need_a_zone() -> None:
    aware = datetime(2026, 1, 1, tzinfo=UTC)

    with pytest.raises(ValueError, match=r"^start="):
        Cron("@daily").between(aware.replace(tzinfo=None), aware)
    with pytest.raises(ValueError, match=r"^end="):
        Cron("@daily").between(aware, aware.replace(tzinfo=None))


def test_a_span_has_its_start_and_not_its_end() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=NEW_YORK)

    assert [each.day for each in Cron("@daily").between(start, end)] == [1, 2, 3]
    assert [each.day for each in Cron("@daily").between(start, datetime(2026, 1, 3, tzinfo=UTC))] == [1, 2]


def test_fixed_offsets_are_zones_too() -> None:
    india = timezone(timedelta(hours=5, minutes=30))

    assert Cron("0 9 * * *").next(datetime(2026, 1, 1, 9, tzinfo=india)) == datetime(2026, 1, 2, 9, tzinfo=india)
    assert Cron("0 9 * * *").previous(datetime(2026, 1, 1, 9, tzinfo=india)) == datetime(2025, 12, 31, 9, tzinfo=india)


def test_the_end_of_a_gap_is_due_for_what_was_skipped() -> None:
    cron, end = Cron("30 2 * * *"), datetime(2026, 3, 8, 3, tzinfo=NEW_YORK)

    assert cron.next(datetime(2026, 3, 8, 1, tzinfo=NEW_YORK)) == end
    assert cron.next(end) == datetime(2026, 3, 9, 2, 30, tzinfo=NEW_YORK)
    # Asked from the end of the gap, the gap lies behind; asked back, it is there.
    assert cron.next(end, inclusive=True) == datetime(2026, 3, 9, 2, 30, tzinfo=NEW_YORK)
    assert cron.previous(end, inclusive=True) == end
    assert next(cron.after(end, inclusive=True)) == end
    assert list(cron.between(end, end + timedelta(hours=1))) == [end]


def test_a_start_that_never_was_is_read_as_python_reads_it() -> None:
    cron = Cron("*/20 * * * *")
    skipped = datetime(2026, 3, 8, 2, 30, tzinfo=NEW_YORK)  # 07:30 UTC, which is 03:30

    assert cron.next(skipped) == datetime(2026, 3, 8, 3, 40, tzinfo=NEW_YORK)
    assert cron.previous(skipped) == datetime(2026, 3, 8, 3, 20, tzinfo=NEW_YORK)
    assert cron.next(skipped.replace(fold=1)) == datetime(2026, 3, 8, 1, 40, tzinfo=NEW_YORK)


@pytest.mark.parametrize(
    ("expression", "times"),
    [("*/30 1 * * *", ["01:00-04:00", "01:30-04:00", "01:00-05:00", "01:30-05:00"]), ("30 1 * * *", ["01:30-04:00"])],
)
def test_a_time_that_comes_twice_has_its_fold(expression: str, times: list[str]) -> None:
    day, next_day = datetime(2026, 11, 1, tzinfo=NEW_YORK), datetime(2026, 11, 2, tzinfo=NEW_YORK)

    found = [each.isoformat() for each in Cron(expression).between(day, next_day)]

    assert [text[11:16] + text[19:] for text in found] == times


def test_the_calendar_has_two_ends() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    first = datetime(1, 1, 1, tzinfo=UTC)

    for zone in (UTC, NEW_YORK, ZoneInfo("Asia/Tokyo")):
        assert Cron("* * * * * *").next(last.replace(tzinfo=zone)) is None
        assert Cron("0 0 * * *").next(last.replace(tzinfo=zone)) is None
        assert Cron("* * * * *").previous(first.replace(tzinfo=zone)) is None
        assert Cron("* * * * *").next(first.replace(tzinfo=zone), inclusive=True) == first.replace(tzinfo=zone)
        assert len(list(Cron("0 0 * 12 *").after(last.replace(day=29, tzinfo=zone)))) == 2
        assert len(list(Cron("0 0 * 12 *").between(last.replace(day=29, tzinfo=zone), last.replace(tzinfo=zone)))) == 2


class Eastern(tzinfo):
    """New York's hours as a class from before folds: within a gap both folds have the offset of the summer."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return self.dst(when) - timedelta(hours=5)

    def dst(self, when: datetime | None) -> timedelta:
        assert when is not None
        summer = datetime(2026, 3, 8, 2, tzinfo=UTC) <= when.replace(tzinfo=UTC) < datetime(2026, 11, 1, 1, tzinfo=UTC)
        return timedelta(hours=1 if summer else 0)

    def tzname(self, when: datetime | None) -> str:
        return "Eastern"

    def fromutc(self, when: datetime) -> datetime:
        at = when.replace(tzinfo=UTC)
        summer = datetime(2026, 3, 8, 7, tzinfo=UTC) <= at < datetime(2026, 11, 1, 5, tzinfo=UTC)
        return when + timedelta(hours=-4 if summer else -5)


def test_a_zone_from_elsewhere_has_its_gap_found() -> None:
    zone = Eastern()
    start = datetime(2026, 3, 7, 12, tzinfo=zone)

    found = [each.isoformat() for each in islice(Cron("30 2 * * *").after(start), 2)]

    assert found == ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]
    assert Cron("30 2 * * *").previous(datetime(2026, 3, 8, 12, tzinfo=zone)) == datetime(2026, 3, 8, 3, tzinfo=zone)


def test_a_zone_that_cannot_tell_other_times_of_the_year_is_refused() -> None:
    class Pytz(Eastern):
        zone = "America/New_York"
        _utc_transition_times: tuple[Any, ...] = ()

    with pytest.raises(ValueError, match=r"is a pytz zone, .*: use ZoneInfo\('America/New_York'\)"):
        Cron("@daily").next(datetime(2026, 1, 1, tzinfo=Pytz()))
