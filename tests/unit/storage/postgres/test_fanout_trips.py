"""What fan-out costs, counted without a database: four statements for any number of shards, one for a cursor."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.model.fanout import Batch, Candidate, CursorKey, FanoutPolicy, Planning, identity, slice_id
from mainspring.model.lease import Hold
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Note
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres.coordination import PostgresFanouts
from mainspring.storage.postgres.dialect import Names, Opening
from mainspring.storage.script import Row, Script, Statement, run

NAMES = Names("mainspring")
FANOUTS = PostgresFanouts(NAMES, Nowhere(), HandSet())
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOTE = Note("ann", "fanout edit")


class Recorder:
    """A connection that writes down what it is asked, and gives these answers in turn."""

    def __init__(self, *answers: Sequence[Row]) -> None:
        self.statements: list[Statement] = []
        self._answers = iter(answers)

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return next(self._answers)


def batch(shards: int) -> Batch:
    return Batch(
        "etl", NOON, [("payments", f"shard-{n}") for n in range(shards)], Hold("fanout:etl:payments", 7, "one")
    )


def candidates(shards: int, *, unfinished: bool = False, unseen: bool = False) -> list[Row]:
    found = (None, None, None, None, None, unfinished, unseen)
    return [("payments", f"shard-{n}", *found) for n in range(shards)]


def everyone(found: Sequence[Candidate]) -> list[Planning]:
    ids = [slice_id(identity(CursorKey("etl", each.work, each.shard), NOON)) for each in found]
    return [Planning(each.work, each.shard, Draft(id, "t", b"")) for each, id in zip(found, ids, strict=True)]


def nobody(_: Sequence[Candidate]) -> list[Planning]:
    return []


def test_five_hundred_shards_are_planned_in_five_statements_of_one_transaction() -> None:
    ids = [slice_id(identity(CursorKey("etl", "payments", f"shard-{n}"), NOON)) for n in range(500)]
    recorder = Recorder([(7,)], candidates(500), [], [], [])

    answered = run(recorder, FANOUTS.plan.script(batch(500), everyone))

    assert answered == Published(frozenset(ids))
    asked = [
        NAMES.sql(name) for name in ("lease_confirm", "fanout_candidates", "fanout_busy", "publish", "fanout_planned")
    ]
    assert [each.sql for each in recorder.statements] == asked
    assert [isinstance(each, Opening) for each in recorder.statements] == [True, False, False, False, False]
    shards = recorder.statements[4].args[2]
    assert shards == sorted(shards), "locked in one order by everybody"


def test_where_nothing_is_due_nothing_is_written() -> None:
    recorder = Recorder([(7,)], candidates(500))

    run(recorder, FANOUTS.plan.script(batch(500), nobody))

    assert len(recorder.statements) == 2


def test_who_has_lost_the_lease_reads_nothing() -> None:
    recorder = Recorder([])

    assert run(recorder, FANOUTS.plan.script(batch(500), everyone)) is None
    assert len(recorder.statements) == 1


def test_shards_that_are_not_due_are_noted_as_there_once_in_a_while() -> None:
    on_its_way = candidates(1, unseen=True, unfinished=True)  # which may be longer than cursors are kept
    recorder = Recorder([(7,)], on_its_way + candidates(2, unseen=True)[1:] + candidates(3)[2:], [])

    run(recorder, FANOUTS.plan.script(batch(3), nobody))

    assert [each.sql for each in recorder.statements[2:]] == [NAMES.sql("fanout_busy"), NAMES.sql("fanout_seen")]
    assert recorder.statements[3].args[2] == ["shard-0", "shard-1"]


def test_shards_that_another_session_has_locked_are_left_to_the_next_plan() -> None:
    id = slice_id(identity(CursorKey("etl", "payments", "shard-1"), NOON))
    recorder = Recorder([(7,)], candidates(2), [("payments", "shard-0")], [(id,)], [])

    run(recorder, FANOUTS.plan.script(batch(2), everyone))

    assert recorder.statements[-1].sql == NAMES.sql("fanout_planned")
    assert recorder.statements[-1].args[2] == ["shard-1"]


@pytest.mark.parametrize(
    ("script", "rows", "answer"),
    [
        (FANOUTS.advance.script(CursorKey("etl", "payments", "a"), NOON), [(1,)], True),
        (FANOUTS.advance.script(CursorKey("etl", "payments", "a"), NOON), [], False),
        (FANOUTS.edit.script("etl", "payments", "", FanoutPolicy(), NOTE), [(True, None, None)], FanoutPolicy(True)),
        (FANOUTS.reset.script("etl", "payments", "", NOTE), [], False),
        (FANOUTS.policies.script("etl", "payments", None, 50), [], []),
        (FANOUTS.cursors.script("etl", "payments", None, 50, behind=False), [], []),
        (FANOUTS.tally.script(None, None), [], []),
    ],
)
def test_every_other_operation_is_one_statement_by_itself(
    script: Script[Any], rows: Sequence[Row], answer: object
) -> None:
    recorder = Recorder(rows)

    assert run(recorder, script) == answer
    assert [isinstance(each, Opening) for each in recorder.statements] == [False]


def test_a_policy_is_stored_with_its_times() -> None:
    recorder = Recorder([(None, timedelta(hours=1), None)])

    run(recorder, FANOUTS.edit.script("etl", "payments", "a", FanoutPolicy(every=timedelta(hours=1)), NOTE))

    assert recorder.statements[0].args[:6] == ("etl", "payments", "a", None, timedelta(hours=1), None)
    assert recorder.statements[0].args[8] == "etl|payments|a"
