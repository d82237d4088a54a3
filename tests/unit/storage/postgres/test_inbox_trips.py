"""What the inbox costs, counted without a database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.model.inbox import Admission, InboxFilter, InboxKey
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres.coordination import PostgresInbox
from mainspring.storage.postgres.dialect import Names, Opening
from mainspring.storage.script import Row, Script, Statement, run

NAMES = Names("mainspring")
INBOX = PostgresInbox(NAMES, Nowhere(), HandSet())
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
KEY = InboxKey("shop", "stripe", "evt_1")


class Recorder:
    """A connection that writes down what it is asked, and always answers the same."""

    def __init__(self, answer: Sequence[Row]) -> None:
        self.statements: list[Statement] = []
        self._answer = answer

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return self._answer


def bill(script: Script[Any], answer: Sequence[Row]) -> tuple[Any, list[str]]:
    """The answer, and the statements by name."""
    texts = {NAMES.sql(f"inbox_{name}"): name for name in ("admit", "mark", "release", "browse", "find")}
    recorder = Recorder(answer)
    answered = run(recorder, script)
    assert not any(isinstance(each, Opening) for each in recorder.statements), "one statement needs no transaction"
    return answered, [texts[each.sql] for each in recorder.statements]


@pytest.mark.parametrize(
    "row",
    [
        (True, "processing", 1, NOON, False, False),
        (True, "done", 7, NOON, False, False),
        (False, "dead", 2, NOON, False, False),
        (False, "seen", 2, NOON, True, True),
    ],
)
def test_whatever_the_answer_letting_in_is_one_trip(row: tuple[Any, ...]) -> None:
    told = tuple(int(NOON.timestamp()) * 1_000_000 if each is NOON else each for each in (*row, NOON))

    admission, trips = bill(INBOX.admit.script(KEY, b"hash", "processing", timedelta(minutes=1)), [told])

    assert admission == Admission(*KEY, *row)
    assert admission.admitted_at == (NOON if admission else None)
    assert trips == ["admit"]


def test_saying_what_became_of_it_is_one_trip() -> None:
    assert bill(INBOX.mark.script(KEY, 1, "done", None, NOON), [(1,)]) == (True, ["mark"])
    assert bill(INBOX.mark.script(KEY, 1, "dead", "boom", None), []) == (False, ["mark"])


def test_a_release_with_its_note_is_one_trip() -> None:
    assert bill(INBOX.release.script(KEY, "ann"), [(1,)]) == (True, ["release"])


def test_a_listing_is_one_trip_and_of_one_id_goes_by_the_key() -> None:
    assert bill(INBOX.browse.script(InboxFilter()), []) == ([], ["browse"])
    assert bill(INBOX.browse.script(InboxFilter(message_id="evt_1")), []) == ([], ["find"])
