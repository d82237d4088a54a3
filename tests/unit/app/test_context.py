import asyncio
import threading
from datetime import timedelta

import pytest

from mainspring.app.consume.context import Context
from mainspring.app.message.envelope import MISSING
from mainspring.model.errors import Misuse
from mainspring.model.message import Receipt
from tests.unit.app.stage import CAUSE, MESSAGE, NOON, Desk, delivery, running


def test_a_context_shows_what_was_delivered() -> None:
    held = delivery(
        topic="orders.placed",
        group="receipts",
        key="order:1",
        correlation_id="cart-7",
        causation_id=CAUSE,
        headers={"tenant": "a"},
        attempt=2,
        scheduled_for=NOON + timedelta(hours=1),
    )

    ctx = Context(Desk(), held, running(held))

    assert (ctx.message_id, ctx.topic, ctx.group, ctx.key) == (MESSAGE, "orders.placed", "receipts", "order:1")
    assert (ctx.correlation_id, ctx.causation_id, ctx.headers) == ("cart-7", CAUSE, {"tenant": "a"})
    assert (ctx.attempt, ctx.fence, ctx.published_at) == (2, 3, NOON)
    assert ctx.scheduled_for == NOON + timedelta(hours=1)
    assert ctx.was_delayed
    assert not ctx.is_recurring
    assert repr(ctx) == f"<Context orders.placed {MESSAGE} for receipts, attempt 2>"


def test_a_plain_message_has_no_headers_and_no_delay() -> None:
    held = delivery()
    ctx = Context(Desk(), held, running(held))

    assert ctx.headers == {}
    assert not ctx.was_delayed
    assert (ctx.source, ctx.scheduled_for) == ("message", None)


def test_headers_cannot_be_changed_by_a_handler() -> None:
    held = delivery(headers={"tenant": "a"})
    ctx = Context(Desk(), held, running(held))

    with pytest.raises(TypeError):
        ctx.headers["tenant"] = "b"  # type: ignore[index]


def test_the_deadline_is_told_as_an_instant_and_as_what_is_left() -> None:
    desk, held = Desk(), delivery()
    run = running(held)
    ctx = Context(desk, held, run)
    assert ctx.deadline is None
    assert ctx.remaining is None

    run.deadline = 30.0
    desk.clock.advance(timedelta(seconds=10))

    assert ctx.remaining == timedelta(seconds=20)
    assert ctx.deadline == NOON + timedelta(seconds=30)


def test_nothing_is_left_after_the_deadline() -> None:
    desk, held = Desk(), delivery()
    run = running(held)
    run.deadline = 5.0

    desk.clock.advance(timedelta(seconds=10))

    assert Context(desk, held, run).remaining == timedelta()


def test_a_run_that_was_asked_to_stop_is_cancelled() -> None:
    held = delivery()
    run = running(held)
    ctx = Context(Desk(), held, run)
    before = ctx.cancelled

    run.ask_to_stop("cancelled")

    assert (before, ctx.cancelled) == (False, True)
    assert ctx.wait_cancelled()


def test_progress_is_noted_on_the_run_and_the_latest_counts() -> None:
    held = delivery()
    run = running(held)
    ctx = Context(Desk(), held, run)

    ctx.progress("41 of 100")
    ctx.progress(42)

    assert run.progress == "42"


def test_a_plain_function_can_sleep_until_it_should_stop() -> None:
    held = delivery()
    run = running(held)
    ctx = Context(Desk(), held, run)
    assert not ctx.wait_cancelled("1ms")
    told: list[bool] = []

    thread = threading.Thread(target=lambda: told.append(ctx.wait_cancelled()))
    thread.start()
    run.ask_to_stop("shutdown")
    thread.join()

    assert told == [True]


def test_waiting_in_an_async_handler_is_refused() -> None:
    held = delivery()

    async def handler() -> None:
        Context(Desk(), held, running(held)).wait_cancelled()

    with pytest.raises(Misuse) as refused:
        asyncio.run(handler())

    assert str(refused.value) == (
        "ctx.wait_cancelled() would block the event loop: an async handler is cancelled by itself"
    )


async def test_publishing_from_a_handler_carries_the_correlation_and_names_the_cause() -> None:
    desk, held = Desk(), delivery(correlation_id="cart-7")

    receipt = await Context(desk, held, running(held)).publish("orders.shipped", {"id": 1}, delay="5m")

    assert receipt == Receipt(MESSAGE, "stored")
    assert desk.forwarded == [("orders.shipped", {"id": 1}, {"delay": "5m", "correlation_id": "cart-7"}, MESSAGE)]


async def test_the_first_of_a_chain_is_the_correlation() -> None:
    desk, held = Desk(), delivery()

    await Context(desk, held, running(held)).publish("orders.shipped")

    assert desk.forwarded == [("orders.shipped", MISSING, {"correlation_id": str(MESSAGE)}, MESSAGE)]


async def test_a_correlation_given_wins() -> None:
    desk, held = Desk(), delivery(correlation_id="cart-7")

    await Context(desk, held, running(held)).publish("orders.shipped", correlation_id="other")

    assert desk.forwarded[0][2] == {"correlation_id": "other"}
