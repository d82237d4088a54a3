"""Queues and lost claims: who comes late is told, and what its holder died with is taken over one at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring, Queue, Testing, errors

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass
class Invoice:
    number: int


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring("memory://", name="shop", namespace="test")
    app.message("invoices.due")(Invoice)
    return app


@pytest.fixture
def kit(app: Mainspring) -> Iterator[Testing]:
    with app.testing(start=NOON) as kit:
        yield kit


@pytest.fixture
def queue(app: Mainspring, kit: Testing) -> Queue[Any]:
    return app.queue("billing", "invoices.*", "notes.#", keep="all")


async def test_a_lost_claim_settles_nothing_and_its_neighbours_are_settled(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    await app.publish(Invoice(2))
    first, second = await queue.claim()
    kit.elapse("30s")
    await queue.extend(second)
    kit.elapse("30s")
    taken = await queue.reap()
    assert taken is not None

    with pytest.raises(errors.ClaimLost, match=f"the claim on message {first.message_id} is lost") as raised:
        await queue.ack(first, second)

    assert (raised.value.lost, raised.value.settled) == ((first,), (second,))
    assert taken.message_id == first.message_id
    assert (await queue.ack(taken)).settled == (taken,)
    assert await app.messages.list() == []


@pytest.mark.parametrize("verb", ["ack", "abandon", "fail"])
async def test_who_comes_late_is_told_even_if_the_other_has_finished(
    app: Mainspring, kit: Testing, queue: Queue[Any], verb: str
) -> None:
    await app.publish(Invoice(1))
    [item] = await queue.claim()
    kit.elapse("1m")
    await queue.ack(*filter(None, [await queue.reap()]))

    with pytest.raises(errors.ClaimLost):
        await getattr(queue, verb)(item, **({"error": "late"} if verb == "fail" else {}))


async def test_a_claim_that_lapsed_and_that_nobody_took_still_settles(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    [item] = await queue.claim()
    kit.elapse("1h")

    assert (await queue.ack(item)).settled == (item,)


async def test_a_settle_whose_answer_was_lost_may_be_sent_again(
    app: Mainspring, kit: Testing, queue: Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.publish(Invoice(1))
    [item] = await queue.claim()
    mailbox = (await app._connection.storage("a test")).mailbox
    settle = mailbox.settle

    async def cut_off(settlements: Any, owner: str) -> Any:
        await settle(settlements, owner)
        raise errors.StorageUnavailable("the line broke")

    with monkeypatch.context() as broken:
        broken.setattr(mailbox, "settle", cut_off)
        with pytest.raises(errors.StorageUnavailable):
            await queue.ack(item)
    answer = await queue.ack(item)

    assert (answer.settled, answer.gone) == ((), (item,))


async def test_what_was_claimed_already_is_given_though_the_line_broke_behind_it(
    app: Mainspring, kit: Testing, queue: Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await app.publish(Invoice(number))
    await queue.ack(*await queue.claim(1))  # from here on it knows where to begin
    mailbox = (await app._connection.storage("a test")).mailbox
    claims, claim = 0, mailbox.claim

    async def cut_off(*asked: Any) -> Any:
        nonlocal claims
        claims += 1
        if claims > 1:
            raise errors.StorageUnavailable("the line broke")
        return await claim(*asked)

    monkeypatch.setattr(mailbox, "claim", cut_off)
    items = await queue.claim(10)

    assert (claims, len(items)) == (2, 2)
    with pytest.raises(errors.StorageUnavailable):
        await queue.claim(10)


async def test_extending_tells_what_was_lost_and_what_was_cancelled(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    for number in range(4):
        await app.publish(Invoice(number))
    lost, kept, cancelled, done = await queue.claim()
    kit.elapse("30s")
    await queue.extend(kept, cancelled, done, hold="2m")
    kit.elapse("30s")
    assert await queue.reap() is not None
    await app.cancel(cancelled.message_id)
    await queue.ack(done)

    answer = await queue.extend(lost, kept, cancelled, done, hold="5m")

    assert (answer.extended, answer.asked) == ((kept, cancelled), (cancelled,))
    assert (answer.lost, answer.busy) == ((lost,), ())
    assert kept.held_until == kit.now + timedelta(minutes=5)
    await queue.abandon(cancelled)
    [run] = [run for run in await app.messages.runs("billing") if run.message_id == cancelled.message_id]
    assert run.status == "cancelled"


# --- the dead ----------------------------------------------------------------------------------------------


async def test_suspects_come_one_after_the_other_and_only_they_die(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    await app.publish(Invoice(2))
    await queue.claim()
    assert await queue.reap() is None
    kit.elapse("1m")

    first = await queue.reap()
    assert first is not None
    assert (first.suspect, first.attempt, await queue.reap()) == (True, 2, None)
    await queue.ack(first)
    second = await queue.reap()
    assert second is not None
    assert second.payload == Invoice(2)


async def test_a_suspect_that_has_been_in_hand_for_a_while_lets_the_next_one_come(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    await app.publish(Invoice(2))
    await queue.claim()
    kit.elapse("1m")

    await queue.reap()
    at_once = await queue.reap()
    kit.elapse("1s")
    later = await queue.reap()

    assert at_once is None
    assert later is not None
    assert later.payload == Invoice(2)


async def test_a_suspect_of_one_queue_is_in_no_other_queues_way_unless_it_has_cost_a_process(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    other = app.queue("auditing", "invoices.*")
    await queue.declare()
    await other.declare()
    await app.publish(Invoice(1))
    await queue.claim()
    await other.claim()
    kit.elapse("1m")

    first, theirs = await queue.reap(), await other.reap()
    kit.elapse("1m")
    again, beside = await queue.reap(), await other.reap()
    assert again is not None
    await queue.ack(again)
    after = await other.reap()

    assert first is not None
    assert theirs is not None
    assert beside is None
    assert after is not None
    assert after.message_id == theirs.message_id


async def test_a_poisonous_message_is_buried_unread(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    await app.publish(Invoice(1))
    await queue.claim()
    deaths = 0
    while True:
        kit.elapse("1m")
        if await queue.reap() is None:
            break
        deaths += 1

    assert deaths == 3
    [dead] = await app.dead.list()
    assert dead.error is not None
    assert "3 worker processes died while holding it" in dead.error


async def test_a_suspect_that_was_cancelled_meanwhile_is_ended_and_the_next_one_given(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    await app.publish(Invoice(2))
    first, _ = await queue.claim()
    await app.cancel(first.message_id)
    kit.elapse("1m")

    suspect = await queue.reap()

    assert suspect is not None
    assert suspect.payload == Invoice(2)


async def test_what_is_settled_while_a_heartbeat_is_on_its_way_is_not_lost(
    app: Mainspring, kit: Testing, queue: Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.publish(Invoice(1))
    await app.publish(Invoice(2))
    done, kept = await queue.claim()
    mailbox = (await app._connection.storage("a test")).mailbox
    extend = mailbox.extend

    async def overtaken(*args: Any) -> Any:
        await queue.ack(done)
        return await extend(*args)

    monkeypatch.setattr(mailbox, "extend", overtaken)
    answer = await queue.extend(done, kept)

    assert (answer.extended, answer.lost) == ((kept,), ())
