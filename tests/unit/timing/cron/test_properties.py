"""What holds for every expression, in every zone, from every moment."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.timing.cron import Cron
from tests.unit.timing.cron.expressions import expressions

# Tracing doubles its time, and the tests beside it measure the lines that run here.
pytestmark = pytest.mark.unmeasured

# Shifts of one hour, half an hour, two hours, at midnight, southern, none; a day that was left out; odd seconds.
ZONES = (
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Asia/Beirut",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Europe/Amsterdam",
)
# Near a change of New York, of Lord Howe, of Santiago, of Apia's missing day, of Casablanca; and where Amsterdam
# was 19 minutes and 32 seconds ahead.
NEAR = (
    datetime(2026, 3, 8, 6, tzinfo=UTC),
    datetime(2026, 11, 1, 5, tzinfo=UTC),
    datetime(2026, 4, 4, 14, tzinfo=UTC),
    datetime(2026, 9, 6, 3, tzinfo=UTC),
    datetime(2011, 12, 30, 8, tzinfo=UTC),
    datetime(2026, 2, 15, 1, tzinfo=UTC),
    datetime(1916, 4, 30, 23, tzinfo=UTC),
)
crons = st.builds(
    Cron, expressions(), day_match=st.sampled_from(["and", "or"]), on_gap=st.sampled_from(["fire", "skip"])
)
moments = st.builds(
    lambda zone, near, seconds, micros: (near + timedelta(seconds=seconds, microseconds=micros)).astimezone(
        ZoneInfo(zone)
    ),
    st.sampled_from(ZONES),
    st.sampled_from(NEAR),
    st.integers(-200_000, 200_000),
    st.sampled_from([0, 0, 1, 999_999]),
)


def _utc(found: list[datetime]) -> list[datetime]:
    return [each.astimezone(UTC) for each in found]


@given(crons, moments)
@settings(max_examples=400, deadline=None)
def test_the_way_back_meets_the_same_occurrences(cron: Cron, start: datetime) -> None:
    forward = _utc(list(islice(cron.after(start), 12)))
    if not forward:
        return

    backward: list[datetime] = []
    at = cron.previous(forward[-1].astimezone(start.tzinfo), inclusive=True)
    while at is not None and at.astimezone(UTC) > start.astimezone(UTC):
        backward.append(at)
        at = cron.previous(at)

    assert _utc(backward)[::-1] == forward


@given(crons, moments)
@settings(max_examples=300, deadline=None)
def test_occurrences_only_ever_grow_and_stay_in_the_zone(cron: Cron, start: datetime) -> None:
    found = list(islice(cron.after(start), 8))

    assert all(before < after for before, after in pairwise(_utc([start, *found])))
    for each in found:
        assert each.tzinfo is start.tzinfo
        assert each.microsecond == 0
        there_and_back = each.astimezone(UTC).astimezone(start.tzinfo)
        assert (there_and_back.replace(tzinfo=None), there_and_back.fold) == (each.replace(tzinfo=None), each.fold)


@given(crons, moments)
@settings(max_examples=300, deadline=None)
def test_inclusive_adds_the_moment_itself_and_nothing_else(cron: Cron, start: datetime) -> None:
    strict, loose = cron.next(start), cron.next(start, inclusive=True)
    back, loose_back = cron.previous(start), cron.previous(start, inclusive=True)

    assert loose in (strict, start)
    assert loose_back in (back, start)
    if start.microsecond:
        assert (loose, loose_back) == (strict, back)
    if loose is not None and loose != strict:
        assert loose_back == start


@given(crons, moments)
@settings(max_examples=200, deadline=None)
def test_spans_that_meet_have_every_occurrence_once(cron: Cron, start: datetime) -> None:
    found = list(islice(cron.after(start, inclusive=True), 6))
    if len(found) < 6:
        return

    for split in found[1:5]:
        parts = [*cron.between(start, split), *cron.between(split, found[5])]

        assert _utc(parts) == _utc(found[:5])


@given(expressions())
@settings(max_examples=300, deadline=None)
def test_what_matches_at_all_matches_within_forty_years(expression: str) -> None:
    start = datetime(1996, 3, 1, tzinfo=UTC)  # over 2100, which is no leap year
    cron = Cron(expression)

    found = cron.next(start.replace(year=2096))

    assert (found is None) == (cron.previous(start.replace(year=2096)) is None)
    assert found is None or found.year <= 2136


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "* * 1 * SUN#2",
        "* * 31 * TUE#2",
        "* * LW * SAT",
        "* * L-30 2 *",
    ],
)
def test_what_never_comes_is_known(expression: str) -> None:
    cron = Cron(expression)

    assert cron.next(datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Paris"))) is None
    assert cron.previous(datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Paris"))) is None
    assert list(cron.after(datetime(2026, 1, 1, tzinfo=UTC), inclusive=True)) == []
    assert cron.describe().endswith(", which never comes")


@pytest.mark.parametrize(
    ("expression", "one", "another"),
    [
        ("0 0 29 2 *", 2096, 2104),
        ("0 0 29 2 MON", 2016, 2044),
        ("0 0 29 2 MON", 2072, 2112),  # the longest wait there is
    ],
)
def test_rare_days_are_found(expression: str, one: int, another: int) -> None:
    cron = Cron(expression)
    before, after = datetime(one, 2, 29, tzinfo=UTC), datetime(another, 2, 29, tzinfo=UTC)

    assert cron.next(before) == after
    assert cron.previous(after) == before


@given(expressions())
@settings(max_examples=500, deadline=None)
def test_every_expression_can_be_told_in_words(expression: str) -> None:
    for cron in (Cron(expression), Cron(expression, day_match="or")):
        said = cron.describe()

        assert said[0].isupper()
        assert "  " not in said
        assert "None" not in said
        assert "every 0" not in said.lower()
        if cron.restricts_both_days:
            assert (" only if that is " in said, " and also " in said) == (
                cron.day_match == "and",
                cron.day_match == "or",
            )
