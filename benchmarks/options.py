"""The cost of each option of a consumer: the same messages through it and through a plain consumer, in one run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.drain import PAYLOAD, tidy, verify
from mainspring import Mainspring

CONCURRENCY = 20
"""As many as a connection pool usually has; the plain consumer has the same concurrency as the others."""

KEYS = 1_000


@dataclass(frozen=True, slots=True)
class Option:
    """One option, and how its messages are published."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    publish: Callable[[int], dict[str, Any]] = lambda _n: {}
    """The publish options of each message."""


PLAIN = Option("plain")
OPTIONS = [
    Option("transactional", {"transactional": True}),
    # The number of concurrent batches: each holds a hundred messages.
    Option("batch", {"batch": 100}),
    Option("batch, transactional", {"batch": 100, "transactional": True}),
    Option("unique", {}, lambda n: {"key": str(n), "unique": "key"}),
    # The plain consumer with keys: the cost of the index for order by key to groups without order.
    Option("plain, with keys", {}, lambda n: {"key": f"k{n % KEYS}"}),
    Option("ordered", {"ordered": True}, lambda n: {"key": f"k{n % KEYS}"}),
    Option("key_concurrency", {"key_concurrency": 2}, lambda n: {"key": f"k{n % KEYS}"}),
    Option("global_concurrency", {"global_concurrency": CONCURRENCY}),
    Option("rate", {"rate": "1000000/1s"}),
    Option("key_rate", {"key_rate": "1000/1s"}, lambda n: {"key": f"k{n % KEYS}"}),
]


class Rates(NamedTuple):
    """Messages per second."""

    published: float
    handled: float
    """From the start of a worker until the database has the last one settled."""


async def measure(url: str, schema: str, option: Option, messages: int) -> Rates:
    """Publish the messages and have them handled."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True, handler_pool=CONCURRENCY)
    options: dict[str, Any] = {"concurrency": CONCURRENCY, **option.options}

    async def noop(_: dict[str, str]) -> None: ...

    async def noop_all(_: list[dict[str, str]]) -> None: ...

    app.consumer("bench.noop", **options)(noop_all if "batch" in options else noop)

    async with app:
        await app.migrate()
        await app.declare()
        began = time.perf_counter()
        await _publish(app, option, messages)
        published = messages / (time.perf_counter() - began)
        await tidy(url, schema)
        started = time.perf_counter()
        async with app.worker():
            while any(each.ready + each.running + each.lapsed for each in (await app.stats.tally()).groups):
                await asyncio.sleep(0.005)
            elapsed = time.perf_counter() - started
    await verify(url, schema, messages)
    return Rates(published, messages / elapsed)


async def _publish(app: Mainspring, option: Option, messages: int) -> None:
    """Publish one by one, five hundred concurrently, as the requests of a busy service do."""
    for start in range(0, messages, 500):
        numbers = range(start, min(start + 500, messages))
        await asyncio.gather(*(app.publish("bench.noop", PAYLOAD, **option.publish(n)) for n in numbers))
