"""What a look at the timetable costs, counted without a database."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest

from mainspring.model.message import Draft
from mainspring.model.schedule import NEVER, Due, Occurrence, Schedule, ScheduleAdvance, ScheduleTick
from mainspring.storage.operation import Nowhere
from mainspring.storage.sqlite.coordination import SqliteTimetable
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import micros
from tests.unit.storage.sqlite.stand_in import NOON, Counting, drive

SQL = Dialect("mainspring", lambda: NOON)
TIMETABLE = SqliteTimetable(SQL, Nowhere())
ID = UUID(int=7)
CLOCK = {"clock_read": [(NOON,)], "clock_mark": ()}
ROW = ("nightly", "shop", "code", "{}", NOON, NOON, NOON, NOON, "{}", "{}", 0, 0, None, None, None, None, 0, 0, 0)


def firing(_due: Due, now: datetime) -> ScheduleAdvance:
    return ScheduleAdvance(now, None, (Occurrence(Draft(ID, "a", b"", group="mailer", schedule="nightly"), NEVER),))


def test_an_idle_look_is_two_reads() -> None:
    connection = Counting({**CLOCK, "timetable_peek": [(None, 0, 0, 0)]})

    assert drive(connection, TIMETABLE.tick.script("shop", firing, 10, ())) == ScheduleTick()
    assert connection.asked == ["clock_read", "timetable_peek"]


def test_what_has_changed_meanwhile_publishes_nothing() -> None:
    connection = Counting(
        {**CLOCK, "timetable_peek": [(0, 0, 0, 0)], "timetable_due": [(*ROW, 0, 0, NOON)], "timetable_move": ()}
    )

    found = drive(connection, TIMETABLE.tick.script("shop", firing, 10, ()))

    assert (found.fired, found.moved) == (0, 0)
    assert connection.asked == [
        "clock_read",
        "timetable_peek",
        "timetable_due",
        "clock_mark",
        "timetable_move",
        "timetable_peek",
    ]


def test_while_something_waits_a_look_is_three_reads() -> None:
    connection = Counting({**CLOCK, "timetable_peek": [(None, 1, 0, 0)], "timetable_waiting": ()})

    assert drive(connection, TIMETABLE.tick.script("shop", firing, 10, ())) == ScheduleTick(waiting=True)
    assert connection.asked == ["clock_read", "timetable_peek", "timetable_waiting"]


@pytest.mark.parametrize("count", [1, 5000])
@pytest.mark.parametrize("ending", ["timetable_update", "timetable_delete"])
def test_however_much_has_not_begun_a_pause_and_a_deletion_are_as_many_statements(ending: str, count: int) -> None:
    def how(_name: str, known: Schedule | None, now: datetime) -> Schedule | None:
        return replace(known, paused_at=now) if known is not None and ending == "timetable_update" else None

    statements = ("delivery_cancelled", "delivery_delete", "parked_cancelled", "parked_delete", "ended_add")
    connection = Counting(
        {
            **CLOCK,
            **dict.fromkeys((ending, *statements, "bell_ring"), ()),
            "timetable_read": [(NOON, *ROW)],
            "timetable_unfinished": [(seq, ID.bytes, False, None) for seq in range(count)],
            "timetable_parked": [(seq, ID.bytes) for seq in range(count)],
        }
    )

    drive(connection, TIMETABLE.rewrite.script(["nightly"], how, None))

    assert connection.asked[-9:] == [
        ending, "timetable_unfinished", "timetable_parked", *statements, "bell_ring",
    ]  # fmt: skip


def test_never_is_the_number_that_is_written_in_the_statements() -> None:
    assert micros(NEVER) == 253_402_214_400_000_000
    for name in ("timetable_peek", "timetable_due", "timetable_waiting", "timetable_later_parked"):
        assert str(micros(NEVER)) in SQL(name).sql
