"""``app.queue``: what a processor claims, and what becomes of it, on memory by a hand-turned clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import pytest

from mainspring import Item, Mainspring, Queue, Testing, errors, intervals

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


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


async def numbers(queue: Queue[Any], batch: int = 10) -> list[int]:
    return [item.payload.number for item in await queue.claim(batch)]


async def states(app: Mainspring) -> list[tuple[str, int]]:
    return [(each.state, each.attempt) for each in await app.messages.list()]


# --- claiming ----------------------------------------------------------------------------------------------


async def test_an_item_knows_what_its_handler_would(app: Mainspring, queue: Queue[Any]) -> None:
    receipt = await app.publish(Invoice(7), key="k", headers={"a": "b"}, correlation_id="c", delay="1m")
    kit_now = (await app.stats.tally()).now

    assert await queue.claim() == []
    [item] = await claimed_after(app, queue, MINUTE)

    assert (item.message_id, item.topic, item.group, item.key) == (receipt.id, "invoices.due", "billing", "k")
    assert (item.payload, item.body, item.content_type) == (Invoice(7), b'{"number":7}', "application/json")
    assert (dict(item.headers), item.correlation_id, item.causation_id) == ({"a": "b"}, "c", None)
    assert (item.attempt, item.suspect, item.claim.epoch) == (1, False, 1)
    assert (item.published_at, item.scheduled_for) == (kit_now, kit_now + MINUTE)
    assert item.held_until == kit_now + 2 * MINUTE
    assert repr(item) == f"<Item invoices.due {receipt.id} for billing, attempt 1>"


async def claimed_after(app: Mainspring, queue: Queue[Any], span: timedelta) -> list[Item[Any]]:
    clock: Any = app._code.clock._clock
    clock.advance(span)
    return await queue.claim()


async def test_the_urgent_come_first_then_the_earlier(app: Mainspring, queue: Queue[Any]) -> None:
    levels: list[Any] = ["low", "normal", "urgent", "high", "urgent"]
    for number, priority in enumerate(levels):
        await app.publish(Invoice(number), priority=priority)

    assert await numbers(queue, 2) == [2, 4]
    assert await numbers(queue) == [3, 1, 0]
    assert await numbers(queue) == []


async def test_no_level_starves_under_steady_urgent_load(app: Mainspring, queue: Queue[Any]) -> None:
    await app.publish(Invoice(-1), priority="low")
    taken: list[int] = []
    for number in range(8):
        await app.publish(Invoice(number), priority="urgent")
        taken += await numbers(queue, 1)

    assert -1 in taken


async def test_a_full_batch_is_one_trip(app: Mainspring, queue: Queue[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    await queue.declare()
    for number in range(6):
        await app.publish(Invoice(number))
    mailbox = (await app._connection.storage("a test")).mailbox
    claim, trips = mailbox.claim, 0

    async def counted(*args: Any) -> Any:
        nonlocal trips
        trips += 1
        return await claim(*args)

    monkeypatch.setattr(mailbox, "claim", counted)

    assert [len(await queue.claim(2)) for _ in range(3)] == [2, 2, 2]
    assert trips == 3


async def test_what_was_committed_late_is_found_behind_what_was_claimed_since(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    clock: Any = app._code.clock._clock
    await queue.declare()
    await app.publish(Invoice(1))
    await app.publish(Invoice(2))
    assert await numbers(queue, 1) == [1]
    clock.show(NOON - timedelta(hours=1))
    await app.publish(Invoice(3))
    clock.show(NOON)

    assert await numbers(queue) == [2, 3]


async def test_what_was_published_before_the_queue_was_made_is_routed_to_it(app: Mainspring, kit: Testing) -> None:
    await app.publish("orders.early", 1)

    assert [item.payload for item in await app.queue("late", "orders.*").claim()] == [1]


async def test_an_unreadable_payload_stops_none_of_its_neighbours(app: Mainspring, kit: Testing) -> None:
    queue = app.queue("typed", "notes.*", type=Invoice)
    await app.publish("notes.a", {"number": "seven"})
    await app.publish("notes.a", {"number": 7})

    bad, good = await queue.claim()

    assert_type(good.payload, Invoice)
    assert good.payload == Invoice(7)
    with pytest.raises(errors.Unreadable, match=f"message {bad.message_id} on 'notes.a', for typed: ") as raised:
        print(bad.payload)
    await queue.fail(bad, error=raised.value, retry="none")
    [dead] = await app.dead.list()
    assert dead.error is not None
    assert dead.error.startswith("Unreadable: message")


async def test_without_a_type_a_payload_is_read_as_its_topic_says(app: Mainspring, queue: Queue[Any]) -> None:
    await app.publish(Invoice(1))
    await app.publish("notes.some.where", {"number": 2})

    assert [item.payload for item in await queue.claim()] == [Invoice(1), {"number": 2}]


async def test_a_paused_group_gives_nothing(app: Mainspring, queue: Queue[Any]) -> None:
    await queue.declare()
    await app.publish(Invoice(1))
    await app.groups.pause("billing")

    assert (await queue.claim(), await queue.wait()) == ([], False)
    await app.groups.resume("billing")
    assert (await queue.wait(), await numbers(queue)) == (True, [1])


async def test_what_has_expired_is_cancelled_on_the_way(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    await queue.declare()
    for number in range(3):
        await app.publish(Invoice(number), expires="1m")
    await app.publish(Invoice(3))
    kit.elapse("2m")

    assert await numbers(queue, 2) == [3]
    assert [run.error for run in await app.messages.runs("billing")] == ["expired before it could run"] * 3


# --- settling ----------------------------------------------------------------------------------------------


async def test_what_is_acked_is_done_and_leaves_a_run(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    await app.publish(Invoice(1))
    [item] = await queue.claim(owner="robot")
    kit.elapse("3s")
    answer = await queue.ack(item, output="42 rows")

    assert (answer.settled, answer.gone) == ((item,), ())
    assert await app.messages.list() == []
    [run] = await app.messages.runs("billing")
    assert (run.status, run.output, run.node, run.attempt) == ("done", "42 rows", "robot", 1)
    assert run.finished_at - run.started_at == timedelta(seconds=3)


async def test_what_is_abandoned_comes_back_and_counts_no_attempt(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    for _ in range(3):
        [item] = await queue.claim()
        await queue.abandon(item, delay="1m", reason="the bank is closed")
        assert await queue.claim() == []
        kit.elapse("1m")

    [item] = await queue.claim()
    assert (item.attempt, item.claim.epoch) == (1, 4)
    runs = await app.messages.runs("billing")
    assert [(run.status, run.output) for run in runs] == [("snoozed", "the bank is closed")] * 3


async def test_occurrences_of_a_schedule_are_retried_and_buried_as_it_says(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.schedules.put("bill", "@hourly", topic="notes.bill", retry="30s")
    await app.schedules.put("remind", "@hourly", topic="notes.remind", retry="none", dead="all")
    await queue.claim()  # declares its group

    for _ in range(3):
        await kit.advance("1h")
        for item in await queue.claim(10):
            await queue.fail(item, error=ValueError("the bank said no"))
        waiting = [(view.topic, view.due_at - kit.now) for view in await app.messages.list("scheduled")]
        assert waiting == [("notes.bill", timedelta(seconds=30))]
        kit.elapse("30s")
        [again] = await queue.claim(10)
        await queue.fail(again, error=ValueError("the bank said no"))

    dead = sorted((letter.topic, letter.repeats) for letter in await app.dead.list())
    assert dead == [("notes.bill", 2), *[("notes.remind", 0)] * 3]


async def test_what_fails_is_tried_again_by_the_policy_and_then_buried(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    await app.publish(Invoice(1))
    twice = intervals(60)
    [item] = await queue.claim()
    await queue.fail(item, error=ValueError("the bank said no"), retry=twice)
    assert await states(app) == [("scheduled", 1)]
    kit.elapse("1m")
    [item] = await queue.claim()
    await queue.fail(item, error="the bank said no again", retry=twice)

    assert item.attempt == 2
    assert await app.messages.list() == []
    [dead] = await app.dead.list()
    assert (dead.error, dead.attempt) == ("the bank said no again", 2)
    shown = await app.dead.get(item.message_id)
    assert shown is not None
    assert [run.error for run in shown.runs] == ["ValueError: the bank said no", "the bank said no again"]


async def test_a_policy_of_the_queue_says_which_errors_are_worth_it(app: Mainspring, kit: Testing) -> None:
    queue = app.queue("careful", "notes.*", retry=intervals(1, 1, give_up_on=(KeyError,)))
    for number in range(3):
        await app.publish("notes.a", number)
    first, second, third = await queue.claim()
    await queue.fail(first, error=KeyError("x"))
    await queue.fail(second, error=OSError("x"))
    await queue.fail(third, error="in words")

    assert [each.message_id for each in await app.dead.list()] == [first.message_id]
    assert {each.message_id for each in await app.messages.list()} == {second.message_id, third.message_id}


async def test_a_batch_is_settled_as_one_and_nothing_at_all_is_well(app: Mainspring, queue: Queue[Any]) -> None:
    for number in range(5):
        await app.publish(Invoice(number))
    items = await queue.claim()

    assert (await queue.ack(*items)).settled == tuple(items)
    assert (await queue.ack()).settled == ()
    assert (await queue.extend()).extended == ()


async def test_runs_are_counted_and_the_group_counts_as_served(
    app: Mainspring, kit: Testing, queue: Queue[Any]
) -> None:
    for number in range(3):
        await app.publish(Invoice(number))
    first, *rest = await queue.claim()
    await queue.fail(first, error="no", retry="none")
    await queue.ack(*rest)
    kit.elapse("10s")
    await queue.claim()

    [counts] = (await app.stats.tally()).groups
    assert (counts.handled, counts.failed) == (2, 1)
    [group] = await app.groups.list()
    assert (group.name, group.patterns, group.handler) == ("billing", ("invoices.*", "notes.#"), "app.queue('billing')")
    assert group.served_at is not None
    health = await app.health()
    assert [check.name for check in health.checks if check.status != "healthy"] == ["dead"]


async def test_without_history_nothing_is_kept_of_a_success(app: Mainspring, kit: Testing) -> None:
    queue = app.queue("brief", "notes.*", keep="none")
    await app.publish("notes.a", 1)
    await queue.fail(*await queue.claim(), error="no", retry=intervals(0))
    await queue.ack(*await queue.claim())

    assert await app.messages.runs("brief") == []


# --- one after another -------------------------------------------------------------------------------------


async def test_items_come_one_by_one_the_lapsed_first(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    await app.publish(Invoice(1))
    await queue.claim()
    await app.publish(Invoice(2))
    kit.elapse("1m")
    seen = []
    async for item in queue.items():
        seen.append((item.payload.number, item.suspect))
        await queue.ack(item)

    assert seen == [(1, True), (2, False)]


def test_blocking_code_has_the_same_queue(app: Mainspring, kit: Testing) -> None:
    queue = app.sync.queue("billing", Invoice, type=Invoice)
    queue.declare()
    for number in range(4):
        app.sync.publish(Invoice(number))

    first, second = queue.claim(2)
    assert_type(first, Item[Invoice])
    assert queue.extend(first, second).extended == (first, second)
    queue.ack(first)
    queue.abandon(second, delay="0s")
    rest = []
    for item in queue.items():
        rest.append(item.payload.number)
        queue.fail(item, error="no", retry="none") if item.payload.number == 3 else queue.ack(item)
    assert (rest, queue.wait(), queue.reap()) == ([1, 2, 3], False, None)
    assert (queue.group, queue.topics) == ("billing", ("invoices.due",))
    assert repr(queue) == "<SyncQueue 'billing' of invoices.due>"


async def test_a_join_is_told_of_members_that_a_queue_settles(app: Mainspring, kit: Testing) -> None:
    done: list[str] = []

    @app.consumer("albums", group="album")
    async def album() -> None:
        done.append("album")

    @app.consumer("photos", group="resize")
    async def resize(photo: int) -> None: ...

    # The members go to a group that another app of the same name serves by hand.
    await app.join([(resize, 1)], then=album)
    other = Mainspring("memory://", name="shop", namespace="test")
    other._connection.replace(app._connection.stand_in)
    other._code.clock.replace(app._code.clock)
    hands = other.queue("resize")
    await hands.ack(*await hands.claim())
    await kit.drain()

    assert done == ["album"]
