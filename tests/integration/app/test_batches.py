"""Batch consumers on every database, with a worker and in a kit."""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    BatchContext,
    Cancel,
    Mainspring,
    Middleware,
    ReportErrors,
    SlowHandlers,
    Snooze,
    events,
    intervals,
)
from mainspring.app.consume.middleware import LogContext, Next
from tests.integration.app.shop import Seen, eventually


@dataclass
class OrderPlaced:
    id: int


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    app = Mainspring(urls[request.param], schema=postgres_schema, auto_migrate=True, keep="all")
    app.message("orders.placed")(OrderPlaced)
    return app


async def test_a_batch_is_handled_at_once_and_settled_one_by_one(app: Mainspring) -> None:
    seen, told = Seen[list[tuple[int, int, str | None]]](), Seen[tuple[str, str | None]]()

    @app.consumer(batch=6, linger="20ms", retry=intervals("10ms"))
    async def index(orders: list[OrderPlaced], ctx: BatchContext) -> list[object] | None:
        seen.add([(order.id, each.attempt, each.key) for order, each in zip(orders, ctx.contexts, strict=True)])
        outcomes: dict[int, object] = {1: ValueError("not yet"), 2: Snooze("10ms"), 3: Cancel("obsolete")}
        return [outcomes.get(order.id) for order in orders] if len(seen.items) == 1 else None

    @app.on(events.Failed)
    def failed(event: events.Failed) -> None:
        told.add(("failed", event.key))

    @app.on(events.Completed)
    def completed(event: events.Completed) -> None:
        told.add(("completed", event.key))

    async with app:
        await app.declare()
        for number in range(5):
            await app.publish(OrderPlaced(number), key=f"order:{number}")
        await app.publish("orders.placed", "no order", validate=False)
        async with app.worker():
            await eventually(lambda: settled(app))

    assert sorted(seen.items[0]) == [(number, 1, f"order:{number}") for number in range(5)]
    again = [each for batch in seen.items[1:] for each in batch]
    assert sorted(again) == [(1, 2, "order:1"), (2, 1, "order:2")]
    assert sorted(told.items, key=str) == [
        *(("completed", f"order:{number}") for number in (0, 1, 2, 4)),
        ("failed", "order:1"),
        ("failed", None),
    ]


async def settled(app: Mainspring) -> bool:
    """Whether all is done but for the one that nobody can read, which is dead."""
    [counts] = [each for each in (await app.stats.tally()).groups if each.group == "index"]
    return (counts.ready, counts.running, counts.scheduled, counts.dead) == (0, 0, 0, 1)


async def test_a_plain_function_takes_its_batches_in_a_thread_from_a_sender_that_blocks(app: Mainspring) -> None:
    seen = Seen[tuple[list[int], str, bool]]()

    @app.consumer(batch=10, linger="0s")
    def index(orders: list[OrderPlaced], ctx: BatchContext) -> None:
        ctx.progress(f"{len(orders)} orders")
        ctx.contexts[0].sync.publish("indexed", len(orders))
        seen.add(([order.id for order in orders], threading.current_thread().name, ctx.wait_cancelled("1ms")))

    async with app:
        await app.declare()
        for number in range(3):
            await index.send(OrderPlaced(number))
        async with app.worker():
            [(ids, thread, cancelled)] = await seen.count(1)

    assert (sorted(ids), cancelled) == ([0, 1, 2], False)
    assert thread.startswith("mainspring-handler")


def test_a_kit_hands_over_all_that_is_due_in_lists_of_at_most_the_size(app: Mainspring) -> None:
    seen: list[list[int]] = []

    @app.consumer(batch=3, linger="10s", retry=intervals("1m"), timeout="1m")
    def index(orders: list[OrderPlaced], ctx: BatchContext) -> list[object]:
        seen.append([order.id for order in orders])
        if orders[0].id == 5:
            kit.elapse("2m")
        return [ValueError("bad") if order.id == 1 and each.attempt == 1 else None for order, each in both(orders, ctx)]

    with app.testing() as kit:
        for number in range(5):
            index.sync.send(OrderPlaced(number))
        first = kit.sync.drain()
        again = kit.sync.advance("1m")
        index.sync.send(OrderPlaced(5))
        late = kit.sync.drain()

    assert seen == [[0, 1, 2], [3, 4], [1], [5]]
    assert [(ran.payload, ran.outcome) for ran in first] == [
        (OrderPlaced(0), "done"),
        (OrderPlaced(1), "failed"),
        (OrderPlaced(2), "done"),
        (OrderPlaced(3), "done"),
        (OrderPlaced(4), "done"),
    ]
    assert (str(first[1].exception), [(ran.attempt, ran.outcome) for ran in again]) == ("bad", [(2, "done")])
    assert [(ran.outcome, ran.error) for ran in late] == [("failed", "TimedOut: it ran past its timeout of 60 s")]


def both(orders: list[OrderPlaced], ctx: BatchContext) -> Any:
    return zip(orders, ctx.contexts, strict=True)


async def test_in_a_kit_one_that_cannot_be_read_fails_no_other() -> None:
    app, seen = Mainspring("memory://"), list[list[int]]()
    app.message("orders.placed")(OrderPlaced)

    @app.consumer(batch=10)
    async def index(orders: list[OrderPlaced]) -> None:
        seen.append([order.id for order in orders])

    with app.testing() as kit:
        await app.publish("orders.placed", "no order", validate=False)
        await app.publish(OrderPlaced(1))
        ran = await kit.drain()

    assert seen == [[1]]
    assert sorted((each.outcome, each.attempt) for each in ran) == [("done", 1), ("failed", 1)]


async def test_middleware_stands_around_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    reported, times = list[tuple[str, Any]](), list[Any]()

    class Note(Middleware):
        async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
            logging.getLogger("shop").warning("%d for %s", len(ctx.contexts), ctx.group)
            return await call_next()

    slow = SlowHandlers("0s", report=lambda ctx, took: times.append(ctx.message_id))
    report = ReportErrors(lambda error, ctx: reported.append((str(error), ctx.message_id)))
    app = Mainspring("memory://", middleware=[LogContext(), slow, report])

    @app.consumer("a", batch=2, middleware=[Note()])
    async def handle(values: list[int]) -> list[object]:
        if values[0] == 3:
            raise ValueError("both")
        return [None, ValueError("second")]

    caplog.handler.addFilter(LogContext.filter)
    with app.testing() as kit:
        sent = [(await app.publish("a", value, validate=False)).id for value in (1, 2, 3, 4, "five")]
        await kit.drain()
    caplog.handler.removeFilter(LogContext.filter)

    assert reported[:2] == [("second", sent[1]), ("both", sent[2])]
    assert ("five" in str(reported[2]), reported[2][1], len(reported)) == (False, sent[4], 3)  # it cannot be read
    assert times == sent
    noted = [(record.getMessage(), vars(record)["group"], vars(record)["topic"]) for record in caplog.records]
    assert noted.count(("2 for handle", "handle", None)) == 2
