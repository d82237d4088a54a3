"""What the inbox costs, counted without a database."""

from datetime import timedelta
from typing import Any

import pytest

from mainspring.model.inbox import InboxFilter, InboxKey
from mainspring.storage.operation import Nowhere
from mainspring.storage.sqlite.coordination import SqliteInbox
from mainspring.storage.sqlite.dialect import Dialect
from tests.unit.storage.sqlite.stand_in import NOON, Counting, drive

INBOX = SqliteInbox(Dialect("mainspring", lambda: NOON), Nowhere())
KEY = InboxKey("shop", "stripe", "evt_1")
CLOCK = {"clock_read": [(NOON,)], "clock_mark": ()}
TURN = ["clock_mark", "clock_read"]


def known(status: str, hash: bytes | None = None, mismatched: int | None = None) -> dict[str, Any]:
    row = (*KEY, status, 1, NOON, NOON, hash, None, mismatched)
    return {**CLOCK, "inbox_insert": (), "inbox_read": [row], "inbox_again": (), "inbox_mismatch": ()}


def test_a_new_message_is_one_statement_after_the_clock() -> None:
    connection = Counting({**CLOCK, "inbox_insert": [(1,)]})

    assert drive(connection, INBOX.admit.script(KEY, None, "done", None))
    assert connection.asked == [*TURN, "inbox_insert"]


@pytest.mark.parametrize("status", ["done", "dead", "processing"])
def test_a_message_that_is_known_is_read_and_nothing_is_written(status: str) -> None:
    connection = Counting(known(status))

    assert not drive(connection, INBOX.admit.script(KEY, None, "done", None))
    assert connection.asked == [*TURN, "inbox_insert", "inbox_read"]


def test_one_that_comes_in_again_is_one_statement_more() -> None:
    connection = Counting(known("processing"))

    assert drive(connection, INBOX.admit.script(KEY, None, "processing", timedelta())).attempts == 2
    assert connection.asked == [*TURN, "inbox_insert", "inbox_read", "inbox_again"]


@pytest.mark.parametrize(("mismatched", "written"), [(None, ["inbox_mismatch"]), (NOON, [])])
def test_a_mismatch_is_written_down_once(mismatched: int | None, written: list[str]) -> None:
    connection = Counting(known("seen", b"one", mismatched))

    assert drive(connection, INBOX.admit.script(KEY, b"two", "processing", None)).first_mismatch is bool(written)
    assert connection.asked == [*TURN, "inbox_insert", "inbox_read", *written]


def test_saying_what_became_of_it_and_listing_are_one_statement_each() -> None:
    marking, listing = Counting({**CLOCK, "inbox_mark": [(1,)]}), Counting({**CLOCK, "inbox_browse": ()})

    assert drive(marking, INBOX.mark.script(KEY, 1, "done", None, None))
    assert drive(listing, INBOX.browse.script(InboxFilter())) == []
    assert (marking.asked, listing.asked) == ([*TURN, "inbox_mark"], ["clock_read", "inbox_browse"])
