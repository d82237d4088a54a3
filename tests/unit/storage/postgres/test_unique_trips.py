"""What uniqueness costs, counted without a database: one statement before those of a plain publish."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring.model.message import Draft, Receipt, UniqueKey
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres.dialect import Names, Opening
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import Row, Statement, run

NAMES = Names("mainspring")
MAILBOX = PostgresMailbox(NAMES, Nowhere(), HandSet())
EARLIER = UUID(int=7)


class Recorder:
    """A connection that writes down what it is asked, and answers from a list."""

    def __init__(self, *answers: Sequence[Row]) -> None:
        self.statements: list[Statement] = []
        self._answers = list(answers)

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return self._answers.pop(0)


def bill(likeness: UniqueKey, *answers: Any) -> tuple[Draft, Receipt, list[str]]:
    draft = Draft(uuid4(), "orders.placed", b"{}")
    recorder = Recorder(*answers)
    receipt = run(recorder, MAILBOX.publish_unique.script(draft, likeness))
    assert [isinstance(each, Opening) for each in recorder.statements] == [True, *[False] * len(answers[1:])]
    return draft, receipt, [each.sql for each in recorder.statements]


def test_a_duplicate_is_one_statement() -> None:
    _, receipt, asked = bill(UniqueKey(b"1"), [("duplicate", EARLIER)])

    assert receipt == Receipt(EARLIER, "duplicate")
    assert asked == [NAMES.sql("unique_enter")]


@pytest.mark.parametrize(("known", "status"), [([], "stored"), ([(0, "orders.paid")], "conflict")])
def test_a_call_that_is_sent_again_is_held_against_what_is_known(known: list[Row], status: Any) -> None:
    draft, receipt, asked = bill(UniqueKey(b"1"), [("again", EARLIER)], [(True,)], known)

    assert receipt == Receipt(draft.id, status)
    assert asked == [NAMES.sql("unique_enter"), NAMES.sql("publish_readable"), NAMES.sql("publish_known")]


def test_what_is_stored_is_published_by_the_statement_of_every_publish() -> None:
    draft, receipt, asked = bill(UniqueKey(b"1", timedelta(1)), [("store", EARLIER)], [(EARLIER,)])

    assert receipt == Receipt(draft.id, "stored")
    assert asked == [NAMES.sql("unique_enter"), NAMES.sql("publish_one")]


def test_what_is_replaced_is_one_statement_more() -> None:
    last = UniqueKey(b"1", "pending", "last")

    draft, receipt, asked = bill(last, [("replace", EARLIER)], [(2, False)], [(EARLIER,)])
    _, begun, _ = bill(last, [("replace", EARLIER)], [(0, False)], [(EARLIER,)])

    assert receipt == Receipt(draft.id, "replaced")
    assert begun.status == "stored"
    assert asked == [NAMES.sql("unique_enter"), NAMES.sql("unique_replace"), NAMES.sql("publish_one")]


def test_a_parked_message_that_got_away_to_its_groups_is_looked_for_again() -> None:
    last = UniqueKey(b"1", "pending", "last")

    _, receipt, asked = bill(last, [("replace", EARLIER)], [(0, True)], [(1, False)], [(EARLIER,)])

    assert receipt.status == "replaced"
    assert asked.count(NAMES.sql("unique_replace")) == 2
