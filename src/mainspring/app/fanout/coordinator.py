"""The coordinator of a fan-out: takes shards from the planner, in chunks, and publishes those that are due."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeVar

from mainspring.app.connection import Connection
from mainspring.app.consume.context import Context
from mainspring.app.fanout.declaration import Named, PlanRequest, slices_topic
from mainspring.app.lease.lease import held
from mainspring.app.lease.leases import Leases, Wait
from mainspring.app.message.envelope import Envelope
from mainspring.model.errors import BadOption, LeaseLost
from mainspring.model.fanout import (
    SLICE_HEADER,
    Batch,
    Candidate,
    CursorKey,
    Planning,
    Slice,
    identity,
    slice_id,
    subject,
)
from mainspring.model.message import Draft
from mainspring.model.schedule import jitter_share
from mainspring.runtime.lease_keeper import TAKEN

_logger = logging.getLogger("mainspring.publisher")
T = TypeVar("T")
Skipped = Literal["planned", "unfinished", "early", "disabled"]
"""Why a shard gets no slice: this window or a later one is planned already; the previous slice is unfinished; its
policy requires more time between; its policy disables it."""

CHUNK = 500
"""How many shards are processed at a time."""


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """The result of one window: how many slices were published, how many shards were skipped, and why."""

    topic: str
    work: str | None
    window: datetime
    published: int = 0
    skipped: dict[Skipped, int] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        """Return a summary, also for the history of runs."""
        reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(self.skipped.items()))
        slices = f"{self.published:,} slice{'' if self.published == 1 else 's'}"
        return f"{slices}; skipped: {reasons}" if reasons else slices


class Coordinator:
    """Planning of windows, each under the lease of its fan-out, in bounded memory.

    Every chunk is one transaction, fenced by the lease. If a coordinator dies or is fenced in between, its successor
    gets the same window: it skips what was planned, and plans the rest.
    """

    def __init__(
        self,
        connection: Connection,
        leases: Leases,
        envelope: Envelope,
        wake: Callable[[], None],
        carried: Callable[[], dict[str, str]],
    ) -> None:
        self._carried = carried
        self._connection = connection
        self._leases = leases
        self._envelope = envelope
        self._wake = wake

    async def plan(self, request: PlanRequest, ctx: Context | None = None, wait: Wait = None) -> PlannedWindow:
        """Plan the window. Raises LeaseHeld if another coordinator does, LeaseLost if another took over."""
        storage = await self._connection.storage("planning a fan-out")
        declared = request.declared
        # In a test a planner may use objects of the test's thread.
        threaded = not declared.is_async and self._connection.stand_in is None
        published, counts, met = 0, Counter[Skipped](), False
        about = subject(declared.topic, request.work, request.shard)
        async with self._leases.hold(declared.lease, declared.ttl, wait=wait) as lease:
            hold = held(lease).hold
            async with aclosing(_chunks(request, threaded=threaded)) as chunks:
                async for chunk in chunks:
                    note = None if met else request.note  # once, with the first
                    met = True
                    drafting = _Drafting(request, self._envelope, self._carried())
                    batch = Batch(declared.topic, request.window, chunk, hold, request.consumers, note, about)
                    answer = await storage.fanouts.plan(batch, drafting)
                    if answer is None:
                        raise LeaseLost(lease.name, lease.epoch, TAKEN)
                    for each in answer.conflicting(drafting.drafts):
                        _logger.warning("%s; it does not run: give that other message another message_id", each)
                    published += len(answer.stored)
                    counts.update(drafting.skipped)
                    self._wake()
                    if ctx is not None:
                        ctx.progress(f"{published:,} slices, {counts.total():,} shards skipped")
        if request.shard is not None and not met:
            of = declared.topic if request.work is None else f"{declared.topic} {request.work}"
            raise BadOption(f"the planner of {of} yields no shard {request.shard!r}: check its spelling, or it is gone")
        return PlannedWindow(declared.topic, request.work, request.window, published, dict(counts))


class _Drafting:
    """``Choose`` for one chunk: the due slices, and a count of the skipped shards."""

    def __init__(self, request: PlanRequest, envelope: Envelope, carried: dict[str, str]) -> None:
        self._carried = carried
        self._request = request
        self._envelope = envelope
        self.skipped: Counter[Skipped] = Counter()
        self.drafts: list[Draft] = []

    def __call__(self, candidates: Sequence[Candidate]) -> list[Planning]:
        request = self._request
        self.skipped.clear()
        due: list[Planning] = []
        for each in candidates:
            any_time = request.by_hand and request.shard is not None
            why = skipped(each, request.window, request.declared.every, any_time=any_time)
            if why is None:
                due.append(Planning(each.work, each.shard, self._draft(each)))
            else:
                self.skipped[why] += 1
        self.drafts = [each.draft for each in due]
        return due

    def _draft(self, each: Candidate) -> Draft:
        request = self._request
        declared = request.declared
        name = identity(CursorKey(declared.topic, each.work, each.shard), request.window)
        id, topic = slice_id(name), slices_topic(declared.topic, each.work)
        jitter = declared.jitter if each.policy.jitter is None else each.policy.jitter
        body, content_type = self._envelope.encode(
            Slice(declared.topic, each.work, each.shard, request.window, each.completed), topic
        )
        return Draft(
            id,
            topic,
            body,
            content_type,
            headers={**self._carried, SLICE_HEADER: name},
            key=each.shard,
            at=request.window if request.by_hand else request.window + jitter * jitter_share(id),
            causation_id=request.cause,
        )


def skipped(
    candidate: Candidate, window: datetime, every: timedelta | None = None, *, any_time: bool = False
) -> Skipped | None:
    """Return why this shard gets no slice; None: it is due. ``every`` is the least time between two, by the code."""
    policy, completed, planned = candidate.policy, candidate.completed, candidate.planned
    if policy.enabled is False:
        return "disabled"
    if (planned is not None and planned >= window) or (completed is not None and completed >= window):
        return "planned"
    if candidate.is_unfinished:
        return "unfinished"
    least = every if policy.every is None else policy.every
    if least and completed is not None and window - completed < least and not any_time:
        return "early"
    return None


async def _chunks(request: PlanRequest, *, threaded: bool) -> AsyncGenerator[list[Named], None]:
    """Yield the planner's shards in chunks, without duplicates. One in another chunk counts as planned.

    In any case the planner is closed: it may have a connection open between two chunks.
    """
    thread = _PlannerThread(threaded=threaded)
    answer: Any = None
    try:
        answer = await thread(lambda: request.declared.call(request.ctx, request.work))
        answer = await answer if inspect.isawaitable(answer) else answer
        if hasattr(answer, "__aiter__"):
            async with aclosing(answer) if hasattr(answer, "aclose") else nullcontext():
                chunk: dict[Named, None] = {}
                async for each in answer:
                    _take(chunk, request, [each])
                    if len(chunk) >= CHUNK:
                        yield list(chunk)
                        chunk.clear()
                if chunk:
                    yield list(chunk)
            return
        shards = iter(_iterable(answer, request))
        while named := await thread(lambda: list(islice(shards, CHUNK))):
            found: dict[Named, None] = {}
            _take(found, request, named)
            if found:
                yield list(found)
    finally:
        thread.end(answer.close if inspect.isgenerator(answer) else None)


class _PlannerThread:
    """The thread of a plain planner, which may block: one for the whole call.

    What it opens may belong to the thread, as connections of ``sqlite3`` do.
    """

    def __init__(self, *, threaded: bool) -> None:
        self._thread = ThreadPoolExecutor(1, "planner") if threaded else None

    async def __call__(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, copy_context().run, work)

    def end(self, close: Callable[[], None] | None) -> None:
        """Close the planner in its thread, without waiting: it may be blocked."""
        if self._thread is not None:
            if close is not None:
                self._thread.submit(close)
            self._thread.shutdown(wait=False)
        elif close is not None:
            close()


def _take(chunk: dict[Named, None], request: PlanRequest, named: Iterable[object]) -> None:
    for each in named:
        work, shard = request.declared.read(each)
        if request.shard in (None, shard) and request.work in (None, work):
            chunk[work, shard] = None


def _iterable(answer: object, request: PlanRequest) -> Iterator[object]:
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise BadOption(
            f"the planner of {request.declared.topic} returned {answer!r}: yield its shards, or return a list of them"
        )
    return iter(answer)
