"""How many statements an operation costs, counted without a database."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.model.message import ALL_LEVELS, Claim, ClaimRequest, Draft
from mainspring.model.retention import Rerouted
from mainspring.model.verdict import DONE, Done, Failure, Release, Retry, Settlement, Verdict
from mainspring.storage.operation import Nowhere
from mainspring.storage.script import Row
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from mainspring.storage.sqlite.upkeep import SqliteUpkeep
from tests.unit.storage.sqlite.stand_in import NOON, Counting, drive

HOLD = timedelta(seconds=30)
MESSAGE = UUID(int=1)
CLOCK = {"clock_read": [(NOON,)], "clock_mark": ()}
MAILER = '[["orders.placed", "mailer"]]'


@pytest.fixture
def sql() -> Dialect:
    return Dialect("mainspring", lambda: NOON)


@pytest.fixture
def mailbox(sql: Dialect) -> SqliteMailbox:
    return SqliteMailbox(sql, Nowhere())


def drafts(count: int) -> list[Draft]:
    return [Draft(uuid4(), "orders.placed", b"{}") for _ in range(count)]


@pytest.mark.parametrize(("messages", "inserts"), [(2, 2), (4, 1), (5, 2), (16, 1), (256, 1), (500, 8)])
def test_a_batch_is_published_in_a_few_inserts(mailbox: SqliteMailbox, messages: int, inserts: int) -> None:
    batch = drafts(messages)
    # Asked again and again, the stand-in returns the same ids: the batch's own.
    answers = {
        **CLOCK,
        "publish_routes": [("orders.placed", "mailer")],
        "publish_message": [(draft.id.bytes,) for draft in batch],
        "publish_delivery": (),
    }
    connection = Counting(answers)

    published = drive(connection, mailbox.publish.script(batch))

    assert connection.asked == [
        "clock_mark",
        "clock_read",
        "publish_routes",
        *["publish_message"] * inserts,
        *["publish_delivery"] * inserts,
    ]
    assert len(published.stored) == messages


def test_one_message_is_published_in_two_statements(mailbox: SqliteMailbox) -> None:
    connection = Counting({"publish_one": [(NOON, NOON, 1)], "publish_copies": ()})

    published = drive(connection, mailbox.publish.script(drafts(1)))

    assert connection.asked == ["publish_one", "publish_copies"]
    assert len(published.stored) == 1


def test_the_clock_is_marked_when_it_is_behind(mailbox: SqliteMailbox) -> None:
    connection = Counting({**CLOCK, "publish_one": [(NOON, NOON - 100_001, 0)], "publish_parked": ()})

    drive(connection, mailbox.publish.script(drafts(1)))

    assert connection.asked == ["publish_one", "clock_mark", "publish_parked"]


def test_where_patterns_are_to_be_asked_one_message_takes_four(mailbox: SqliteMailbox) -> None:
    answers = {"publish_begin_one": [(NOON, 0, MAILER)], "publish_message_one": (), "publish_delivery": ()}
    connection = Counting({"publish_one": (), **answers})

    published = drive(connection, mailbox.publish.script(drafts(1)))

    assert connection.asked == ["publish_one", "publish_begin_one", "publish_message_one", "publish_delivery"]
    assert len(published.stored) == 1


def test_publishing_one_duplicate_writes_nothing(mailbox: SqliteMailbox) -> None:
    connection = Counting({"publish_one": (), "publish_begin_one": [(NOON, 1, MAILER)], "publish_known": ()})

    published = drive(connection, mailbox.publish.script(drafts(1)))

    assert connection.asked == ["publish_one", "publish_begin_one", "publish_known"]
    assert published.stored == frozenset()


def test_publishing_duplicates_writes_no_delivery(mailbox: SqliteMailbox) -> None:
    routes = [("orders.placed", "mailer")]
    connection = Counting({**CLOCK, "publish_routes": routes, "publish_message": (), "publish_known": ()})

    published = drive(connection, mailbox.publish.script(drafts(4)))

    assert connection.asked == ["clock_mark", "clock_read", "publish_routes", "publish_message", "publish_known"]
    assert published.stored == frozenset()


def test_publishing_straight_to_a_group_reads_no_subscriptions(mailbox: SqliteMailbox) -> None:
    one, other = (Draft(uuid4(), "orders.placed", b"{}", group="mailer") for _ in range(2))
    first = Counting({"publish_one": [(NOON, NOON, 1)], "publish_delivery": ()})
    both = Counting({**CLOCK, "publish_message": [(one.id.bytes,)], "publish_delivery": (), "publish_known": ()})

    drive(first, mailbox.publish.script([one]))
    drive(both, mailbox.publish.script([one, other]))

    assert first.asked == ["publish_one", "publish_delivery"]
    assert both.asked == ["clock_mark", "clock_read", *["publish_message"] * 2, "publish_delivery", "publish_known"]


@pytest.mark.parametrize("operation", ["publish", "settle", "cancel"])
def test_what_may_join_a_callers_transaction_takes_the_write_lock_first(mailbox: SqliteMailbox, operation: str) -> None:
    scripts = {
        "publish": mailbox.publish.script(drafts(1)),
        "settle": mailbox.settle.script([Settlement(Claim(1, 1, MESSAGE), DONE)], "worker"),
        "cancel": mailbox.cancel.script(uuid4(), "not needed"),
    }

    first = next(scripts[operation])

    assert "UPDATE mainspring_clock" in first.sql or "INSERT INTO mainspring_message" in first.sql


def test_a_claim_that_finds_nothing_only_reads(mailbox: SqliteMailbox) -> None:
    connection = Counting({**CLOCK, "paused": (), "claim_scan": ()})

    claimed = drive(connection, mailbox.claim.script([ClaimRequest("mailer", 10, ALL_LEVELS)], "worker", HOLD))

    assert claimed == []
    assert connection.asked == ["clock_read", "paused", *["claim_scan"] * 4]


def test_a_full_claim_costs_one_scan_and_one_update(mailbox: SqliteMailbox) -> None:
    connection = Counting({**CLOCK, "paused": (), "claim_scan": [row(1), row(2)], "claim_hold": ()})

    claimed = drive(connection, mailbox.claim.script([ClaimRequest("mailer", 2, ALL_LEVELS)], "worker", HOLD))

    assert [delivery.claim for delivery in claimed] == [Claim(1, 8, UUID(int=1)), Claim(2, 8, UUID(int=2))]
    assert connection.asked == ["clock_read", "paused", "claim_scan", "clock_mark", "claim_hold"]


def test_a_paused_group_is_not_scanned(mailbox: SqliteMailbox) -> None:
    connection = Counting({**CLOCK, "paused": [("mailer",)]})

    drive(connection, mailbox.claim.script([ClaimRequest("mailer", 10, ALL_LEVELS)], "worker", HOLD))

    assert connection.asked == ["clock_read", "paused"]


@pytest.mark.parametrize("count", [1, 500])
def test_plain_successes_settle_in_three_statements_however_many(mailbox: SqliteMailbox, count: int) -> None:
    answers: dict[str, Sequence[Row]] = {
        **CLOCK,
        "settle_read": [(seq, 1, "worker", MESSAGE.bytes, 1, 0, None, "mailer", "immediate") for seq in range(count)],
        "delivery_delete": (),
        "ended_handled": (),
    }
    connection = Counting(answers)

    settled = drive(
        connection, mailbox.settle.script([Settlement(Claim(seq, 1, MESSAGE), DONE) for seq in range(count)], "worker")
    )

    assert not settled.lost
    assert not settled.gone
    assert connection.asked == ["clock_mark", "clock_read", "settle_read", "delivery_delete", "ended_handled"]


def test_members_cost_one_statement_more_per_join(mailbox: SqliteMailbox) -> None:
    answers: dict[str, Sequence[Row]] = {
        **CLOCK,
        "settle_read": [
            (seq, 1, "worker", MESSAGE.bytes, 1, 0, bytes([seq % 2] * 16), "mailer", "immediate") for seq in range(10)
        ],
        **dict.fromkeys(("delivery_delete", "ended_handled", "joint_count"), ()),
    }
    connection = Counting(answers)

    drive(
        connection,
        mailbox.settle.script([Settlement(Claim(seq, 1, MESSAGE), DONE, member=True) for seq in range(10)], "worker"),
    )

    assert connection.asked[3:] == ["delivery_delete", "ended_handled", "joint_count", "joint_count"]


def test_other_verdicts_cost_two_statements_each_at_most(mailbox: SqliteMailbox) -> None:
    retry = Retry(timedelta(seconds=5), Failure("error", "boom"))
    verdicts: list[Verdict] = [retry, retry, Release(timedelta(seconds=1)), Done("42 rows")]
    answers: dict[str, Sequence[Row]] = {
        **CLOCK,
        "settle_read": [(seq, 1, "worker", MESSAGE.bytes, 1, 0, None, "mailer", "immediate") for seq in range(4)],
        **dict.fromkeys(("settle_run", "settle_back", "delivery_delete", "ended_handled"), ()),
    }
    connection = Counting(answers)
    settlements = [Settlement(Claim(seq, 1, MESSAGE), verdict, "all") for seq, verdict in enumerate(verdicts)]

    drive(connection, mailbox.settle.script(settlements, "worker"))

    assert connection.asked[3:] == [
        *("settle_run", "settle_back"),
        *("settle_run", "settle_back"),
        "settle_back",
        "settle_run",
        "delivery_delete",
        "ended_handled",
    ]


def test_what_is_handed_back_due_rings_the_bell_once(mailbox: SqliteMailbox) -> None:
    answers: dict[str, Sequence[Row]] = {
        **CLOCK,
        "settle_read": [(seq, 1, "worker", MESSAGE.bytes, 1, 0, None, "mailer", "immediate") for seq in range(2)],
        "settle_back": (),
        "bell_ring": (),
    }
    connection = Counting(answers)

    drive(
        connection, mailbox.settle.script([Settlement(Claim(seq, 1, MESSAGE), Release()) for seq in range(2)], "worker")
    )

    assert connection.asked[3:] == ["settle_back", "settle_back", "bell_ring"]


def test_nothing_to_do_costs_nothing(mailbox: SqliteMailbox) -> None:
    connection = Counting({})

    drive(connection, mailbox.publish.script([]))
    drive(connection, mailbox.settle.script([], "worker"))
    drive(connection, mailbox.extend.script([], "worker", HOLD))

    assert connection.asked == []


def test_rerouting_nothing_costs_two_statements(sql: Dialect) -> None:
    connection = Counting({"reroute_named": (), "reroute_topics": ()})

    assert drive(connection, SqliteUpkeep(sql, Nowhere()).reroute.script(100)) == Rerouted()

    assert connection.asked == ["reroute_named", "reroute_topics"]


def test_the_prefix_is_in_every_statement() -> None:
    draft = drafts(1)[0]
    connection = Counting({"publish_begin_one": [(NOON, 0, "[]")]}, prefix="shop")

    drive(connection, SqliteMailbox(Dialect("shop", lambda: NOON), Nowhere()).publish.script([draft]))

    assert all("shop_" in statement.sql for statement in connection.statements)
    assert not any("mainspring" in statement.sql for statement in connection.statements)


def row(seq: int) -> Row:
    message = UUID(int=seq).bytes
    body = ("orders.placed", b"{}", "application/json", None, None, None, None)
    return (seq, 7, message, "mailer", *body, 2, 0, 0, NOON, NOON, NOON, None, 0, None)
