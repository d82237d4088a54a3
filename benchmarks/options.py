"""What each option of a consumer costs: the same messages through it, and through a plain consumer, in one run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.drain import PAYLOAD, tidy, verify
from mainspring import Mainspring

CONCURRENCY = 20
"""As many as a pool of connections can be expected to have; the plain consumer has no more hands than the others."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, and what is published for it."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    publish: Callable[[int], dict[str, Any]] = lambda _n: {}
    """What each message is published with."""


PLAIN = Option("plain")
OPTIONS = [
    Option("transactional", {"transactional": True}),
    Option("unique", {}, lambda n: {"key": str(n), "unique": "key"}),
]


async def drain(url: str, schema: str, option: Option, messages: int) -> float:
    """Messages per second from the start of a worker until the last one is settled, as the database says."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True, handler_pool=CONCURRENCY)
    options: dict[str, Any] = {"concurrency": CONCURRENCY, **option.options}

    @app.consumer("bench.noop", **options)
    async def noop(_: dict[str, str]) -> None: ...

    async with app:
        await app.migrate()
        await app.declare()
        await _publish(app, option, messages)
        await tidy(url, schema)
        started = time.perf_counter()
        async with app.worker():
            while any(each.ready + each.running + each.lapsed for each in (await app.tally()).groups):
                await asyncio.sleep(0.005)
            elapsed = time.perf_counter() - started
    await verify(url, schema, messages)
    return messages / elapsed


async def _publish(app: Mainspring, option: Option, messages: int) -> None:
    def chunks() -> Iterator[range]:
        return (range(start, min(start + 500, messages)) for start in range(0, messages, 500))

    for chunk in chunks():
        if not option.publish(0):
            await app.publish_many(("bench.noop", PAYLOAD) for _ in chunk)
        else:
            await asyncio.gather(*(app.publish("bench.noop", PAYLOAD, **option.publish(n)) for n in chunk))
