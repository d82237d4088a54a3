import asyncio
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Cancel, Cancelled, Context, Done, Mainspring, Snooze, exponential, intervals
from mainspring.model.errors import BadOption, Conflict, Misuse
from tests.integration.app.shop import Seen, eventually


@dataclass
class OrderPlaced:
    id: int


async def test_a_message_published_in_the_same_process_is_handled_at_once() -> None:
    app, seen = Mainspring("memory://", idle_poll="5m"), Seen[int]()
    app.message("orders.placed")(OrderPlaced)

    @app.consumer(OrderPlaced)
    async def receipts(order: OrderPlaced) -> None:
        seen.add(order.id)

    async with app.worker() as worker:
        assert worker.ready
        await app.publish_many([OrderPlaced(number) for number in range(100)])

        assert sorted(await seen.count(100)) == list(range(100))


async def test_a_plain_function_runs_in_a_thread() -> None:
    app, seen = Mainspring("memory://"), Seen[str]()

    @app.consumer("a")
    def handler(value: int) -> None:
        seen.add(threading.current_thread().name)

    async with app.worker():
        await app.publish("a", 1)

        assert await seen.count(1) != [threading.current_thread().name]


async def test_every_group_gets_its_own_copy() -> None:
    app, seen = Mainspring("memory://"), Seen[tuple[str, str]]()

    @app.consumer("orders.*")
    async def one(value: Any, ctx: Context) -> None:
        seen.add((ctx.group, ctx.topic))

    @app.consumer("orders.#", "orders.placed", group="two")
    def other(value: Any, ctx: Context) -> None:
        seen.add((ctx.group, ctx.topic))

    async with app.worker():
        await app.publish("orders.placed", 1)

        assert sorted(await seen.count(2)) == [("one", "orders.placed"), ("two", "orders.placed")]


async def test_a_message_sent_straight_reaches_one_consumer_only() -> None:
    app, seen = Mainspring("memory://"), Seen[str]()

    @app.consumer("a")
    async def first(value: int) -> None:
        seen.add("first")

    @app.consumer("a")
    async def second(value: int) -> None:
        seen.add("second")

    async with app.worker():
        await first.send(1)
        await second.send(1)
        await second.send(1)

        assert sorted(await seen.count(3)) == ["first", "second", "second"]


async def test_handlers_without_a_payload_are_sent_nothing() -> None:
    app, seen = Mainspring("memory://"), Seen[str]()

    @app.consumer("a")
    async def bare() -> None:
        seen.add("bare")

    @app.consumer("b")
    async def knowing(ctx: Context) -> None:
        seen.add(ctx.topic)

    async with app.worker():
        await bare.send()
        await knowing.send()

        assert sorted(await seen.count(2)) == ["b", "bare"]


async def test_a_failure_is_tried_again_and_the_attempts_are_told() -> None:
    app, seen = Mainspring("memory://"), Seen[int]()

    @app.consumer("a", retry=intervals(0, 0))
    async def flaky(value: int, ctx: Context) -> None:
        seen.add(ctx.attempt)
        if ctx.attempt < 3:
            raise ConnectionError("down")

    async with app.worker():
        await app.publish("a", 1)

        assert await seen.count(3) == [1, 2, 3]


async def test_what_is_given_up_is_kept_and_can_be_revived() -> None:
    app, seen = Mainspring("memory://"), Seen[str]()

    @app.consumer("a", retry="none")
    async def fussy(value: str) -> None:
        if value == "bad":
            raise ValueError("no such customer")
        seen.add(value)

    async with app.worker():
        receipt = await app.publish("a", "bad")

        async def is_dead() -> bool:
            return await app.dead.get(receipt.id) is not None

        await eventually(is_dead)
        [letter] = await app.dead.list()
        assert letter.error == "ValueError: no such customer"
        assert await app.dead.revive(receipt.id, payload="good") == 1
        assert await seen.count(1) == ["good"]


async def test_an_unreadable_payload_ends_with_the_dead_letters() -> None:
    app, seen = Mainspring("memory://"), Seen[int]()

    @app.consumer("a", retry="none")
    async def typed(order: OrderPlaced) -> None:
        seen.add(order.id)

    async with app.worker():
        await app.publish("a", {"id": "seven"}, validate=False)
        await app.publish("a", {"id": 8})

        async def is_dead() -> bool:
            return bool(await app.dead.list())

        await eventually(is_dead)
        [letter] = await app.dead.list()
        assert letter.error is not None
        assert "the payload is not OrderPlaced: Expected `int`, got `str` - at `$.id`" in letter.error
        assert await seen.count(1) == [8]


async def test_outcomes_are_return_values() -> None:
    app, seen = Mainspring("memory://", keep="all"), Seen[str]()

    @app.consumer("a")
    async def deciding(value: str, ctx: Context) -> Done | Snooze | Cancel:
        seen.add(value)
        match value:
            case "done":
                return Done("42 rows")
            case "snooze":
                return Snooze("1h", "not yet")
            case _:
                return Cancel("obsolete")

    async with app.worker():
        receipts = {value: await app.publish("a", value) for value in ("done", "snooze", "cancel")}
        await seen.count(3)

        async def are_settled() -> bool:
            return len(await app.messages.runs("deciding")) == 3

        await eventually(are_settled)
        runs = {run.message_id: run for run in await app.messages.runs("deciding")}
        assert (runs[receipts["done"].id].status, runs[receipts["done"].id].output) == ("done", "42 rows")
        assert runs[receipts["snooze"].id].status == "snoozed"
        assert (runs[receipts["cancel"].id].status, runs[receipts["cancel"].id].error) == ("cancelled", "obsolete")
        [snoozed] = await app.messages.list("scheduled")
        assert snoozed.attempt == 0


async def test_a_handlers_publish_carries_the_correlation_on() -> None:
    app, seen = Mainspring("memory://"), Seen[tuple[Any, ...]]()

    @app.consumer("first")
    async def first(value: int, ctx: Context) -> None:
        await ctx.publish("second", value + 1)

    @app.consumer("second")
    async def second(value: int, ctx: Context) -> None:
        seen.add((value, ctx.correlation_id, ctx.causation_id))

    async with app.worker():
        receipt = await app.publish("first", 1)
        await app.publish("first", 2, correlation_id="cart-7")
        found = await seen.count(2)

    assert (2, str(receipt.id), receipt.id) in found
    assert (3, "cart-7") in [each[:2] for each in found]


async def test_a_running_handler_is_asked_to_stop() -> None:
    app, started, stopped = Mainspring("memory://", claim_time="2s"), Seen[int](), Seen[bool]()

    @app.consumer("a")
    def patient(value: int, ctx: Context) -> None:
        started.add(value)
        stopped.add(ctx.wait_cancelled("20s"))

    async with app.worker():
        receipt = await app.publish("a", 1)
        await started.count(1)

        assert await app.cancel(receipt) == Cancelled(cancelled=0, asked=1)
        assert await stopped.count(1) == [True]


async def test_a_time_limit_is_known_to_the_handler() -> None:
    app, seen = Mainspring("memory://"), Seen[Any]()

    @app.consumer("a", timeout="5m")
    async def limited(value: int, ctx: Context) -> None:
        seen.add(ctx.remaining)

    async with app.worker():
        await app.publish("a", 1)
        [remaining] = await seen.count(1)

    assert timedelta(minutes=4) < remaining <= timedelta(minutes=5)


async def test_a_worker_can_serve_some_groups_only() -> None:
    app, seen = Mainspring("memory://"), Seen[str]()

    @app.consumer("a")
    async def one(value: int) -> None:
        seen.add("one")

    @app.consumer("a")
    async def two(value: int) -> None:
        seen.add("two")

    await app.declare()
    async with app.worker(groups=["one"]):
        await app.publish("a", 1)
        await seen.count(1)
        [waiting] = await app.messages.list("ready")
        assert waiting.group == "two"
    with pytest.raises(BadOption) as refused:
        async with app.worker(groups=["tow"]):
            pass
    assert str(refused.value) == "no consumer has group 'tow'. Did you mean 'two'? There are: one, two"


async def test_a_worker_without_consumers_is_refused() -> None:
    with pytest.raises(Misuse) as refused:
        async with Mainspring("memory://").worker():
            pass

    assert str(refused.value) == (
        "no consumer is registered: write @app.consumer(…), or app.include() the module that does"
    )


async def test_a_consumer_cannot_join_a_running_worker() -> None:
    app = Mainspring("memory://")

    @app.consumer("a")
    async def early(value: int) -> None: ...

    async with app.worker():
        with pytest.raises(Misuse) as refused:

            @app.consumer("b")
            async def late(value: int) -> None: ...

    assert str(refused.value) == (
        "a consumer was registered while a worker runs: import its module before app.worker()"
    )


async def test_health_knows_the_worker_of_this_process() -> None:
    app = Mainspring("memory://")

    @app.consumer("a")
    async def handler(value: int) -> None: ...

    async with app.worker():

        async def is_reported() -> bool:
            return bool((await app.stats.roster()).workers)

        await eventually(is_reported)
        found = await app.health()
    assert found.status == "healthy"
    assert found.checks[0].name == "worker"
    assert found.checks[0].summary == "every loop progresses"


async def test_stopping_hands_back_what_has_not_ended_within_the_grace() -> None:
    app, started = Mainspring("memory://", grace="0s"), Seen[int]()

    @app.consumer("a", retry=exponential())
    async def endless(value: int, ctx: Context) -> None:
        started.add(ctx.attempt)
        await asyncio.Event().wait()

    async with app:
        async with app.worker():
            await app.publish("a", 1)
            await started.count(1)
        [row] = await app.messages.list("ready")

    assert row.attempt == 0


async def test_a_group_of_another_app_is_a_conflict(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    shop, depot = Mainspring(url, name="shop"), Mainspring(url, name="depot")

    @shop.consumer("a", group="receipts")
    async def ours(value: int) -> None: ...

    @depot.consumer("a", group="receipts")
    async def theirs(value: int) -> None: ...

    await shop.declare()

    with pytest.raises(Conflict, match="group 'receipts' belongs to app 'shop'"):
        async with depot.worker():
            pass
