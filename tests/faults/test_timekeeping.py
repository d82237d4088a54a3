"""The checker of schedules itself: the calculator by examples written by hand, and each violation is found."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from tests.faults.calculator import CRON, EVERY, MICROS, ZONES, due_times, mixed
from tests.faults.ledger import Execution
from tests.faults.plan import Entry
from tests.faults.timekeeping import Stored, Timekeeping, judge_occurrences

_SECOND = MICROS


def _at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * MICROS


@pytest.mark.parametrize(
    ("entry", "first", "last", "expected"),
    [
        # 1.5 s from the epoch on: 0 and 1.5 of every three seconds.
        (Entry("a", "every 1500ms"), "00:00:00", "00:00:05", [1.5, 3.0, 4.5]),
        (Entry("a", "1-59/2 * * * * *"), "00:00:00", "00:00:05", [1.0, 3.0, 5.0]),
        (Entry("a", "0,7,13,20,26,31,44,58 * * * * *"), "00:00:05", "00:00:27", [7.0, 13.0, 20.0, 26.0]),
        # 18:10 UTC is 23:55 in Kathmandu: in the second half of an hour there, in the first half here.
        (Entry("a", "*/2 0-29 * * * *", "Asia/Kathmandu"), "18:10:00", "18:10:10", []),
        (Entry("a", "*/2 0-29 * * * *", "UTC"), "18:10:00", "18:10:03", [65402.0]),
        # Noon in Tokyo is three in the morning here.
        (Entry("a", "*/2 * 0-11 * * *", "Asia/Tokyo"), "02:59:57", "03:00:04", [10798.0]),
    ],
)
def test_the_calculator_says_what_a_person_would(entry: Entry, first: str, last: str, expected: list[float]) -> None:
    day = _at("2026-06-01")

    found = due_times(entry, _at(f"2026-06-01 {first}"), _at(f"2026-06-01 {last}"))

    assert sorted(found) == [day + round(seconds * MICROS) for seconds in expected]


def test_the_calculator_keeps_to_start_and_end() -> None:
    start = _at("2026-06-01") // MICROS
    entry = Entry("a", "every 3s", start=start + 1, end=start + 8)

    found = due_times(entry, 0 + _at("2026-05-31"), _at("2026-06-02"))

    assert sorted(found) == [(start + after) * MICROS for after in (1, 4, 7)]


def test_the_mixture_has_every_rhythm_and_every_zone() -> None:
    entries = mixed(200)

    assert {entry.rhythm for entry in entries} == EVERY.keys() | CRON.keys()
    assert {entry.timezone for entry in entries} == set(ZONES)
    assert len({entry.name for entry in entries}) == 200


def _ran(id: UUID, due: int = _SECOND, began: float = 1.5, outcome: str | None = "ok", epoch: int = 1) -> Execution:
    return Execution(id, 0, epoch, 1, 7, began, began + 1 if outcome else None, outcome, "a", due)


def _done(id: UUID, due: int = _SECOND, *, ended: bool = True) -> Stored:
    return Stored("a", due, id, ended)


def _judged(executed: list[Execution], stored: list[Stored], bound: int = 0) -> Timekeeping:
    return judge_occurrences({("a", _SECOND)}, executed, stored, until=9 * _SECOND, bound=bound)


def test_an_occurrence_that_is_published_and_handled_once_is_flawless() -> None:
    id = uuid4()

    found = _judged([_ran(id)], [_done(id)])

    assert found.flawless
    assert (found.expected, found.fired, found.latest) == (1, 1, 0.5)


def test_one_that_is_not_stored_or_never_ended_is_missing() -> None:
    id = uuid4()

    for found in (_judged([], []), _judged([_ran(id)], []), _judged([_ran(id, outcome=None)], [_done(id)], bound=9)):
        assert found.missing == {("a", _SECOND)}
        assert not found.flawless


def test_one_of_two_messages_or_of_two_ends_is_doubled() -> None:
    one, other = uuid4(), uuid4()

    for found in (
        _judged([_ran(one)], [_done(one), _done(other, ended=False)]),
        _judged([_ran(one), _ran(other)], [_done(one)]),
        _judged([_ran(one)], [_done(one), _done(one)]),
    ):
        assert found.doubled == {("a", _SECOND)}
        assert not found.flawless


def test_one_that_was_never_due_is_extra_and_one_before_its_time_is_early() -> None:
    id, other = uuid4(), uuid4()

    extra = _judged([_ran(id), _ran(other, due=2 * _SECOND, began=2.5)], [_done(id), _done(other, due=2 * _SECOND)])
    early = _judged([_ran(id, began=0.9)], [_done(id)])

    assert extra.extra == {("a", 2 * _SECOND)}
    assert early.early == {("a", _SECOND)}
    assert not extra.flawless
    assert not early.flawless


def test_a_repetition_is_no_second_occurrence_but_is_bounded() -> None:
    id = uuid4()
    executed = [_ran(id, outcome=None), _ran(id, epoch=2, began=4.0)]

    within, beyond = _judged(executed, [_done(id)], bound=1), _judged(executed, [_done(id)], bound=0)

    assert within.flawless
    assert not beyond.flawless
    assert (within.doubled, within.duplicates) == (set(), 1)
