"""``holidays=`` and ``workdays=``: what counts as a set of days, and what is stored of it."""

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import holidays
import pytest

from mainspring import errors
from mainspring.app.schedule.timing import read_days_option
from mainspring.runtime.schedules.plan import CannotPlan, Plan, country_days, read_plan

CHRISTMAS = date(2026, 12, 25)


def closed(day: date) -> bool:
    return day == CHRISTMAS


class Closings:
    """A user's own calendar."""

    def __call__(self, day: date) -> bool:
        return day == CHRISTMAS


class Calendar(dict[date, str]):
    """As those of the ``holidays`` package: it is empty until it is asked."""

    country = "DE"

    def __contains__(self, day: object) -> bool:
        return day == CHRISTMAS


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("sat", ("sat",)),
        ("Sat, SUN", ("sat", "sun")),
        ("mon-fri,2026-12-24", ("mon-fri", "2026-12-24")),
        (CHRISTMAS, ("2026-12-25",)),
        ([CHRISTMAS, "sun"], ("2026-12-25", "sun")),
        ({CHRISTMAS, date(2026, 1, 1)}, ("2026-01-01", "2026-12-25")),
        ((day for day in (CHRISTMAS,)), ("2026-12-25",)),
        ("20261225", ("2026-12-25",)),
        ([], ()),
    ],
)
def test_days_and_dates_are_written_down(value: Any, written: tuple[str, ...]) -> None:
    assert read_days_option(value, "holidays") == (written, ())


@pytest.mark.parametrize("value", [closed, Closings(), [closed], Calendar(), [Calendar()]])
def test_what_code_tells_is_named_and_kept_in_the_process(value: Any) -> None:
    (written,), (tells,) = read_days_option(value, "holidays")

    assert written.startswith("code:")
    assert written.endswith(("closed", "Closings", "Calendar"))
    assert tells(CHRISTMAS)
    assert not tells(date(2026, 12, 24))


def test_several_kinds_keep_their_order() -> None:
    written, code = read_days_option(["sat", closed, CHRISTMAS, Closings()], "holidays")

    assert [each.partition(":")[0] for each in written] == ["sat", "code", "2026-12-25", "code"]
    assert code[0] is closed
    assert len(code) == 2


def test_weekdays_and_dates_in_one_set_need_no_order_of_their_own() -> None:
    written, _ = read_days_option({CHRISTMAS, "sun"}, "holidays")

    assert sorted(written) == ["2026-12-25", "sun"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, r"holidays=7 is no set of days: write weekdays \('sat,sun'\), a country \('DE', 'DE-BY'\), dates, or a"),
        (datetime(2026, 12, 25, tzinfo=UTC), r"is an instant: write its date, as in date\(2026, 12, 25\)"),
        ([datetime(2026, 12, 25, tzinfo=UTC)], "is an instant"),
        ("saturday", r"holidays='saturday' is neither a weekday \('sat', 'mon-fri'\), a date .* Did you mean 'sat'\?$"),
        ("funday", r"nor a country \('DE', 'DE-BY'\)$"),
        ("2026-02-30", "is neither a weekday"),
        ("sat;sun", "is neither a weekday"),
        ([7], "7"),
        ([None], "None"),
    ],
)
def test_what_is_no_set_of_days_says_what_would_be(value: Any, message: str) -> None:
    with pytest.raises(errors.BadOption, match=message):
        read_days_option(value, "holidays")


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process where the package is not installed."""
    country_days.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)
    yield
    country_days.cache_clear()


@pytest.mark.usefixtures("without_extra")
@pytest.mark.parametrize("place", ["DE", "DE-BY", "us-ca", "country:FR"])
def test_a_country_needs_the_extra(place: str) -> None:
    with pytest.raises(errors.MissingExtra, match=r"needs holidays: pip install 'mainspring\[holidays\]'"):
        read_days_option(place, "holidays")


@pytest.mark.parametrize(
    ("place", "written"), [("DE", "country:DE"), ("de-by", "country:DE-BY"), (" country:US ", "country:US")]
)
def test_a_country_is_written_down_by_its_code(place: str, written: str) -> None:
    assert read_days_option(place, "holidays") == ((written,), ())


def test_a_country_knows_its_days() -> None:
    plan = read_plan({"rhythm": "0 9 * * *", "holidays": ["sat", "sun", "country:DE-BY"], "timezone": "Europe/Berlin"})

    # Epiphany is a holiday in Bavaria: from Friday, the 2nd, past the weekend, and past Tuesday.
    assert [at.day for at in _following(plan, datetime(2026, 1, 2, tzinfo=UTC), 4)] == [2, 5, 7, 8]


def _following(plan: Plan, after: datetime, count: int) -> Iterator[datetime]:
    for _ in range(count):
        found = plan.next(after)
        assert found is not None
        yield found
        after = found


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("xx", "nor a country that the holidays package knows: those are written by their codes, as in 'DE' or 'US'"),
        ("DE-XX", "is no part of DE that the holidays package knows: write DE- and one of BB, BE, BW, BY, "),
        ("HK-1", "is no part of HK that the holidays package knows: write 'HK'"),
    ],
)
def test_a_country_that_nobody_knows_is_refused(place: str, said: str) -> None:
    with pytest.raises(errors.BadOption) as refused:
        read_days_option(place, "holidays")
    assert str(refused.value).startswith(f"holidays={place!r} is ")
    assert said in str(refused.value)

    for field in ("holidays", "workdays"):  # what is stored is told by the name of its field
        with pytest.raises(CannotPlan, match=f"^{field}='{place}'"):
            read_plan({"rhythm": "0 9 * * *", field: [f"country:{place}"]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xx", "; the working days of a country are workdays='mon-fri' and holidays='XX'"),
        ("de-by", "; the working days of a country are workdays='mon-fri' and holidays='DE-BY'"),
        ("monday", ". Did you mean 'mon'?"),
        ("1.1.2026", ""),
    ],
)
def test_working_days_are_not_those_of_a_country(text: str, said: str) -> None:
    with pytest.raises(errors.BadOption) as refused:
        read_days_option(["mon-fri", text], "workdays")

    assert str(refused.value) == (
        f"workdays={text!r} is neither a weekday ('sat', 'mon-fri') nor a date ('2026-12-24'){said}"
    )


def test_a_calendar_of_the_package_is_asked_itself() -> None:
    calendar = holidays.country_holidays("DE", subdiv="BY")

    (written,), (tells,) = read_days_option(calendar, "holidays")

    assert written.startswith("code:")
    assert (tells(date(2026, 1, 6)), tells(date(2026, 1, 7))) == (True, False)
