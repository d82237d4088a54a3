"""A bad expression is refused with the place, what was found there, what may stand there, and what was likely meant."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.timing.cron import Cron, CronError
from tests.unit.timing.cron.expressions import expressions


@pytest.mark.parametrize(
    ("expression", "column", "field", "said"),
    [
        ("", 1, None, "it is empty; write 5 fields (minutes, hours, days of month, months, days of week)"),
        ("  \t ", 1, None, "it is empty"),
        ("5", 1, None, "found only '5'; write 5 fields"),
        ("daily", 1, None, "did you mean @daily?"),
        ("@reboot", 1, None, "@every_second; a schedule follows the clock, not the start of a process"),
        (" TZ=UTC 0 9 * * *", 2, None, "found 'TZ=UTC', but the zone is not part of an expression: pass it as time"),
        ("cron_tz=UTC @daily", 1, None, "found 'cron_tz=UTC', but the zone is not part of an expression"),
        ("0 H/2 * * *", 3, "hours", "found 'H', allowed: 0-23, and * ? , - /; the H of Jenkins is not supported, and"),
        ("* * *", 5, None, "it ends after 3 fields; write 5 fields"),
        ("* * * * * * 2026", 13, None, "found '2026' as one field too many; a year field is not supported"),
        ("* * * * * * * *", 13, None, "found '*' as one field too many; write 5 fields"),
        ("60 * * * *", 1, "minutes", "found 60, allowed: 0-59; write 0"),
        ("60 * * * * *", 1, "seconds", "found 60, allowed: 0-59; write 0"),
        ("* 24 * * *", 3, "hours", "found 24, allowed: 0-23; midnight is 0"),
        ("* * 0 * *", 5, "days of month", "found 0, allowed: 1-31"),
        ("0 0 1,32 * *", 7, "days of month", "found 32, allowed: 1-31"),
        ("* * * 13 *", 7, "months", "found 13, allowed: 1-12 or JAN-DEC"),
        ("* * * * 8", 9, "days of week", "found 8, allowed: 0-7 or SUN-SAT"),
        ("*/0 * * * *", 3, "minutes", "allowed: a step of 1-59; a step is at least 1"),
        ("1/60 * * * *", 3, "minutes", "found 60, allowed: a step of 1-59; for once an hour write one minute"),
        ("0 */24 * * *", 5, "hours", "found 24, allowed: a step of 1-23; for once a day write one hour"),
        (f"1/{'9' * 5000} * * * *", 3, "minutes", "found 999999…, allowed: a step of 1-59"),
        ("* * * * SUNDAY", 9, "days of week", "found 'SUNDAY', allowed: 0-7 or SUN-SAT"),
        ("* * * * mon-friday", 13, "days of week", "did you mean FRI?"),
        ("* * * JNA *", 7, "months", "did you mean JAN?"),
        ("* * * * L", 9, "days of week", "L follows a single day, as in FRIL; the last day of the week is SAT"),
        ("* * * * W", 9, "days of week", "Monday to Friday is MON-FRI"),
        (
            "* * MON * *",
            5,
            "days of month",
            "found 'MON', allowed: 1-31, and * ? , - /, L, W; days of week are the last",
        ),
        ("* * L,15 * *", 6, "days of month", "found ',15' after 'L'"),
        ("* * 15,L * *", 8, "days of month", "L stands alone, as L-3 or as LW, not in a list or a range"),
        ("* * 1-15W * *", 9, "days of month", "W follows a single day, as in 15W or LW"),
        ("* * 1LW * *", 6, "days of month", "found 'LW' after '1'"),
        ("* * L-31 * *", 7, "days of month", "found 31, allowed: 0-30, the days before the last"),
        ("* * * * MON#1,TUE", 14, "days of week", "# follows a single day, as in MON#1"),
        ("* * * * MON#6", 13, "days of week", "found 6, allowed: 1-5, which one in the month"),
        ("* * * * 0#", 10, "days of week", "nothing follows '0#', allowed: 1-5"),
        ("* L * * *", 3, "hours", "found 'L', allowed: 0-23"),
        ("*/15,20 * * * *", 5, "minutes", "'*' cannot be in a list; write 0-59 or 0-59/n in its place there"),
        ("5- * * * *", 2, "minutes", "nothing follows '5-', allowed: 0-59"),
        ("1,,2 * * * *", 3, "minutes", "found ',2' after '1,', allowed: 0-59"),
        ("-1 * * * *", 1, "minutes", "found '-1', allowed: 0-59"),
        ("  1 2\t70 * *", 7, "days of month", "found 70, allowed: 1-31"),
        ("٣ * * * *", 1, "minutes", "found '٣', allowed: 0-59"),
        ("@every_hour", 1, None, "did you mean @hourly?"),
        ("@dayly", 1, None, "did you mean @daily?"),
        ("@daily 5", 8, None, "found '5', but @daily stands alone"),
    ],
)
def test_a_bad_expression_says_where_and_why(expression: str, column: int, field: str | None, said: str) -> None:
    with pytest.raises(CronError) as refused:
        Cron(expression)

    error = refused.value
    assert (error.expression, error.column, error.field) == (expression, column, field)
    assert said in str(error)


def test_a_caret_stands_below_what_is_wrong() -> None:
    with pytest.raises(CronError) as refused:
        Cron("*/5\t9  * * SUNDAY")

    assert str(refused.value) == (
        "bad cron expression: days of week: found 'SUNDAY', allowed: 0-7 or SUN-SAT, and * ? , - /, "
        "L or # after one day; did you mean SUN?\n"
        "  */5 9  * * SUNDAY\n"
        "             ^"
    )


@pytest.mark.parametrize("given", [None, 5, b"* * * * *", ["* * * * *"]])
def test_what_is_not_text_is_refused(given: Any) -> None:
    with pytest.raises(CronError, match=r"it is not text; write it as in '0 9 \* \* MON-FRI'") as refused:
        Cron(given)

    assert refused.value.expression == repr(given)


@pytest.mark.parametrize("option", [{"day_match": "xor"}, {"on_gap": "late"}, {"day_match": None}])
def test_an_unknown_option_is_refused_with_those_there_are(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(day_match|on_gap)=.*: write '\w+' \(.*\) or '\w+' \(.*\)$"):
        Cron("* * * * *", **option)


def test_an_error_survives_a_pickle() -> None:
    with pytest.raises(CronError) as refused:
        Cron("61 * * * *")

    again = pickle.loads(pickle.dumps(refused.value))

    assert str(again) == str(refused.value)
    assert (again.column, again.field) == (1, "minutes")


@pytest.mark.unmeasured
@given(expressions(), st.data())
@settings(max_examples=400, deadline=None)
def test_whatever_is_written_is_read_or_refused_with_a_place_in_the_text(expression: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(expression)))
    odd = data.draw(st.text(st.sampled_from("*?,-/LW#@ \t0579ASMxé"), min_size=1, max_size=3))
    text = expression[:at] + odd + expression[at + data.draw(st.integers(0, 2)) :]

    error = _refusal(text)

    if error is not None:
        assert 1 <= error.column <= len(text)
        shown, caret = str(error).split("\n")[-2:]
        assert len(shown) == len(text) + 2
        assert caret.index("^") == error.column + 1


def _refusal(text: str) -> CronError | None:
    try:
        Cron(text)
    except CronError as error:
        return error
    return None
