from collections.abc import Callable
from datetime import date, timedelta

import pytest

from mainspring.timing.calendar import Days, read_days, weekdays_of

MONDAY = date(2026, 6, 1)
WEEK = [MONDAY + timedelta(days=n) for n in range(7)]


def told(text: str) -> Callable[[date], bool]:
    """Stands for whoever knows of other days: ``"day:3"`` is the third of every month."""
    if not text.startswith("day:"):
        raise ValueError(f"{text!r} is unknown")
    return lambda day: day.day == int(text[4:])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mon", {0}),
        (" Sun ", {6}),
        ("mon-fri", {0, 1, 2, 3, 4}),
        ("fri-mon", {4, 5, 6, 0}),
        ("sat-sat", {5}),
        ("mon-sun", {0, 1, 2, 3, 4, 5, 6}),
        ("tue-mon", {0, 1, 2, 3, 4, 5, 6}),
        ("monday", set()),
        ("mon-", set()),
        ("-mon", set()),
        ("mon-friday", set()),
        ("mon-wed-fri", set()),
        ("DE", set()),
        ("", set()),
    ],
)
def test_weekdays(text: str, expected: set[int]) -> None:
    assert weekdays_of(text) == expected


def test_a_set_holds_weekdays_dates_and_what_others_tell() -> None:
    days = read_days(["sat-sun", "2026-06-02", " 2026-12-25 ", "day:3"], told)

    assert [day.strftime("%a") for day in WEEK if day in days] == ["Tue", "Wed", "Sat", "Sun"]
    assert date(2026, 12, 25) in days
    assert date(2025, 12, 25) not in days


def test_an_empty_set_holds_nothing() -> None:
    assert not [day for day in WEEK if day in read_days([], told)]
    assert read_days([], told) == Days()


def test_what_nobody_can_tell_is_an_error() -> None:
    with pytest.raises(ValueError, match="'someday' is unknown"):
        read_days(["mon", "someday"], told)
    with pytest.raises(ValueError, match="'2026-02-30' is unknown"):
        read_days(["2026-02-30"], told)
