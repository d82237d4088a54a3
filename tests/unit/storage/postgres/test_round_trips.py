"""Round trips are a budget, and the script is its bill: counted here without a database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring.model.errors import Conflict
from mainspring.model.join import Join
from mainspring.model.message import ALL_LEVELS, Claim, ClaimRequest, Draft, Keep
from mainspring.model.retention import Pruned, Retention
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import DONE, Bury, Cancel, Failure, Release, Retry, Settlement, Snooze, Verdict
from mainspring.model.views import Beat, Declaration
from mainspring.model.worker import Declarer
from mainspring.storage.contract import Keyed
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.portable.retention import STRETCH
from mainspring.storage.postgres.controls import PostgresControls
from mainspring.storage.postgres.coordination import PostgresInbox
from mainspring.storage.postgres.dialect import Names, Opening
from mainspring.storage.postgres.ledger import PostgresLedger
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.postgres.upkeep import PostgresUpkeep
from mainspring.storage.script import Row, Script, Statement, run

NAMES = Names("mainspring")
HOLD = timedelta(minutes=1)
FAILURE = Failure("error", "boom")
MAILBOX = PostgresMailbox(NAMES, Nowhere(), HandSet())
INBOX = PostgresInbox(NAMES, Nowhere(), HandSet())
UPKEEP = PostgresUpkeep(NAMES, Nowhere(), HandSet())
MESSAGE = UUID(int=1)


class Recorder:
    """A connection that writes down what it is asked, and answers from a list."""

    def __init__(self, *answers: Sequence[Row]) -> None:
        self.statements: list[Statement] = []
        self._answers = list(answers)

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return self._answers.pop(0) if self._answers else []


def bill(script: Script[Any], *answers: Sequence[Row]) -> list[Statement]:
    recorder = Recorder(*answers)
    run(recorder, script)
    return recorder.statements


def drafts(count: int) -> list[Draft]:
    return [Draft(uuid4(), f"topic.{place}", b"{}") for place in range(count)]


def settlements(verdict: Verdict, count: int = 500, keep: Keep = "failures") -> list[Settlement]:
    return [Settlement(Claim(seq, 1, MESSAGE), verdict, keep) for seq in range(count)]


@pytest.mark.parametrize("count", [1, 500])
def test_publishing_any_batch_is_one_trip_and_two_more_where_some_id_was_known(count: int) -> None:
    batch = drafts(count)
    first = [(batch[0].id,)]
    # One message is answered with its id if it is stored, a batch with the ids that were known.
    stored, known = (first, []) if count == 1 else ([], first)

    assert len(bill(MAILBOX.publish.script(batch), stored)) == 1
    _, asked, compared = bill(MAILBOX.publish.script(batch), known, [(True,)], [])

    assert asked.sql == NAMES.sql("publish_readable")
    assert compared.sql == NAMES.sql("publish_known")
    assert compared.args[:3] == ([0], [batch[0].id], ["topic.0"])


def test_nothing_to_do_is_no_trip() -> None:
    assert bill(MAILBOX.publish.script([])) == []
    assert bill(MAILBOX.extend.script([], "node", HOLD)) == []
    assert bill(MAILBOX.settle.script([], "node")) == []


def test_claiming_for_many_groups_is_one_trip() -> None:
    wants = [ClaimRequest(f"group{place}", 100, ALL_LEVELS) for place in range(50)]

    [statement] = bill(MAILBOX.claim.script(wants, "node", HOLD))

    assert [len(each) for each in statement.args[:5]] == [50, 50, 200, 200, 200]


def test_reaping_and_asking_for_what_comes_next_are_one_trip_each() -> None:
    assert len(bill(MAILBOX.reap.script(["a", "b"], "node", HOLD))) == 1
    assert len(bill(MAILBOX.upcoming.script(["a", "b"]), [(None,)])) == 1


def test_extending_any_batch_is_one_trip() -> None:
    assert len(bill(MAILBOX.extend.script([Claim(seq, 1, MESSAGE) for seq in range(500)], "node", HOLD))) == 1


def test_settling_successes_is_one_trip_in_the_order_of_their_rows() -> None:
    [statement] = bill(MAILBOX.settle.script(list(reversed(settlements(DONE))), "node"))

    assert statement.args[0] == list(range(500))
    assert statement.sql == NAMES.sql("settle_done")


def test_settling_a_mixed_batch_is_one_trip() -> None:
    verdicts: list[Verdict] = [
        DONE,
        Retry(HOLD, FAILURE),
        Snooze(HOLD),
        Release(),
        Bury(FAILURE),
        Cancel("obsolete"),
    ]
    batch = [Settlement(Claim(seq, 1, MESSAGE), verdict) for seq, verdict in enumerate(verdicts)]

    [statement] = bill(MAILBOX.settle.script(batch, "node"))

    assert statement.args[3] == ["done", "retry", "snooze", "release", "bury", "cancel"]


def test_history_that_must_be_written_or_forgotten_takes_the_general_statement() -> None:
    for keep in ("all", "none"):
        [statement] = bill(MAILBOX.settle.script(settlements(DONE, 3, keep), "node"))
        assert statement.sql == NAMES.sql("settle")


def test_a_member_takes_the_general_statement_which_counts_its_end() -> None:
    plain = Settlement(Claim(1, 1, MESSAGE), DONE)

    [alone] = bill(MAILBOX.settle.script([plain], "node"))
    [together] = bill(MAILBOX.settle.script([plain, Settlement(Claim(2, 1, MESSAGE), DONE, member=True)], "node"))

    assert (alone.sql, together.sql) == (NAMES.sql("settle_done"), NAMES.sql("settle"))


def test_plain_messages_pay_nothing_for_joins() -> None:
    assert "join_id" not in NAMES.sql("settle_done")
    assert "joint" not in NAMES.sql("settle_done")
    (one,) = drafts(1)
    assert [each.sql for each in bill(MAILBOX.publish.script([one]), [(one.id,)])] == [NAMES.sql("publish_one")]


@pytest.mark.parametrize(("count", "trips"), [(1, 2), (1000, 2), (2001, 4)])
def test_a_join_is_one_transaction_and_a_thousand_members_a_trip(count: int, trips: int) -> None:
    members = drafts(count)

    statements = bill(MAILBOX.join.script(Join(UUID(int=7), drafts(1)[0]), members))

    assert [each.sql for each in statements] == [NAMES.sql("publish")] * (trips - 1) + [NAMES.sql("joint_open")]
    assert isinstance(statements[0], Opening)
    assert statements[-1].args[:2] == (UUID(int=7), count)


def test_a_join_that_was_stored_already_is_not_stored_again() -> None:
    members = drafts(3)
    known = [(each.id,) for each in members]

    statements = bill(MAILBOX.join.script(Join(UUID(int=7), drafts(1)[0]), members), known, [(False,)])

    assert [each.sql for each in statements] == [NAMES.sql("publish"), NAMES.sql("publish_readable")]


def test_messages_from_outside_that_are_all_new_are_one_trip_and_no_transaction_of_several() -> None:
    received = {f"id-{place}": each for place, each in enumerate(drafts(250))}

    [statement] = bill(INBOX.receive.script("mail", "kafka", received), [(True,)])

    assert statement.sql == NAMES.sql("inbox_receive_all")
    assert not isinstance(statement, Opening)


def test_messages_from_outside_of_which_some_are_known_are_one_transaction_more() -> None:
    received = dict(zip(("new", "old"), drafts(2), strict=True))

    tried, *others = bill(
        INBOX.receive.script("mail", "kafka", received), [(False,)], [("new",)], [], [], [(received["new"].id,)]
    )

    names = ("inbox_receive", "inbox_receive_mismatched", "inbox_receive_again", "publish_one")
    assert tried.sql == NAMES.sql("inbox_receive_all")
    assert [each.sql for each in others] == [NAMES.sql(name) for name in names]
    assert isinstance(others[0], Opening)


def test_messages_from_outside_that_share_an_id_are_compared() -> None:
    (draft,) = drafts(1)

    first, *others = bill(
        INBOX.receive.script("mail", "kafka", {"a": draft, "b": draft}), [("a",), ("b",)], [], [(True,)], []
    )

    assert first.sql == NAMES.sql("inbox_receive")
    assert [each.sql for each in others] == [NAMES.sql(n) for n in ("publish", "publish_readable", "publish_known")]


def test_a_row_that_is_locked_is_answered_in_the_same_trip() -> None:
    settling = MAILBOX.settle.script(settlements(DONE, 3), "node")

    assert len(bill(settling, [(0, 1, MESSAGE, "gone"), (2, 1, MESSAGE, "busy")])) == 1


def test_cancelling_by_id_or_by_key_is_one_trip() -> None:
    answer = [(3, 0, False)]

    assert len(bill(MAILBOX.cancel.script(uuid4(), "obsolete"), answer)) == 1
    assert len(bill(MAILBOX.cancel.script(Keyed("orders", "42"), "obsolete"), answer)) == 1


def test_a_declaration_that_changes_nothing_only_reads() -> None:
    declared = Declaration("mail", "shop", ("orders.*", "orders.placed"), "shop:mail", {"timeout": "30s"})
    known = [("mail", "shop", "shop:mail", '{"timeout":"30s"}', 0, ["orders.*", "orders.placed"], True)]

    statements = bill(UPKEEP.declare.script([declared]), known)

    assert [each.sql for each in statements] == [NAMES.sql("declared")]


def test_a_new_declaration_is_written_as_one_transaction() -> None:
    statements = bill(UPKEEP.declare.script([Declaration("mail", "shop", ("orders.*",), "shop:mail")]))

    assert [each.sql for each in statements] == [
        NAMES.sql(name)
        for name in ("declared", "declare_seen", "declare_groups", "declare_lock", "declared", "declare_subscribe")
    ]
    assert [type(each) is Opening for each in statements] == [False, True, False, False, False, False]


def test_a_worker_that_declares_the_same_again_writes_at_most_that_it_does() -> None:
    declared = Declaration("mail", "shop", ("orders",), "shop:mail")
    again = Declarer("shop/node", "1", again=True)
    known = ("mail", "shop", "shop:mail", "{}", 0, ["orders"])

    lately = bill(UPKEEP.declare.script([declared], again), [(*known, True)])
    long_ago = bill(UPKEEP.declare.script([declared], again), [(*known, False)])

    assert [each.sql for each in lately] == [NAMES.sql("declared")]
    assert [each.sql for each in long_ago] == [NAMES.sql("declared"), NAMES.sql("declare_seen")]


def test_a_group_of_another_app_is_refused_before_anything_is_written() -> None:
    recorder = Recorder([("mail", "other", "other:mail", "{}", 0, [], False)])

    with pytest.raises(Conflict, match="'other'"):
        run(
            recorder,
            UPKEEP.declare.script([Declaration("mail", "shop", (), "shop:mail")]),
        )

    assert len(recorder.statements) == 1


def test_beats_farewells_and_rerouting_are_one_trip_each() -> None:
    beat = Beat("node", "shop", "host", 1, ("mail",), 0, "notify")

    assert len(bill(UPKEEP.beat.script(beat), [(False,)])) == 1
    assert len(bill(UPKEEP.deregister.script("node"))) == 1
    assert len(bill(UPKEEP.reroute.script(100), [(0, 0, None)])) == 1


def test_pruning_asks_only_for_what_may_be_removed() -> None:
    kept = Retention(
        done=None, failures=None, dead=None, parked=None, audit=None, inbox=None, leases=None, cursors=None
    )

    statements = bill(UPKEEP.prune.script(kept, 100), [(0, False)], [], [], *[[(0,)]] * 4, [], [])

    assert [each.sql for each in statements] == [
        NAMES.sql("prune_messages"),
        NAMES.sql("prune_workers"),
        NAMES.sql("prune_declarations"),
        NAMES.sql("prune_progress"),
        NAMES.sql("unique_prune"),
        NAMES.sql("measure_merge"),
        NAMES.sql("prune_measures"),
        NAMES.sql("prune_bells"),
        NAMES.sql("prune_spent"),
    ]


def test_a_chore_alone_asks_for_nothing_else() -> None:
    statements = bill(UPKEEP.prune.script(Retention(), 100, chore="inbox"), [(7,)])

    assert [each.sql for each in statements] == [NAMES.sql("prune_inbox")]


def test_a_stretch_of_topics_says_where_to_go_on() -> None:
    day = timedelta(days=1)
    kept = Retention(topics={"orders.*": {"dead": day}})
    there = [(f"orders.{number:04}", 2 * day if number < 3 else day) for number in range(STRETCH)]

    def prune(*answers: Sequence[Row]) -> Pruned:
        return run(
            Recorder(there, *answers),
            UPKEEP.prune.script(kept, 100, None, "dead", "orders"),
        )

    assert prune([(1,)], [(1,)], [(1,)]) == Pruned(dead=3, last="orders.0999")
    assert prune([(1,)], [(99,)]) == Pruned(dead=100, last="orders.0000")
    assert prune([(100,)]) == Pruned(dead=100, last="orders")


def test_only_topics_with_something_over_are_pruned_one_by_one() -> None:
    day = timedelta(days=1)
    kept = Retention(done=None, failures=None, dead=None, parked=None, topics={"orders.*": {"dead": day}})
    there = [("orders.new", day), ("orders.old", 2 * day), ("orders.older", 3 * day), ("users", 3 * day)]

    statements = bill(UPKEEP.prune.script(kept, 100, "#"), there, [(30,)], [(70,)])

    assert [(each.sql, *each.args) for each in statements] == [
        (NAMES.sql("topics_dead"), None, "", STRETCH),
        (NAMES.sql("prune_dead"), day, 100, None, "orders.old"),
        (NAMES.sql("prune_dead"), day, 70, None, "orders.older"),
    ]


def test_operators_pay_one_trip_and_a_replacement_is_a_transaction() -> None:
    controls = PostgresControls(NAMES, Nowhere(), HandSet())
    draft = Draft(UUID(int=1), "orders", b"{}", group="mail")

    assert len(bill(controls.pause.script("mail", "ann", "why"))) == 1
    assert len(bill(controls.resume.script("mail", "ann"))) == 1
    assert len(bill(controls.revive.script(DeadSelection(), "ann", 10), [(0,)])) == 1
    assert len(bill(controls.discard.script(DeadSelection(), "ann", 10), [(0,)])) == 1
    assert len(bill(controls.run_now.script(((UUID(int=1), "mail"),), "ann"), [(0,)])) == 1
    assert len(bill(controls.cancel.script(((UUID(int=1), "mail"),), "ann", "why"), [(0, 0)])) == 1
    assert len(bill(controls.release.script("mail", "ann", 10, None), [(0, 0, 0, None, None)])) == 1
    assert len(bill(controls.drain.script("node", "ann", "why"))) == 1
    statements = bill(controls.replace.script(uuid4(), "mail", "ann", draft), [(1,)])
    assert [type(each) is Opening for each in statements] == [True, False, False]


def test_a_page_is_looked_for_and_read() -> None:
    ledger = PostgresLedger(NAMES, Nowhere(), HandSet())

    plain = bill(ledger.browse.script(Filter()), [(3, 1, [3, 2, 1])], [])
    rare = bill(ledger.browse.script(Filter(group="mail")), [(2, [2, 1])], [])
    many = bill(ledger.browse.script(Filter(group="mail")), [(20_001, [])], [(0, None, [])])

    assert [each.sql for each in plain] == [NAMES.sql("scan_live"), NAMES.sql("browse_live")]
    assert [each.sql for each in rare] == [NAMES.sql("via_index_live"), NAMES.sql("browse_live")]
    assert [each.sql for each in many] == [NAMES.sql("via_index_live"), NAMES.sql("scan_live")]


def test_a_walk_takes_longer_steps_and_ends_where_the_filter_says() -> None:
    answers: list[Sequence[Row]] = []
    for first, last in ((9_999, 9_500), (9_499, 7_500), (7_499, 7_000)):
        answers += [[(first - last + 1, last, [])]]

    statements = bill(PostgresLedger(NAMES, Nowhere(), HandSet()).browse.script(Filter(scan=3_000)), *answers)

    walks = [each.args[:2] for each in statements if each.sql == NAMES.sql("scan_live")]
    assert walks == [(2**63 - 1, 500), (9_500, 2_000), (7_500, 500)]


def test_a_group_is_said_to_be_retired_only_when_it_has_gone() -> None:
    controls = PostgresControls(NAMES, Nowhere(), HandSet())

    # Two deliveries were seen, and settled by their holders before they could be dropped.
    statements = bill(controls.retire.script("mail", "ann", 10), [(0, 2)], [(0, 0)])

    assert len(statements) == 2


def test_a_hand_set_clock_is_the_last_parameter() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    mailbox = PostgresMailbox(NAMES, Nowhere(), HandSet(noon))

    [statement] = bill(mailbox.claim.script([ClaimRequest("mail", 1, ALL_LEVELS)], "node", HOLD))

    assert statement.args[-1] == noon
