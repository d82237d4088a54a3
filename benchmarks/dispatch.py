"""The cost of a dispatch: a bare call through the executor, a handler, and one with three dependencies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from mainspring import Context, Depends, Mainspring
from mainspring.model.message import Delivery
from mainspring.model.verdict import Settlement
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import Executor, ExecutorContext
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.offload import Threads
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.codec import decoder
from mainspring.telemetry.bus import Bus
from mainspring.timing.backoff import MESSAGES
from mainspring.timing.clock import SystemClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Order:
    id: int
    total: float


async def handle(order: Order) -> None:
    """Do nothing: the handler of every case."""


async def settings() -> int:
    return 5


def repository(limit: Annotated[int, Depends(settings)]) -> str:
    return f"{limit} rows"


def clock(ctx: Context) -> datetime:
    return ctx.published_at


async def handle_three(
    order: Order,
    limit: Annotated[int, Depends(settings)],
    rows: Annotated[str, Depends(repository)],
    at: Annotated[datetime, Depends(clock)],
) -> None:
    """Do nothing, with three dependencies."""


class _Absorbing:
    """Discards verdicts, so that only the dispatch is measured."""

    def put(self, origin: Any, _settlement: Settlement) -> None:
        origin.settled()

    def written(self, _origin: Any, _settlement: Settlement) -> None:
        """Do nothing: no handler here is transactional."""


def _delivery(number: int) -> Delivery:
    return Delivery(
        id=number,
        epoch=1,
        message_id=UUID(int=number),
        group="bench",
        topic="orders.placed",
        payload=b'{"id":7,"total":9.5}',
        content_type="application/json",
        headers=None,
        key=None,
        correlation_id=None,
        causation_id=None,
        priority=2,
        attempt=1,
        deaths=0,
        due_at=NOW,
        scheduled_for=NOW,
        published_at=NOW,
        expired=False,
        cancel_asked=False,
        suspect=False,
        claimed_at=NOW,
    )


def _handlers() -> dict[str, Handler]:
    app = Mainspring("memory://")
    app.consumer("orders.placed", group="plain")(handle)
    app.consumer("orders.placed", group="three")(handle_three)
    plain, three = (each.handler(app._own.publisher) for each in app._code.consumers)  # noqa: SLF001 - as a worker gets them
    decode = decoder(Order)
    bare = Handler(
        "bare",
        lambda delivery, _run: handle(decode(delivery.payload, delivery.content_type)),
        MESSAGES,
        concurrency=plain.concurrency,
        timeout=plain.timeout,
    )
    return {"bare": bare, "plain": plain, "three": three}


async def _round(handler: Handler, messages: int) -> float:
    """Return microseconds per message."""
    done: Callable[[str], None] = lambda _group: None  # noqa: E731
    shared = ExecutorContext(
        _Absorbing(),
        ClaimsInHand(),
        Threads(1),
        done,
        3,
        RateLimitedLog(SystemClock(), "mainspring.bench"),
        Bus(),
    )
    executor = Executor(handler, shared)
    runs = [Run(_delivery(number), handler, 0.0) for number in range(messages)]
    began = time.perf_counter()
    executor.put(runs)
    await executor.quiet()
    took = time.perf_counter() - began
    executor.close()
    await asyncio.sleep(0)
    return took / messages * 1e6


async def measure(messages: int, rounds: int) -> dict[str, list[float]]:
    """Return the times of each kind; every round measures all kinds, so that they see the same machine."""
    logging.getLogger("mainspring").setLevel(logging.ERROR)
    handlers = _handlers()
    took: dict[str, list[float]] = {kind: [] for kind in handlers}
    for handler in handlers.values():
        await _round(handler, messages)  # warm up
    for _ in range(rounds):
        for kind, handler in handlers.items():
            took[kind].append(await _round(handler, messages))
    return took
