"""Tokens of items: what is read back, what is refused, and what a process believes of what another settled."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Item, Mainspring, Queue, Testing, errors
from mainspring.app.queue.item import held
from mainspring.model.verdict import DONE, Settlement

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
PROPERTIES = [name for name, kind in vars(Item).items() if isinstance(kind, property)]


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
    return app.queue("billing", "invoices.*", keep="all", retry="30s")


async def claimed(app: Mainspring, queue: Queue[Any]) -> Item[Any]:
    await queue.declare()
    await app.publish(Invoice(1), key="k", headers={"a": "b"}, correlation_id="order:1")
    [item] = await queue.claim()
    return item


def changed(token: str, change: Callable[[list[Any]], object]) -> str:
    """The token with other fields, as another program might write it."""
    version, _, body = token.partition(".")
    fields = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    change(fields)
    return f"{version}.{base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip('=')}"


def put(place: int, value: object) -> Callable[[list[Any]], object]:
    return lambda fields: fields.__setitem__(place, value)


async def test_an_item_that_is_read_back_has_every_property_of_the_one_that_was_claimed(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    item = await claimed(app, queue)
    kit.elapse("20s")

    again = await queue.item(item.token)

    assert {name: getattr(again, name) for name in PROPERTIES} == {name: getattr(item, name) for name in PROPERTIES}
    assert again.payload == Invoice(1)


async def test_a_token_is_text_for_a_url_and_does_not_show_its_holder(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await claimed(app, queue)
    await app.publish(Invoice(2))
    [item] = await queue.claim(owner="ann@example.com")

    assert re.fullmatch(r"item1\.[A-Za-z0-9_-]+", item.token)
    assert b"ann" not in base64.urlsafe_b64decode(item.token.partition(".")[2] + "==")


async def test_what_is_read_back_is_extended_and_settled_as_what_was_claimed(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    item = await claimed(app, queue)
    kit.elapse("50s")
    again = await queue.item(item.token)

    kept = await queue.extend(again, hold="5m")
    kit.elapse("4m")
    later = await queue.item(item.token)
    answer = await queue.fail(later, error="no")

    assert (kept.extended, kept.lost) == ((again,), ())
    assert again.held_until == later.held_until == NOON + timedelta(minutes=5, seconds=50)
    assert answer.settled == (later,)
    [run] = await app.messages.runs("billing")
    assert (run.status, run.attempt) == ("failed", 1)
    assert run.finished_at - run.started_at == timedelta(minutes=4, seconds=50)  # from the claim on, not from the token
    [view] = await app.messages.list()
    assert (view.state, view.due_at) == ("scheduled", kit.now + timedelta(seconds=30))


async def test_what_has_lapsed_and_was_not_taken_over_is_still_read_back_and_settled(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    item = await claimed(app, queue)
    kit.elapse("1h")

    again = await queue.item(item.token)

    assert (await queue.ack(again)).settled == (again,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        7,
        None,
        "item1.",
        "item1.%%",
        "item1.abc",
        "item0.abc",
        "item01.abc",
        "item1." + base64.urlsafe_b64encode(b"[1]").decode(),
        "item1." + base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
async def test_text_that_is_no_token_is_refused(app: Mainspring, kit: Testing, queue: Queue[Any], text: Any) -> None:
    with pytest.raises(errors.BadOption, match=r"no token of an item: pass the whole text of item\.token"):
        await queue.item(text)


@pytest.mark.parametrize(
    "change",
    [
        put(2, -1),
        put(2, 2**63),
        put(3, 2**31),
        put(3, "1"),
        put(4, "no id"),
        put(6, "noon"),
        lambda each: each.append(1),
    ],
)
async def test_a_token_with_a_field_of_another_kind_is_refused(
    app: Mainspring, kit: Testing, queue: Queue[Any], change: Callable[[list[Any]], object]
) -> None:
    item = await claimed(app, queue)

    with pytest.raises(errors.BadOption, match="no token of an item"):
        await queue.item(changed(item.token, change))


async def test_a_token_that_was_cut_is_refused_and_not_shown(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    token = (await claimed(app, queue)).token

    with pytest.raises(errors.BadOption) as raised:
        await queue.item(token[:-9])

    assert token[:30] not in str(raised.value)


async def test_a_token_of_a_newer_release_says_what_to_upgrade(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    with pytest.raises(
        errors.BadOption, match=r"newer release .* version 2, and this process reads version 1: upgrade"
    ):
        await queue.item("item2.abc")


@pytest.mark.parametrize("forged", [False, True])
async def test_a_token_of_another_group_is_refused_also_where_it_names_this_one(
    app: Mainspring, kit: Testing, queue: Queue[Any], forged: bool
) -> None:
    other = app.queue("auditing", "invoices.*")
    await other.declare()
    await claimed(app, queue)
    [theirs] = await other.claim()
    token = changed(theirs.token, put(1, "billing")) if forged else theirs.token

    with pytest.raises(errors.BadOption, match=r"of the group 'auditing'.*write app\.queue\('auditing'\)\.item"):
        await queue.item(token)

    assert (await other.ack(theirs)).settled == (theirs,)


async def test_a_token_of_another_namespace_is_refused(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    item = await claimed(app, queue)
    other = Mainspring("memory://", name="shop", namespace="staging")
    with other.testing():
        elsewhere = other.queue("billing", "invoices.*")
        with pytest.raises(errors.BadOption, match=r"'mainspring-test', and this app uses 'mainspring-staging'"):
            await elsewhere.item(item.token)


@pytest.mark.parametrize("end", ["settled", "abandoned", "taken over"])
async def test_a_token_whose_claim_is_lost_raises_claim_lost(
    app: Mainspring, kit: Testing, queue: Queue[Any], end: str
) -> None:
    item = await claimed(app, queue)
    match end:
        case "settled":
            await queue.ack(item)
        case "abandoned":
            await queue.abandon(item, delay="0s")
            await queue.claim()
        case _:
            kit.elapse("1m")
            assert await queue.reap() is not None

    with pytest.raises(errors.ClaimLost, match=f"the claim on message {item.message_id} is lost.*drop the token"):
        await queue.item(item.token)


@pytest.mark.parametrize("place", [2, 3, 4, 5])
async def test_a_token_with_another_id_epoch_message_or_proof_reads_nothing_back(
    app: Mainspring, kit: Testing, queue: Queue[Any], place: int
) -> None:
    item, other = await claimed(app, queue), await claimed(app, queue)
    fields: list[Any] = []
    changed(other.token, fields.extend)

    with pytest.raises(errors.ClaimLost):
        await queue.item(changed(item.token, put(place, 2 if place == 3 else fields[place])))


async def test_what_was_settled_by_a_token_is_lost_to_the_item_that_was_claimed(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    item = await claimed(app, queue)
    await queue.ack(await queue.item(item.token))

    assert (await queue.extend(item)).lost == (item,)
    with pytest.raises(errors.ClaimLost):
        await queue.ack(item)


# --- suspects ----------------------------------------------------------------------------------------------


async def two_suspects(app: Mainspring, kit: Testing, queue: Queue[Any]) -> Item[Any]:
    """The first of two whose holder died twice: it has to run alone."""
    await claimed(app, queue)
    await claimed(app, queue)
    kit.elapse("1m")
    await queue.reap()
    kit.elapse("1s")
    await queue.reap()
    kit.elapse("1m")
    first = await queue.reap()
    assert first is not None
    return first


async def test_a_suspect_that_is_settled_by_its_token_in_this_process_lets_the_next_one_come(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    first = await two_suspects(app, kit, queue)
    assert await queue.reap() is None

    await queue.ack(await queue.item(first.token))

    second = await queue.reap()
    assert second is not None
    assert second.message_id != first.message_id


async def test_a_suspect_that_another_process_settled_lets_the_next_one_come_after_a_second(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    first = await two_suspects(app, kit, queue)
    mailbox = (await app._connection.storage("a test")).mailbox
    kit.elapse("1s")
    held_still = await queue.reap()
    await mailbox.settle([Settlement(first.claim, DONE)], held(first).owner)

    kit.elapse("999ms")
    early = await queue.reap()
    kit.elapse("1ms")
    in_time = await queue.reap()

    assert (held_still, early) == (None, None)
    assert in_time is not None
    assert in_time.message_id != first.message_id


async def test_a_suspect_whose_claim_has_another_holder_lets_the_next_one_come(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    first = await two_suspects(app, kit, queue)
    held(first).owner = "another"  # as if a promoted database had given the same claim to another process
    kit.elapse("1s")

    assert await queue.reap() is not None


async def test_a_suspect_that_another_process_settled_is_forgotten_at_the_next_heartbeat(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    first = await two_suspects(app, kit, queue)
    mailbox = (await app._connection.storage("a test")).mailbox
    await mailbox.settle([Settlement(first.claim, DONE)], held(first).owner)

    assert (await queue.extend(first)).lost == (first,)
    assert await queue.reap() is not None


@pytest.mark.parametrize("reads", [True, False])
async def test_a_process_that_has_read_back_a_suspect_takes_none_beside_it(
    app: Mainspring, kit: Testing, queue: Queue[Any], reads: bool
) -> None:
    first = await two_suspects(app, kit, queue)
    queue._runtime.queues.let_go([held(first)])  # as if another process had reaped it

    again = await queue.item(first.token) if reads else None
    beside = await queue.reap()

    assert (beside is None) == reads
    if again is not None:
        await queue.ack(again)
        assert await queue.reap() is not None
