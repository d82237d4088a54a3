"""Middleware and hooks: around every publish and every attempt, in the order they were given."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    Cancel,
    Context,
    LogContext,
    Mainspring,
    Middleware,
    Outgoing,
    ReportErrors,
    SlowHandlers,
    events,
    exponential,
    intervals,
)
from mainspring.app.consume.middleware import Next
from mainspring.model.errors import BadOption
from tests.integration.app.shop import Seen


class Noting(Middleware):
    """Writes down when it was entered and left, on both ways."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines

    @contextmanager
    def publishing(self, message: Outgoing) -> Iterator[None]:
        self.lines.append(f"{self.name} publishes {message.topic}")
        message.headers[self.name] = str(len(message.headers))
        try:
            yield
        finally:
            self.lines.append(f"{self.name} published")

    async def handling(self, ctx: Context, call_next: Next) -> object:
        self.lines.append(f"{self.name} before")
        try:
            return await call_next()
        except ValueError:
            self.lines.append(f"{self.name} failed")
            raise
        finally:
            self.lines.append(f"{self.name} after")


async def test_the_first_middleware_is_the_outermost_on_both_ways() -> None:
    lines: list[str] = []
    app = Mainspring("memory://", middleware=[Noting("outer", lines), Noting("inner", lines)])
    done: Seen[Any] = Seen()

    @app.consumer("orders.placed", middleware=[Noting("own", lines)])
    async def ship(order: str, ctx: Context) -> None:
        lines.append(f"ship {order}")
        done.add(dict(ctx.headers))

    async with app.worker():
        await app.publish("orders.placed", "tea", headers={"mine": "x"})
        await done.count(1)

    assert lines == [
        "outer publishes orders.placed",
        "inner publishes orders.placed",
        "inner published",
        "outer published",
        "outer before",
        "inner before",
        "own before",
        "ship tea",
        "own after",
        "inner after",
        "outer after",
    ]
    assert done.items == [{"mine": "x", "outer": "1", "inner": "2"}]


async def test_a_plain_functions_attempts_are_surrounded_too() -> None:
    lines: list[str] = []
    app = Mainspring("memory://", middleware=[Noting("outer", lines)])
    died: Seen[events.Dead] = Seen()
    app.on(events.Dead, died.add)

    @app.consumer("orders.placed", retry=intervals())
    def ship(order: str) -> None:
        raise ValueError("no such order")

    async with app.worker():
        await app.publish("orders.placed", "tea")
        await died.count(1)

    assert lines[-3:] == ["outer before", "outer failed", "outer after"]


async def test_middleware_may_answer_in_the_handlers_place() -> None:
    class Closed(Middleware):
        async def handling(self, ctx: Context, call_next: Next) -> object:
            return Cancel("the shop is closed")

    app = Mainspring("memory://", middleware=[Closed()])
    dropped: Seen[events.Cancelled] = Seen()
    app.on(events.Cancelled, dropped.add)

    @app.consumer("orders.placed")
    async def ship(order: str) -> None:
        raise AssertionError("never called")

    async with app.worker():
        await app.publish("orders.placed", "tea")
        await dropped.count(1)

    [event] = dropped.items
    assert (event.group, event.reason) == ("ship", "the shop is closed")


async def refused(app: Mainspring, way: str, file: Path) -> None:
    match way:
        case "awaited":
            await app.publish("orders.placed", "secret")
        case "blocking":
            await asyncio.to_thread(app.sync.publish, "orders.placed", "secret")
        case "joined":
            with closing(sqlite3.connect(file)) as connection:
                app.sync.publish("orders.placed", "secret", tx=connection)
        case _:
            await app.publish_many([("orders.placed", "tea"), ("orders.placed", "secret")])


@pytest.mark.parametrize("way", ["awaited", "blocking", "joined", "many"])
async def test_middleware_may_refuse_a_message_on_every_way_out(way: str, tmp_path: Path) -> None:
    class Refusing(Middleware):
        @contextmanager
        def publishing(self, message: Outgoing) -> Iterator[None]:
            if b"secret" in message.payload:
                raise PermissionError(f"{message.topic} holds a secret")
            yield

    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", middleware=[Refusing()])
    async with app:
        with pytest.raises(PermissionError, match=r"orders.placed holds a secret"):
            await refused(app, way, tmp_path / "shop.db")

        assert await app.messages.list("parked") == []
    await asyncio.to_thread(app.sync.close)


async def test_middleware_cannot_swallow_that_nothing_was_stored() -> None:
    class Swallowing(Middleware):
        @contextmanager
        def publishing(self, message: Outgoing) -> Iterator[None]:
            with contextlib.suppress(PermissionError):
                yield

    class Refusing(Middleware):
        @contextmanager
        def publishing(self, message: Outgoing) -> Iterator[None]:
            if message.topic:
                raise PermissionError("no")
            yield

    app = Mainspring("memory://", middleware=[Swallowing(), Refusing()])
    async with app:
        with pytest.raises(PermissionError):
            await app.publish("orders.placed", 1)
        with pytest.raises(PermissionError):
            await app.publish_many([("orders.placed", 1)])


async def test_shipped_slow_handlers_names_the_slow_and_times_all(caplog: pytest.LogCaptureFixture) -> None:
    timed: Seen[tuple[str, timedelta]] = Seen()
    slow = SlowHandlers(over="0s", report=lambda ctx, took: timed.add((ctx.group, took)))
    app = Mainspring("memory://", middleware=[slow])

    @app.consumer("work")
    async def work(what: str) -> None: ...

    with caplog.at_level(logging.WARNING, "mainspring.slow"):
        async with app.worker():
            receipt = await app.publish("work", "x")
            await timed.count(1)

    [(group, took)] = timed.items
    assert group == "work"
    assert took > timedelta()
    assert f"for message {receipt.id}" in caplog.text


async def test_a_time_that_cannot_be_reported_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def away(ctx: Context, took: timedelta) -> None:
        raise ConnectionError("statsd is away")

    app = Mainspring("memory://", middleware=[SlowHandlers(report=away)])
    completed: Seen[Any] = Seen()
    app.on(events.Completed, completed.add)

    @app.consumer("work")
    async def work(what: str) -> None: ...

    async with app.worker():
        await app.publish("work", "x")
        await completed.count(1)

    assert "failed to report" in caplog.text


async def test_shipped_log_context_tells_every_record_its_message(caplog: pytest.LogCaptureFixture) -> None:
    app = Mainspring("memory://", middleware=[LogContext()])
    done: Seen[str] = Seen()

    @app.consumer("work", group="threads")
    def in_thread(what: str) -> None:
        logging.getLogger("shop").info("here")
        done.add(what)

    @app.consumer("work", group="loop")
    async def on_loop(what: str) -> None:
        logging.getLogger("shop").info("here")
        done.add(what)

    caplog.handler.addFilter(LogContext.filter)
    try:
        with caplog.at_level(logging.INFO, "shop"):
            async with app.worker():
                receipt = await app.publish("work", "x", correlation_id="order:7")
                await done.count(2)
            logging.getLogger("shop").info("outside")
    finally:
        caplog.handler.removeFilter(LogContext.filter)

    records: list[Any] = [record for record in caplog.records if record.name == "shop"]
    inside = {
        (each.group, each.topic, each.message_id, each.attempt, each.correlation_id)
        for each in records
        if each.getMessage() == "here"
    }
    assert inside == {(group, "work", str(receipt.id), 1, "order:7") for group in ("threads", "loop")}
    assert [each.group for each in records if each.getMessage() == "outside"] == [None]


async def test_shipped_report_errors_reports_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reported: Seen[tuple[str, int]] = Seen()

    async def report(error: BaseException, ctx: Context) -> None:
        reported.add((str(error), ctx.attempt))
        raise OSError("the collector is away")

    app = Mainspring("memory://", middleware=[ReportErrors(report, from_attempt=2)])
    died: Seen[events.Dead] = Seen()
    app.on(events.Dead, died.add)

    @app.consumer("work", retry=exponential("1ms", attempts=3))
    async def work(what: str) -> None:
        raise ValueError("bad")

    async with app.worker():
        await app.publish("work", "x")
        await died.count(1)

    assert reported.items == [("bad", 2), ("bad", 3)]
    assert died.items[0].error == "ValueError: bad"
    assert "failed to report" in caplog.text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mainspring("memory://", middleware=[LogContext]), "middleware has the class LogContext: write LogCo"),  # type: ignore[list-item]
        (lambda: Mainspring("memory://", middleware=[print]), "it must be an instance of a subclass of Middleware"),  # type: ignore[list-item]
        (lambda: Mainspring("memory://", middleware="x"), "must be a list of Middleware, the outermost first"),  # type: ignore[arg-type]
        (lambda: Mainspring("memory://").on("complete", print), "write app.on(events.Completed)"),  # type: ignore[call-overload]
        (lambda: Mainspring("memory://").on(events.Dead, 5), "goes above a function, not 5"),  # type: ignore[call-overload]
        (
            lambda: Mainspring("memory://").consumer("a", group="g", breaker="10/1m")(repr),  # type: ignore[arg-type]
            "breaker='10/1m' must be made by breaker",
        ),
        (lambda: Mainspring("memory://").consumer("a", midleware=[]), "Did you mean 'middleware'?"),  # type: ignore[call-arg]
    ],
)
def test_what_cannot_be_meant_is_refused(make: Any, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        make()

    assert message in str(refused.value)
