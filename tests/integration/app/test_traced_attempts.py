"""The spans of attempts: what became of each is told as the executor judges it."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from mainspring import (
    BatchContext,
    Cancel,
    Context,
    JsonLines,
    LogContext,
    Mainspring,
    Middleware,
    Snooze,
    events,
    every,
    intervals,
)
from mainspring.app.consume.middleware import Next
from tests.integration.app import darkroom, traced
from tests.integration.app.shop import Seen
from tests.integration.app.tracing import Spans, context_of, events_of, links_of, parent_of, told


async def test_a_failed_attempt_and_its_retry_are_two_spans_of_one_trace(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", retry=intervals("10ms"))
    async def ship(order: str, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("no such order")

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        first, second = await spans.named("process orders.placed", 2)

    published = await spans.one("publish orders.placed")
    assert [parent_of(each) for each in (first, second)] == [context_of(published)] * 2
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "no such order")
    said = ("mainspring.attempt", "mainspring.outcome", "error.type")
    assert told(first, *said) == {
        "mainspring.attempt": 1,
        "mainspring.outcome": "failed",
        "error.type": "ValueError",
    }
    assert events_of(first) == [
        (
            "exception",
            {"exception.type": "ValueError", "exception.message": "no such order", "exception.escaped": "False"},
        )
    ]
    assert second.status.status_code is StatusCode.UNSET
    assert told(second, *said) == {"mainspring.attempt": 2, "mainspring.outcome": "done"}


async def test_what_runs_in_a_process_has_its_span_in_the_worker(tmp_path: Path, spans: Spans) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/lab.db")
    app.consumer("photos.taken", cpu=True, concurrency=1, retry="none", group="lab")(darkroom.publishes)

    async with app.worker():
        await app.publish("photos.taken", {"name": "sea"})
        processed = await spans.one("process photos.taken")

    assert parent_of(processed) == context_of(await spans.one("publish photos.taken"))
    assert processed.status.status_code is StatusCode.ERROR
    assert told(processed, "error.type") == {"error.type": "mainspring.model.errors.Misuse"}
    ((name, said),) = events_of(processed)
    assert (name, said["exception.type"]) == ("exception", "mainspring.model.errors.Misuse")
    assert said["exception.message"].startswith("Misuse: a cpu=True handler has no database to publish to")


async def test_code_in_a_process_is_in_the_trace_as_well(tmp_path: Path, spans: Spans) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/lab.db")
    app.consumer("orders.placed", cpu=True, concurrency=1, keep="all")(traced.where)
    done: Seen[events.Completed] = Seen()
    app.on(events.Completed, done.add)

    async with app.worker():
        await app.publish("orders.placed", "tea")
        (completed,) = await done.count(1)

    trace_id, span_id = context_of(await spans.one("process orders.placed"))
    assert completed.output == f"{trace_id:032x}-{span_id:016x}"


async def test_a_batch_is_one_span_that_links_to_every_publish(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", batch=3, linger="1m", retry="none")
    async def ship(orders: list[str]) -> list[Exception | None]:
        return [ValueError(order) if order == "jam" else None for order in orders]

    async with shop.worker():
        for order in ("tea", "jam", "rum"):
            await shop.publish("orders.placed", order)
        processed = await spans.one("process orders.placed")

    published = await spans.named("publish orders.placed", 3)
    assert parent_of(processed) is None
    assert links_of(processed) == [context_of(each) for each in published]
    assert (processed.kind, processed.status.description) == (SpanKind.CONSUMER, "1 of 3 messages failed")
    assert told(processed, "messaging.batch.message_count", "mainspring.failed_count", "mainspring.outcome") == {
        "messaging.batch.message_count": 3,
        "mainspring.failed_count": 1,
        "mainspring.outcome": "failed",
    }
    failed = told(published[1], "messaging.message.id")
    ((name, said),) = events_of(processed)
    assert (name, said["exception.message"]) == ("exception", "jam")
    assert said.items() >= failed.items()


async def test_a_batch_that_fails_as_a_whole_says_why_once(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", batch=2, linger="1m", retry="none")
    def ship(orders: list[str]) -> None:
        raise OSError("the lorry is away")

    async with shop.worker():
        await shop.publish_many([("orders.placed", "tea"), ("orders.placed", "jam")])
        processed = await spans.one("process orders.placed")

    assert (processed.status.status_code, processed.status.description) == (StatusCode.ERROR, "the lorry is away")
    assert [name for name, _ in events_of(processed)] == ["exception"]


async def test_what_is_put_off_or_dropped_says_so_and_is_no_error(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed")
    async def ship(order: str) -> Snooze | Cancel:
        return Snooze("1h", "the shop is closed") if order == "tea" else Cancel("sold out")

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        await spans.named("process orders.placed", 1)
        await shop.publish("orders.placed", "jam")
        put_off, dropped = await spans.named("process orders.placed", 2)

    assert [each.status.status_code for each in (put_off, dropped)] == [StatusCode.UNSET] * 2
    assert [told(each, "mainspring.outcome")["mainspring.outcome"] for each in (put_off, dropped)] == [
        "snoozed",
        "cancelled",
    ]
    assert events_of(put_off) == [("snoozed", {"mainspring.delay": 3600.0, "mainspring.reason": "the shop is closed"})]
    assert events_of(dropped) == [("cancelled", {"mainspring.reason": "sold out"})]


async def test_an_attempt_that_runs_out_of_time_is_an_error(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", timeout="50ms", retry="none")
    async def ship(order: str) -> None:
        await asyncio.Event().wait()

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    assert (processed.status.status_code, processed.status.description) == (
        StatusCode.ERROR,
        "it ran past its timeout of 0.05 s",
    )
    assert told(processed, "error.type") == {"error.type": "mainspring.runtime.verdicts.TimedOut"}


async def test_a_plain_function_that_returns_too_late_is_an_error_all_the_same(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", timeout="50ms", retry="none")
    def ship(order: str, ctx: Context) -> None:
        ctx.wait_cancelled()

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    assert processed.status.description == "it ran past its timeout of 0.05 s"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_batch_that_runs_out_of_time_is_an_error(shop: Mainspring, spans: Spans, *, is_async: bool) -> None:
    if is_async:

        @shop.consumer("orders.placed", batch=2, linger="1m", timeout="50ms", retry="none")
        async def ship(orders: list[str]) -> None:
            await asyncio.Event().wait()
    else:

        @shop.consumer("orders.placed", batch=2, linger="1m", timeout="50ms", retry="none")
        def ship_it(orders: list[str], ctx: BatchContext) -> None:
            ctx.wait_cancelled()

    async with shop.worker():
        await shop.publish_many([("orders.placed", "tea"), ("orders.placed", "jam")])
        processed = await spans.one("process orders.placed")

    assert processed.status.description == "it ran past its timeout of 0.05 s"
    assert told(processed, "mainspring.outcome") == {"mainspring.outcome": "failed"}


async def test_a_batch_of_which_all_is_done_says_so(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", batch=2, linger="1m")
    async def ship(orders: list[str]) -> None: ...

    async with shop.worker():
        await shop.publish_many([("orders.placed", "tea"), ("orders.placed", "jam")])
        processed = await spans.one("process orders.placed")

    assert processed.status.status_code is StatusCode.UNSET
    assert told(processed, "mainspring.outcome") == {"mainspring.outcome": "done"}


async def test_a_handler_that_cancels_itself_has_failed(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", retry="none")
    async def ship(order: str) -> None:
        raise asyncio.CancelledError

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    assert processed.status.description == "the handler raised CancelledError, but was not cancelled"


async def test_what_fails_after_the_commit_undoes_nothing_in_the_trace_either(tmp_path: Path, spans: Spans) -> None:
    class Careless(Middleware):
        async def handling(self, ctx: Context, call_next: Next) -> object:
            await call_next()
            raise OSError("the printer is on fire")

    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", middleware=[Careless()])

    @app.consumer("orders.placed", transactional=True)
    async def ship(order: str) -> None: ...

    async with app.worker():
        await app.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    assert processed.status.status_code is StatusCode.UNSET
    assert told(processed, "mainspring.outcome") == {"mainspring.outcome": "done"}
    assert [said["exception.message"] for _, said in events_of(processed)] == ["the printer is on fire"]


async def test_an_attempt_that_the_worker_hands_back_is_no_error(spans: Spans) -> None:
    app = Mainspring("memory://", grace="0s")
    begun = asyncio.Event()

    @app.consumer("orders.placed")
    async def ship(order: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app.worker():
        await app.publish("orders.placed", "tea")
        await begun.wait()

    processed = await spans.one("process orders.placed")
    assert processed.status.status_code is StatusCode.UNSET
    assert told(processed, "mainspring.outcome") == {"mainspring.outcome": "released"}


async def test_an_outcome_that_cannot_be_read_is_an_error(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", retry="none")
    async def ship(order: str) -> type:
        return Snooze

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    assert processed.status.status_code is StatusCode.ERROR
    assert told(processed, "error.type", "mainspring.outcome") == {
        "error.type": "TypeError",
        "mainspring.outcome": "failed",
    }


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged as "shop"."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines("host:7"))
    handler.addFilter(LogContext.filter)
    logging.getLogger("shop").addHandler(handler)
    yield written
    logging.getLogger("shop").removeHandler(handler)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_line_of_a_handler_names_the_trace_and_the_message(
    spans: Spans, written: io.StringIO, *, is_async: bool
) -> None:
    app = Mainspring("memory://", middleware=[LogContext()])
    log = logging.getLogger("shop")

    if is_async:

        @app.consumer("orders.placed", group="ship")
        async def ship(order: str) -> None:
            log.warning("late")
    else:

        @app.consumer("orders.placed", group="ship")
        def ship_it(order: str) -> None:
            log.warning("late")

    async with app.worker():
        receipt = await app.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    line = json.loads(written.getvalue())
    trace_id, span_id = context_of(processed)
    assert (line["trace_id"], line["span_id"]) == (f"{trace_id:032x}", f"{span_id:016x}")
    assert (line["group"], line["message_id"], line["worker"]) == ("ship", str(receipt.id), "host:7")


async def test_who_asks_for_one_run_here_does_not_get_the_traces_of_later_ones(spans: Spans) -> None:
    app = Mainspring("memory://", tracing=True)

    @app.recurring(every("1h"), name="nightly")
    async def nightly() -> None: ...

    await app.declare()
    async with app.worker():
        with trace.get_tracer("web").start_as_current_span("POST /run-now") as request:
            await app.schedules.trigger("nightly", local=True)
            await spans.named("process nightly", 1)
        await app.schedules.trigger("nightly")
        ran = await spans.named("process nightly", 2)

    assert request.get_span_context().trace_id not in {context_of(each)[0] for each in ran}


async def test_a_span_in_which_the_worker_was_started_is_over_when_it_has_ended(spans: Spans) -> None:
    app = Mainspring("memory://", tracing=True)

    @app.consumer("orders.placed")
    async def place(order: int) -> None: ...

    async with AsyncExitStack() as stack:
        with trace.get_tracer("web").start_as_current_span("startup"):
            await stack.enter_async_context(app.worker())
        await app.publish("orders.placed", 1)
        published, processed = await spans.one("publish orders.placed"), await spans.one("process orders.placed")

    assert parent_of(processed) == context_of(published)
