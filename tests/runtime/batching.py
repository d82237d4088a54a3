"""A batch consumer on memory storage, and what tests ask of its deliveries."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, cast

from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Batching, Handler, Run
from mainspring.timing.backoff import NO_RETRY
from tests.runtime.stage import Stage

LONG = 600.0
"""Seconds to linger that no test lasts."""


class Batches:
    """A batch consumer named ``work``; ``seen`` are the batches that its handler was given."""

    def __init__(self, call: Callable[[Batch], object], size: int = 3, linger: float = LONG, **options: Any) -> None:
        self.seen: list[Batch] = []

        async def awaited(_: object, run: Run) -> object:
            self.seen.append(cast("Batch", run))
            result = call(cast("Batch", run))
            return await result if isinstance(result, Awaitable) else result

        def called(_: object, run: Run) -> object:
            self.seen.append(cast("Batch", run))
            return call(cast("Batch", run))

        options.setdefault("retry", NO_RETRY)
        chosen = called if options.get("threaded") else awaited
        self.handler = Handler("work", chosen, batching=Batching(size, linger), **options)

    def sizes(self) -> list[int]:
        return [len(batch.runs) for batch in self.seen]

    def ids(self, place: int = 0) -> list[uuid.UUID]:
        return [run.delivery.message_id for run in self.seen[place].runs]


def nothing(_: Batch) -> None:
    """All of it is done."""


def opened(gate: asyncio.Event) -> Callable[[Batch], Awaitable[None]]:
    """A handler that waits at the gate."""

    async def handle(_: Batch) -> None:
        await gate.wait()

    return handle


async def states(stage: Stage) -> dict[uuid.UUID, tuple[str, int]]:
    return {each.message_id: (each.state, each.attempt) for each in await stage.browse("live")}


async def is_held(stage: Stage, count: int) -> bool:
    return len(await stage.browse("running")) == count


async def is_dead(stage: Stage, count: int) -> bool:
    return len(await stage.browse("dead")) == count
