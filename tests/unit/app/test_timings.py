"""The options that say when: what each accepts, and what each says to what it does not."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring import errors
from mainspring.app.schedule.timing import check_has_occurrences, read_timing
from mainspring.runtime.schedules.plan import read_plan
from mainspring.timing.cron import Cron, CronError
from mainspring.timing.rhythm import every

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def fields(rhythm: object = "0 9 * * *", **options: Any) -> dict[str, Any]:
    return read_timing(rhythm, options)[0]


def test_nothing_said_leaves_every_field_to_its_default() -> None:
    assert fields() == {"rhythm": "0 9 * * *"}
    assert fields(timezone=None, misfire=None, holidays=None, start=None) == {"rhythm": "0 9 * * *"}


@pytest.mark.parametrize(
    ("rhythm", "written"),
    [
        ("0 9 * * mon-fri", "0 9 * * mon-fri"),
        ("every 90s", "every 1m30s"),
        (every("90s"), "every 1m30s"),
        (every(timedelta(milliseconds=100)), "every 100ms"),
    ],
)
def test_a_rhythm_is_written_down(rhythm: object, written: str) -> None:
    assert fields(rhythm) == {"rhythm": written}


def test_an_expression_that_was_read_brings_its_own_rules() -> None:
    read = fields(Cron("0 0 13 * fri", day_match="or", on_gap="skip"))

    assert read == {"rhythm": "0 0 13 * fri", "day_match": "or", "on_gap": "skip"}


@pytest.mark.parametrize(
    ("option", "value", "stored"),
    [
        ("timezone", "Europe/Berlin", "Europe/Berlin"),
        ("timezone", ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
        ("day_match", "or", "or"),
        ("on_gap", "skip", "skip"),
        ("misfire", "all", "all"),
        ("misfire_after", "5m", 300.0),
        ("misfire_after", timedelta(), 0.0),
        ("catch_up", 1000, 1000),
        ("overlap", "cancel", "cancel"),
        ("jitter", "1.5s", 1.5),
        ("start", datetime(2026, 6, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2026-06-01T10:00:00+00:00"),
        ("end", datetime(2030, 6, 1, 12, tzinfo=UTC), "2030-06-01T12:00:00+00:00"),
        ("holidays", "sat,sun", ["sat", "sun"]),
        ("workdays", [date(2026, 12, 24), "mon-fri"], ["2026-12-24", "mon-fri"]),
        ("only_if", "queue empty", "queue empty"),
        ("only_if", "", None),
    ],
)
def test_every_option_becomes_a_field_that_a_plan_reads(option: str, value: object, stored: object) -> None:
    read = fields(**{option: value})

    assert read == {"rhythm": "0 9 * * *", option: stored}
    read_plan(read)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("timezone", "Europe/Berlim", r"not in the time zone database\. Did you mean 'Europe/Berlin'\?"),
        ("timezone", "europe/berlin?", r"Did you mean 'Europe/Berlin'\?"),
        ("timezone", "../../etc/passwd", "is not in the time zone database"),
        ("timezone", "", r"is not in the time zone database\. Write a name, as in 'Europe/Berlin' or 'UTC'$"),
        ("timezone", "UTC+2", r"An offset is no zone: write a name, as in .*, and always \+2 hours is 'Etc/GMT-2'$"),
        ("timezone", "-05:00", r"and always -5 hours is 'Etc/GMT\+5'$"),
        ("timezone", "GMT+5:30", "An offset is no zone: write a name, as in 'Europe/Berlin'$"),
        ("timezone", UTC, "must be the name of a zone, as in 'Europe/Berlin' or 'UTC'"),
        ("timezone", 2, "must be the name of a zone"),
        ("day_match", "any", "day_match='any' is not one of 'and', 'or'"),
        ("on_gap", "fires", r"on_gap='fires' is not one of 'fire', 'skip'\. Did you mean 'fire'\?"),
        ("misfire", "last", r"misfire='last' is not one of 'latest', 'skip', 'all'\. Did you mean 'latest'\?"),
        ("misfire", True, "misfire=True is not one of"),
        ("misfire_after", 60, "misfire_after=60 has no unit"),
        ("misfire_after", "-1s", "misfire_after='-1s' is negative: the least is 0s"),
        ("misfire_after", "2000d", "misfire_after='2000d' is out of bounds"),
        ("catch_up", 0, "catch_up=0 must be a whole number from 1 to 1,000"),
        ("catch_up", 1001, "catch_up=1001 must be a whole number"),
        ("catch_up", "10", "catch_up='10' must be a whole number"),
        ("overlap", "queued", r"Did you mean 'queue'\?"),
        ("jitter", "soon", "jitter='soon' is not a duration"),
        ("start", datetime(2026, 6, 1), "start=2026-06-01T00:00:00 has no time zone"),  # noqa: DTZ001 - that is it
        ("start", "2026-06-01", "start='2026-06-01' must be an aware datetime"),
        ("end", date(2026, 6, 1), "must be an aware datetime"),
        (
            "start",
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
            "is not within the years 1 to 9999 of UTC",
        ),
        ("only_if", "idle", "only_if='idle' is no condition: write a function without arguments, or 'queue empty'"),
        ("only_if", lambda _what: True, "is called without arguments"),
        ("holidays", 7, "holidays=7 is no set of days"),
    ],
)
def test_every_option_says_what_is_wrong_with_it(option: str, value: object, message: str) -> None:
    with pytest.raises(errors.BadOption, match=message):
        fields(**{option: value})


@pytest.mark.parametrize("rhythm", [90, 1.5, timedelta(seconds=90), ["0 9 * * *"], b"0 9 * * *"])
def test_what_is_no_rhythm_is_shown_two(rhythm: object) -> None:
    with pytest.raises(
        errors.BadOption, match=r"is no rhythm: write a cron expression, '0 9 \* \* mon-fri', or an int"
    ):
        fields(rhythm)


def test_a_bad_expression_and_a_bad_interval_are_told() -> None:
    with pytest.raises(CronError):
        fields("0 25 * * *")
    with pytest.raises(errors.BadOption, match="too often"):
        fields("every 1ms")


def test_an_end_before_the_start_is_refused_in_whichever_layer_they_are() -> None:
    message = r"end=2026-06-01T12:00:00\+00:00 is not after start=2026-06-01T12:00:00\+00:00"

    with pytest.raises(errors.BadOption, match=message):
        fields(start=NOON, end=NOON)
    with pytest.raises(errors.BadOption, match=message):
        read_timing(None, {"end": NOON}, {"rhythm": "0 9 * * *", "start": NOON.isoformat()})
    with pytest.raises(errors.BadOption, match=r"end=2026-06-01T21:00:00\+09:00 is not after start=2026-06-01T21"):
        fields(start=NOON, end=NOON, timezone="Asia/Tokyo")


def test_a_layer_need_not_have_a_rhythm_of_its_own() -> None:
    assert read_timing(None, {"timezone": "Asia/Tokyo"}, {"rhythm": "0 9 * * *"}) == ({"timezone": "Asia/Tokyo"}, {})


def test_days_that_code_tells_in_the_layer_beneath_are_no_hindrance() -> None:
    beneath = {"rhythm": "0 9 * * *", "holidays": ["code:shop.closed"]}

    assert read_timing("0 7 * * *", {}, beneath, {"holidays": (lambda _day: False,)})[0] == {"rhythm": "0 7 * * *"}
    with pytest.raises(errors.BadOption, match=r"decided by shop\.closed, which this process does not have"):
        read_timing("0 7 * * *", {}, beneath)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            {"rhythm": "0 0 30 2 *", "workdays": ["mon-fri"]},
            "'0 0 30 2 *' matches no date: check its fields of days and months",
        ),
        (
            {"rhythm": "0 9 * * sat", "workdays": ["mon-fri"], "timezone": "Asia/Tokyo"},
            "its workdays leave no day of '0 9 * * sat' in Asia/Tokyo",
        ),
        (
            {"rhythm": "every 1h", "workdays": ["mon-fri"], "holidays": ["mon", "tue-fri"]},
            "its holidays and workdays leave no day of 'every 1h' in UTC",
        ),
        (
            {
                "rhythm": "0 9 1 1 *",
                "start": "2026-02-01T00:00:00Z",
                "end": "2026-12-01T00:00:00Z",
                "timezone": "Asia/Tokyo",
            },
            (
                "'0 9 1 1 *' in Asia/Tokyo has no occurrence from start=2026-02-01 09:00:00+09:00 "
                "until end=2026-12-01 09:00:00+09:00"
            ),
        ),
    ],
)
@pytest.mark.parametrize("may_be_over", [True, False])
def test_what_is_never_due_is_refused(made: dict[str, Any], message: str, *, may_be_over: bool) -> None:
    with pytest.raises(errors.BadOption) as refused:
        check_has_occurrences(read_plan(made), "it", NOON, may_be_over=may_be_over)

    assert str(refused.value) == f"it is never due: {message}"


def test_what_is_over_is_refused_only_where_it_is_made_now() -> None:
    over = read_plan({"rhythm": "0 9 * * *", "end": "2026-01-01T00:00:00Z"})

    check_has_occurrences(over, "it", NOON, may_be_over=True)
    with pytest.raises(errors.BadOption, match=r"it is never due: its end=2026-01-01 00:00:00\+00:00 has passed$"):
        check_has_occurrences(over, "it", NOON)
    with pytest.raises(
        errors.BadOption, match=r"'at 2026-01-01T00:00:00\+00:00' has no occurrence after 2026-06-01 12"
    ):
        check_has_occurrences(read_plan({"rhythm": "at 2026-01-01T00:00:00+00:00"}), "it", NOON)


def test_a_function_of_days_that_fails_is_a_bad_option() -> None:
    def broken(_day: date) -> bool:
        raise LookupError("no calendar")

    plan = read_plan({"rhythm": "0 9 * * *", "holidays": ["code:broken"]}, {"holidays": (broken,)})

    with pytest.raises(errors.BadOption, match="it: holidays: broken failed for 2026-06-02: LookupError: no calendar"):
        check_has_occurrences(plan, "it", NOON)
