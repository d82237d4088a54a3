"""Dead letters: kept with every error until someone revives, replaces or discards them."""

from uuid import uuid4

import pytest

from mainspring.model.message import REPLAYED, Priority
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import DONE, Bury, Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    NOW,
    TICK,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    hold_one,
    ids,
    listed,
    publish,
    reap,
    settle,
    statuses,
    the_copy,
    turn,
)


async def test_a_revived_dead_letter_has_a_fresh_life_under_its_old_seq(storage: Storage) -> None:
    one = draft(group="mailer", key="k", priority=Priority.HIGH)
    held = await hold_one(storage, one=one)
    for minutes in (1, 2):
        turn(storage, minutes * MINUTE)
        held = await reap(storage) or held
    await storage.mailbox.cancel(one.id, "obsolete")
    await settle(storage, held, Bury(failure()))

    turn(storage, HOUR)
    revived = await storage.controls.revive(DeadSelection(), "ann", 10)

    assert revived == 1
    copy = await the_copy(storage, one.id)
    assert (copy.state, copy.seq, copy.key, copy.priority) == ("ready", held.id, "k", Priority.HIGH)
    assert (copy.attempt, copy.deaths, copy.cancel_asked) == (0, 0, False)
    assert (copy.due_at, copy.scheduled_for, copy.published_at) == (NOON + HOUR, NOON, NOON)
    again = await claim_one(storage)
    assert (again.epoch, again.attempt, again.suspect) == (REPLAYED + 1, 1, False)
    assert await listed(storage, "dead") == []


async def test_a_revived_dead_letter_keeps_its_history_and_can_die_again(storage: Storage) -> None:
    buried = await bury_one(storage, error="first death")
    await storage.controls.revive(DeadSelection(), "ann", 10)

    await settle(storage, await claim_one(storage), Bury(failure("second death")))

    assert await statuses(storage, buried.message_id) == ["dead", "dead"]
    assert (await the_copy(storage, buried.message_id)).error == "second death"


async def test_a_revived_dead_letter_can_be_handled(storage: Storage) -> None:
    buried = await bury_one(storage)
    await storage.controls.revive(DeadSelection(message_id=buried.message_id), "ann", 10)

    await settle(storage, await claim_one(storage), DONE)

    assert (await found(storage, buried.message_id)).deliveries == ()


async def test_dead_letters_are_revived_oldest_first_up_to_the_limit(storage: Storage) -> None:
    buried = [await bury_one(storage) for _ in range(5)]

    assert await storage.controls.revive(DeadSelection(), "ann", 2) == 2
    assert ids(await claim(storage)) == [buried[0].message_id, buried[1].message_id]
    assert await storage.controls.revive(DeadSelection(), "ann", 10) == 3
    assert await storage.controls.revive(DeadSelection(), "ann", 10) == 0


async def test_a_selection_means_what_matches_every_field_given(storage: Storage) -> None:
    first = await bury_one(storage, "mailer", "Timeout after 5s", draft("orders.placed", group="mailer"))
    second = await bury_one(storage, "mailer", "disk full: 100%", draft("orders.paid", group="mailer"))
    third = await bury_one(storage, "analytics", "timeout", draft("orders.placed", group="analytics"))

    chosen = {
        DeadSelection(message_id=first.message_id): {first},
        DeadSelection(message_id=first.message_id, group="analytics"): set(),
        DeadSelection(group="mailer"): {first, second},
        DeadSelection(topic="orders.placed"): {first, third},
        DeadSelection(topic="orders.placed", group="mailer"): {first},
        DeadSelection(error="TIMEOUT"): {first, third},
        DeadSelection(error="100%"): {second},
        DeadSelection(error="%"): {second},
        DeadSelection(error="_"): set(),
        DeadSelection(): {first, second, third},
    }
    for selection, expected in chosen.items():
        assert await storage.controls.revive(selection, "ann", 10) == len(expected), selection
        for delivery in await claim(storage, "mailer") + await claim(storage, "analytics"):
            assert delivery.id in {each.id for each in expected}, selection
            error = next(each for each in (first, second, third) if each.id == delivery.id)
            text = {first: "Timeout after 5s", second: "disk full: 100%", third: "timeout"}[error]
            await settle(storage, delivery, Bury(failure(text)))


async def test_a_message_is_revived_for_the_group_where_it_died_alone(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    message = draft()
    await publish(storage, message)
    for group in ("mailer", "analytics"):
        await settle(storage, await claim_one(storage, group), Bury(failure()))

    revived = await storage.controls.revive(DeadSelection(message_id=message.id, group="mailer"), "ann", 10)

    assert revived == 1
    views = {view.group: view.state for view in (await found(storage, message.id)).deliveries}
    assert views == {"mailer": "ready", "analytics": "dead"}


async def test_a_discarded_dead_letter_is_gone_and_its_history_stays(storage: Storage) -> None:
    buried, other = await bury_one(storage, "mailer"), await bury_one(storage, "analytics")

    discarded = await storage.controls.discard(DeadSelection(group="mailer"), "ann", 10)

    assert discarded == 1
    assert await listed(storage, "dead") == [other.message_id]
    assert (await found(storage, buried.message_id)).deliveries == ()
    assert await statuses(storage, buried.message_id) == ["dead"]


async def test_dead_letters_are_discarded_oldest_first_up_to_the_limit(storage: Storage) -> None:
    buried = [await bury_one(storage) for _ in range(3)]

    first = await storage.controls.discard(DeadSelection(), "ann", 2)

    assert first == 2
    assert await listed(storage, "dead") == [buried[2].message_id]
    assert await storage.controls.discard(DeadSelection(), "ann", 2) == 1
    assert await storage.controls.discard(DeadSelection(), "ann", 2) == 0


async def test_a_dead_letter_is_replaced_by_another_payload(storage: Storage) -> None:
    await declare(storage, "analytics")
    buried = await bury_one(storage, "mailer")
    better = draft(group="mailer", payload=b"better", key="k")

    turn(storage, MINUTE)
    replaced = await storage.controls.replace(buried.message_id, "mailer", "ann", better)

    assert replaced is True
    assert await listed(storage, "dead") == []
    assert (await found(storage, buried.message_id)).deliveries == ()
    delivery = await claim_one(storage, "mailer")
    assert (delivery.message_id, delivery.payload, delivery.key) == (better.id, b"better", "k")
    assert (delivery.attempt, delivery.epoch) == (1, REPLAYED + 1)
    assert delivery.due_at == delivery.published_at == NOON + MINUTE
    assert await claim(storage, "analytics") == []


async def test_only_a_dead_letter_of_that_group_can_be_replaced(storage: Storage) -> None:
    buried = await bury_one(storage, "mailer")
    better = draft(group="mailer")

    assert await storage.controls.replace(buried.message_id, "analytics", "ann", better) is False
    assert await storage.controls.replace(uuid4(), "mailer", "ann", better) is False
    assert await storage.ledger.find(better.id) is None
    assert await listed(storage, "dead") == [buried.message_id]


async def test_reviving_replacing_and_discarding_are_audited_once_per_call(storage: Storage) -> None:
    for _ in range(3):
        await bury_one(storage)
    last = await bury_one(storage)

    await storage.controls.discard(DeadSelection(group="mailer"), "ann", 1)
    await storage.controls.revive(DeadSelection(group="mailer"), "bob", 2)
    await storage.controls.replace(last.message_id, "mailer", "cid", draft(group="mailer"))

    replaced, revived, discarded = await storage.ledger.audit(None, 10)
    assert (discarded.by, discarded.action) == ("ann", "discard")
    assert "mailer" in discarded.subject
    assert "1" in discarded.detail
    assert (revived.by, revived.action) == ("bob", "revive")
    assert "2" in revived.detail
    assert (replaced.by, replaced.action) == ("cid", "replace")
    assert str(last.message_id) in replaced.subject


async def test_what_changed_nothing_is_not_audited(storage: Storage) -> None:
    await storage.controls.revive(DeadSelection(), "ann", 10)
    await storage.controls.discard(DeadSelection(), "ann", 10)
    await storage.controls.replace(uuid4(), "mailer", "ann", draft(group="mailer"))

    assert await storage.ledger.audit(None, 10) == []


async def test_errors_are_read_back_as_they_were_written(storage: Storage) -> None:
    error, trace = "naïve “quotes” 'single' \"double\" 日本 \\ %s $1 ?", 'File "x.py"\n\tline 1\n' * 200
    held = await hold_one(storage)
    await settle(storage, held, Retry(NOW, failure(error, "unreadable", trace)))

    await settle(storage, await claim_one(storage), Bury(failure(error, "timeout", trace)))

    runs = (await found(storage, held.message_id)).runs
    assert [(run.kind, run.error, run.traceback) for run in runs] == [
        ("unreadable", error, trace),
        ("timeout", error, trace),
    ]
    (dead,) = (await storage.ledger.browse(Filter(state="dead"))).rows
    assert dead.error == error


async def test_a_nul_in_an_error_does_not_stop_its_settle(storage: Storage) -> None:
    held = await hold_one(storage)

    await settle(storage, held, Bury(failure("a\x00b", traceback="c\x00d")))

    (run,) = (await found(storage, held.message_id)).runs
    assert (run.error, run.traceback) == ("a\\x00b", "c\\x00d")
    for sought in ("a", "b"):
        assert len((await storage.ledger.browse(Filter("dead", error=sought))).rows) == 1


@pytest.mark.psycopg
async def test_the_dead_letters_of_the_last_hour_are_counted_by_group(storage: Storage) -> None:
    await bury_one(storage, "mailer")
    turn(storage, MINUTE)
    for group in ("mailer", "mailer", "billing"):
        await bury_one(storage, group)
    turn(storage, HOUR + TICK)

    assert await storage.ledger.buried(HOUR, 100) == {"billing": 1, "mailer": 2}
    assert await storage.ledger.buried(2 * HOUR, 100) == {"billing": 1, "mailer": 3}
    assert sum((await storage.ledger.buried(2 * HOUR, 2)).values()) == 2
    assert await storage.ledger.buried(MINUTE, 100) == {}
