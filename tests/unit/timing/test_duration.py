from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.timing.duration import DurationError, duration, spell


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30s", timedelta(seconds=30)),
        ("15m", timedelta(minutes=15)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1h 30m", timedelta(hours=1, minutes=30)),
        (" 2d ", timedelta(days=2)),
        ("1.5h", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("250us", timedelta(microseconds=250)),
        ("2w", timedelta(days=14)),
        ("0s", timedelta()),
    ],
)
def test_text_is_read_as_a_length_of_time(text: str, length: timedelta) -> None:
    assert duration(text) == length


def test_a_timedelta_is_taken_as_it_is() -> None:
    assert duration(timedelta(seconds=3)) == timedelta(seconds=3)


@pytest.mark.parametrize("text", ["", "15", "m", "5 minutes", "-5", "-", "1h,30m", "5m -3s", "5x", "s5"])
def test_text_that_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(DurationError) as refused:
        duration(text, of="delay")

    assert str(refused.value) == (
        f"delay={text!r} is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'"
    )


@pytest.mark.parametrize("number", [5, 1.5, None])
def test_a_number_without_a_unit_is_refused(number: object) -> None:
    with pytest.raises(DurationError) as refused:
        duration(number, of="delay")  # type: ignore[arg-type]

    assert str(refused.value) == (
        f"delay={number!r} has no unit: write a timedelta or text like '30s', '15m', '1h30m', '2d'"
    )


@pytest.mark.parametrize("length", [timedelta(days=-1), "-5s", " - 1h30m "])
def test_a_negative_length_is_refused(length: timedelta | str) -> None:
    with pytest.raises(DurationError) as refused:
        duration(length, of="delay")

    assert str(refused.value) == f"delay={length!r} is negative: the least is 0s"


@pytest.mark.parametrize("text", ["5300w", "99999999999999999w"])
def test_more_than_a_hundred_years_is_refused(text: str) -> None:
    with pytest.raises(DurationError, match=f"^delay='{text}' is longer than a hundred years$"):
        duration(text, of="delay")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(), "0s"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(seconds=90), "1m 30s"),
        (timedelta(hours=1, minutes=30, seconds=5), "1h 30m"),
        (timedelta(days=2, seconds=5), "2d 5s"),
        (timedelta(seconds=-90), "-1m 30s"),
    ],
)
def test_a_length_is_spelled_in_two_units_at_most(length: timedelta, words: str) -> None:
    assert spell(length) == words


@given(st.integers(0, 59), st.integers(1, 23))
def test_what_is_spelled_can_be_read_again(minutes: int, hours: int) -> None:
    length = timedelta(hours=hours, minutes=minutes)

    assert duration(spell(length)) == length
