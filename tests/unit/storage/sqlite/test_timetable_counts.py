"""What a look at the timetable costs, counted without a database."""

from datetime import datetime
from uuid import UUID

from mainspring.model.message import Draft
from mainspring.model.schedule import NEVER, Due, Look, Move, Occurrence
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from mainspring.storage.sqlite.timetable import SqliteTimetable
from mainspring.storage.sqlite.values import micros
from tests.unit.storage.sqlite.stand_in import NOON, Counting, drive

SQL = Dialect("mainspring", lambda: NOON)
TIMETABLE = SqliteTimetable(SQL, SqliteMailbox(SQL))
ID = UUID(int=7)
CLOCK = {"clock_read": [(NOON,)], "clock_mark": ()}
ROW = ("nightly", "shop", "code", "{}", NOON, NOON, NOON, NOON, "{}", "{}", 0, 0, None, None, None, None, 0, 0, 0, 0, 0)


def firing(_due: Due, now: datetime) -> Move:
    return Move(now, None, (Occurrence(Draft(ID, "a", b"", group="mailer", schedule="nightly"), NEVER),))


def test_an_idle_look_is_two_reads() -> None:
    connection = Counting({**CLOCK, "timetable_peek": [(None, 0, 0, 0)]})

    assert drive(connection, TIMETABLE.look("shop", firing, 10, (), None)) == Look()
    assert connection.asked == ["clock_read", "timetable_peek"]


def test_what_has_changed_meanwhile_publishes_nothing() -> None:
    connection = Counting({**CLOCK, "timetable_peek": [(NOON, 0, 0, 0)], "timetable_due": [ROW], "timetable_move": ()})

    found = drive(connection, TIMETABLE.look("shop", firing, 10, (), None))

    assert (found.fired, found.moved) == (0, 0)
    assert connection.asked == [
        "clock_read",
        "timetable_peek",
        "timetable_due",
        "clock_mark",
        "timetable_move",
        "timetable_peek",
    ]


def test_never_is_the_number_that_is_written_in_the_statements() -> None:
    assert micros(NEVER) == 253_402_214_400_000_000
    for name in ("timetable_peek", "timetable_due", "timetable_waiting", "timetable_unfinished"):
        assert str(micros(NEVER)) in SQL(name).sql
