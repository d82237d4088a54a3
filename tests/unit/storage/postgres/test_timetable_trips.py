"""What a look at the timetable costs, counted without a database."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.model.join import follower_id
from mainspring.model.message import Draft
from mainspring.model.schedule import NEVER, Due, Note, Occurrence, Schedule, ScheduleAdvance, ScheduleTick
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.portable.timetable import written_draft
from mainspring.storage.postgres.coordination import PostgresTimetable
from mainspring.storage.postgres.dialect import Names, Opening
from mainspring.storage.script import Row, Script, Statement, run

NAMES = Names("mainspring")
TIMETABLE = PostgresTimetable(NAMES, Nowhere(), HandSet())
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ID = UUID(int=7)
NOTHING = [(None, False, False, False)]
DUE = [(timedelta(), False, False, False)]
ROW = ("nightly", "shop", "code", "{}", NOON, NOON, NOON, NOON, "{}", "{}", 0, 0, None, None, None, None, 0, 0, 0)


class Recorder:
    """A connection that writes down what it is asked, and answers from a list."""

    def __init__(self, *answers: Sequence[Row]) -> None:
        self.statements: list[Statement] = []
        self._answers = list(answers)

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return self._answers.pop(0) if self._answers else []


def bill(script: Script[Any], *answers: Sequence[Row]) -> tuple[Any, list[str]]:
    """The answer, and the statements by name; the one that opens a transaction is marked."""
    names = [
        "peek", "due", "move", "later", "release", "cancel", "lock", "insert", "update", "delete", "read", "freezes",
        "freeze", "thaw", "declared", "retire",
    ]  # fmt: skip
    texts = {NAMES.sql(f"timetable_{name}"): name for name in names} | {NAMES.sql("joint_count"): "count"}
    texts |= {NAMES.sql("audit_note"): "note", NAMES.sql("ring"): "ring"}
    texts |= {NAMES.sql(name): name for name in ("publish", "publish_one")}
    recorder = Recorder(*answers)
    answer = run(recorder, script)
    return answer, [f"{texts[each.sql]}{' opens' * isinstance(each, Opening)}" for each in recorder.statements]


def firing(_due: Due, now: datetime) -> ScheduleAdvance:
    return ScheduleAdvance(now, None, (Occurrence(Draft(ID, "a", b"", schedule="nightly"), NEVER),))


def test_an_idle_look_is_one_trip_and_no_transaction() -> None:
    assert bill(TIMETABLE.tick.script("shop", firing, 10, ()), NOTHING) == (ScheduleTick(), ["peek"])


def test_a_look_at_what_is_frozen_is_one_trip() -> None:
    frozen = [(timedelta(), False, True, False)]

    assert bill(TIMETABLE.tick.script("shop", firing, 10, ()), frozen) == (
        ScheduleTick(next_in=timedelta(), frozen=True),
        ["peek"],
    )


def test_whatever_is_due_goes_on_in_seven_trips() -> None:
    row = (*ROW, 1, 0, NOON)

    found, trips = bill(
        TIMETABLE.tick.script("shop", firing, 10, ()), DUE, [row], [("nightly",)], [], [], [(0,)], NOTHING
    )

    assert found == ScheduleTick(fired=1, moved=1)
    assert trips == ["peek", "due opens", "move", "publish", "later", "release", "peek"]


def test_while_something_waits_a_look_is_two_trips_and_no_transaction() -> None:
    waiting = [(timedelta(hours=1), True, False, False)]

    found, trips = bill(TIMETABLE.tick.script("shop", firing, 10, ()), waiting, [(0,)])

    assert found == ScheduleTick(next_in=timedelta(hours=1), waiting=True)
    assert trips == ["peek", "release"]


def test_what_no_longer_waits_is_one_trip_more() -> None:
    waiting = [(None, True, False, False)]

    found, trips = bill(TIMETABLE.tick.script("shop", firing, 10, ()), waiting, [(2,)], NOTHING)

    assert found == ScheduleTick(released=2)
    assert trips == ["peek", "release", "peek"]


def test_however_many_runs_are_asked_to_stop_it_is_one_trip() -> None:
    row = (*ROW, 1, 999, NOON)

    found, trips = bill(
        TIMETABLE.tick.script("shop", lambda _due, now: ScheduleAdvance(now, None, stop_running=True), 10, ()),
        DUE, [row], [(1000, False, [])], [("nightly",)], NOTHING,
    )  # fmt: skip

    assert found == ScheduleTick(moved=1, asked=1000)
    assert trips == ["peek", "due opens", "cancel", "move", "peek"]


@pytest.mark.parametrize("ending", ["paused", "deleted"])
def test_however_much_has_not_begun_a_pause_and_a_deletion_are_five_trips(ending: str) -> None:
    def how(_name: str, known: Schedule | None, now: datetime) -> Schedule | None:
        return replace(known, paused_at=now) if known is not None and ending == "paused" else None

    _, trips = bill(
        TIMETABLE.rewrite.script(["nightly"], how, Note("ann", ending)), [(NOON, [], *ROW)], [], [(0, False, [])]
    )

    assert trips == ["lock opens", "update" if ending == "paused" else "delete", "cancel", "note", "ring"]


def test_a_parked_occurrence_that_got_away_to_its_groups_is_looked_for_again() -> None:
    answers: list[Sequence[Row]] = [[(NOON, [], *ROW)], [], [(0, True, [])], [(0, False, [])]]

    _, trips = bill(TIMETABLE.rewrite.script(["nightly"], lambda *_: None, None), *answers)

    assert trips == ["lock opens", "delete", "cancel", "cancel", "ring"]


def test_what_is_entered_to_wait_rings_for_everybody_and_what_starts_at_once_does_not() -> None:
    draft = Draft(ID, "a", b"", schedule="nightly")

    _, waits = bill(TIMETABLE.enter.script([Occurrence(draft, NEVER)], Note("ann", "backfill")), [], [], [], [(0,)])
    _, starts = bill(TIMETABLE.enter.script([Occurrence(draft)], Note("ann", "trigger")), [], [], [(0,)])

    assert waits == ["note opens", "publish", "later", "release", "ring"]
    assert starts == ["note opens", "publish", "release"]


def test_members_that_have_ended_are_counted_in_two_trips_more_and_what_follows_is_a_third() -> None:
    ended = [(None, False, False, True)]
    then = Draft(UUID(int=1), "b", b"", group="boss")

    none_complete = bill(TIMETABLE.tick.script("shop", firing, 10, ()), ended, [], NOTHING)
    one_complete = bill(
        TIMETABLE.tick.script("shop", firing, 10, ()),
        ended,
        [(ID, written_draft(then), None, 3, 0)],
        [(follower_id(ID),)],
        NOTHING,
    )

    assert none_complete == (ScheduleTick(), ["peek", "count opens", "peek"])
    found, trips = one_complete
    assert trips == ["peek", "count opens", "publish_one", "peek"]
    assert (found.joined, [each.id for each in found.continuations]) == (1, [follower_id(ID)])


def test_who_lost_the_row_publishes_nothing() -> None:
    found, trips = bill(TIMETABLE.tick.script("shop", firing, 10, ()), DUE, [(*ROW, 0, 0, NOON)], [], NOTHING)

    assert found == ScheduleTick()
    assert trips == ["peek", "due opens", "move", "peek"]


def test_rows_that_stay_as_they_are_cost_one_trip() -> None:
    locked: list[tuple[object, ...]] = [(NOON, [], *ROW)]

    answer, trips = bill(TIMETABLE.rewrite.script(["nightly"], lambda _name, known, _now: known, None), locked)

    assert [row.name for row in answer] == ["nightly"]
    assert trips == ["lock opens"]


def test_rows_are_added_in_the_order_of_their_names_however_they_are_named() -> None:
    recorder = Recorder([(NOON, [], None)], [("a",), ("b",)])
    rows = {name: Schedule(name, "shop", "code", {}, NOON, NOON, NOON) for name in ("b", "a")}

    run(recorder, TIMETABLE.rewrite.script(["b", "a"], lambda name, _known, _now: rows[name], Note("ann", "edit")))

    assert [each.sql for each in recorder.statements] == [
        NAMES.sql(name) for name in ("timetable_lock", "timetable_insert", "audit_note", "ring")
    ]
    assert recorder.statements[1].args[0] == ["a", "b"]
