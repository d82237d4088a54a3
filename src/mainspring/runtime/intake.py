"""Intake: reads a source of a broker, stores what it brings, and then acknowledges it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mainspring.brokers.contract import BrokerConnection, Received
from mainspring.brokers.link import Link
from mainspring.model.errors import BrokerError
from mainspring.model.message import Draft
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import Service
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.telemetry.spans import Spans

_logger = logging.getLogger("mainspring.brokers")

WAIT = 5.0
"""Seconds for which one turn waits for a message."""
LAG_EVERY = 10.0
"""Seconds between two questions how many messages wait in the broker."""
_FULL = 0.9
"""The share of ``prefetch`` from which on a batch counts as full: a source of several streams may leave a rest."""
_AHEAD = 0.01
"""Seconds for which a message is awaited while others are stored: acknowledging these may have to wait as long."""

_MOST_BYTES = 8 * 1024 * 1024
"""How many bytes of payloads are stored in one transaction, which must end before the database counts as away."""

_AT_ONCE = 50
"""How many received messages are read before what is stored beside them goes on."""

Read = Callable[[Received], tuple[str, Draft]]
"""Turns a received message into the sender's id and what is stored of it. Never raises for what it holds."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A source as a worker reads it: into the inbox of ``group``, up to ``prefetch`` messages at a time."""

    name: str
    group: str
    link: Link
    read: Read
    prefetch: int
    pending_limit: int | None = None
    """How many may wait for ``group`` before nothing more is received; None: any number."""
    spans: Spans | None = None
    """Creates a span for each message; None without tracing."""


@dataclass(slots=True)
class _Held:
    """A batch that was received and is not acknowledged, on the connection that brought it."""

    connection: BrokerConnection
    batch: Sequence[Received]
    drafts: dict[str, Draft] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    """Of what is stored so far, the ids that were not known."""
    came_at: int = field(default_factory=time.time_ns)
    """Nanoseconds, for its spans."""


def in_parts(drafts: Mapping[str, Draft]) -> Iterator[dict[str, Draft]]:
    """Yield the drafts in their order, in parts of which each can be stored in time, however large they are."""
    part: dict[str, Draft] = {}
    size = 0
    for id, draft in drafts.items():
        size += len(draft.payload)
        if part and size > _MOST_BYTES:
            yield part
            part, size = {}, len(draft.payload)
        part[id] = draft
    yield part


class Lag(Service):
    """Asks how many messages wait in the broker, beside the intake that receives them, and never delays it."""

    def __init__(self, feed: Feed, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__(f"lag {feed.name}", log, clock)
        self._link = feed.link

    async def turn(self) -> float:
        """Ask, if it is connected."""
        await self._link.measure()
        return LAG_EVERY if self._link.is_open else 1.0


class Intake(Service):
    """Stores each message with its inbox mark before the broker may forget it (invariant 33).

    What cannot be stored now is kept and tried again, and at most one batch more is received: the broker holds the
    rest. Batches are stored one after the other, in the order in which they came. A message is never given back for a
    retry: retries are the consumer's, in the database. Killed at any point, it leaves messages that the broker delivers
    again, and marks that refuse them.
    """

    repeat_after: float = 60.0

    def __init__(
        self,
        feed: Feed,
        storage: Storage,
        stored: Callable[[], None],
        draining: Callable[[], bool],
        log: RateLimitedLog,
        clock: Clock,
    ) -> None:
        super().__init__(f"intake {feed.name}", log, clock)
        self.feed: Feed = feed
        self._lag = Lag(feed, log, clock)
        self._storage = storage
        self._stored = stored
        self._draining = draining
        self._held: _Held | None = None
        self._receiving: asyncio.Task[_Held] | None = None
        """What waits for a message, or has the next batch while one is stored."""
        self._acking: asyncio.Task[None] | None = None
        """Acknowledges a batch that is stored, while the next one is."""

    async def turn(self) -> float:
        """Receive a batch and store it. In the meantime the one before is acknowledged, and the next is received."""
        if self._held is not None and self._held.connection.closed:
            self._held = None  # the broker delivers them again
        if self._held is None:
            if self._receiving is None and self._draining():
                await self.feed.link.close()  # what the broker has handed over, or reserved for it, is for others
                return 1.0
            if self._receiving is None and await self._is_full():
                return 1.0
            self._held = await self._next()
        if self._held is not None:
            await self._store(self._held)
        else:
            await self._acknowledged()
        return 0.0

    async def _next(self) -> _Held | None:
        """Return the batch that was received ahead, or wait for one; None if nothing comes, or the worker stops."""
        if self._receiving is None:
            if self._stopping:
                return None
            self._receiving = asyncio.create_task(self._receive(WAIT))
        held = await self._received(self._receiving)
        if held is not None and self._is_behind(held):
            self._receiving = asyncio.create_task(self._receive(_AHEAD))
        return held

    async def _store(self, held: _Held) -> None:
        broker, counts = self.feed.link.broker, self.feed.link.counts
        for part in in_parts(held.drafts):
            new, mismatched = await self._storage.inbox.receive(self.feed.group, broker.source, part)
            held.new |= new
            for id in mismatched:
                self._tell_mismatched(id)
            if new:
                self._stored()
        self._held = None
        counts["stored"] += len(held.new)
        counts["repeat"] += len(held.batch) - len(held.new)
        before, self._acking = self._acking, asyncio.create_task(self._acknowledge(held))
        if before is not None:
            await before
        if self._receiving is None:  # there is nothing to store in the meantime
            await self._acknowledged()

    async def _acknowledge(self, held: _Held) -> None:
        broker = self.feed.link.broker
        await held.connection.ack(held.batch)
        if self.feed.spans is not None:
            self.feed.spans.received(held.drafts, held.new, (broker.kind, broker.source), held.came_at)

    async def _acknowledged(self) -> None:
        """Wait until the broker has the acknowledgement of the last batch that was stored. Raises BrokerError."""
        acking, self._acking = self._acking, None
        if acking is not None:
            await acking

    def _tell_mismatched(self, id: str) -> None:
        _logger.warning("%s of %s came again with another payload, which is not stored", id, self.feed.name)

    def end_soon(self) -> None:
        """End after the current turn; a wait for messages ends now."""
        super().end_soon()
        if self._receiving is not None:
            self._receiving.cancel()

    async def _received(self, receiving: asyncio.Task[_Held]) -> _Held | None:
        try:
            held = await receiving
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return None
        finally:
            self._receiving = None
        return held if held.batch and not held.connection.closed else None

    async def _receive(self, wait: float) -> _Held:
        link = self.feed.link
        connection = await link.connection()
        try:
            held = _Held(connection, await connection.receive(self.feed.prefetch, wait))
        except BrokerError as error:
            link.unread(error)
            if link.broker.declare:  # what is read may be gone: the next connection makes it
                await link.close()
            raise
        link.read()
        link.counts["received"] += len(held.batch)
        try:
            for place, each in enumerate(held.batch):
                if place % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                id, draft = self.feed.read(each)
                if held.drafts.setdefault(id, draft).payload != draft.payload:
                    self._tell_mismatched(id)
        except asyncio.CancelledError:
            await self._give_back(held)
            raise
        return held

    def _is_behind(self, held: _Held) -> bool:
        """Whether more is received before this batch is stored: it is full, or nearly, and no limit is to be kept."""
        is_free = self.feed.pending_limit is None and not self._draining() and not self._stopping
        return is_free and len(held.batch) >= _FULL * self.feed.prefetch

    async def _is_full(self) -> bool:
        limit = self.feed.pending_limit
        if limit is None:
            return False
        return (await self._storage.ledger.pending({self.feed.group: limit})).get(self.feed.group, 0) >= limit

    async def _loop(self) -> None:
        self._lag.start()
        try:
            await super()._loop()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        left = [] if self._held is None else [self._held]
        receiving = self._receiving
        self._held = self._receiving = None
        if receiving is not None:
            receiving.cancel()
            await asyncio.wait([receiving])
            if not receiving.cancelled() and receiving.exception() is None:
                left.append(receiving.result())
        with contextlib.suppress(BrokerError):  # they are delivered again, and their marks refuse them
            await self._acknowledged()
        for held in reversed(left):  # the first of them is then received first
            await self._give_back(held)
        self._lag.end_soon()
        await self.feed.link.close()
        self._lag.abandon()

    async def _give_back(self, held: _Held) -> None:
        if not held.connection.closed:
            with contextlib.suppress(BrokerError):  # they are delivered again when the connection ends
                await held.connection.nack(held.batch)
