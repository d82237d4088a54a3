"""Intake: reads a source of a broker, stores what it brings, and then acknowledges it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mainspring.brokers.contract import BrokerConnection, Received
from mainspring.brokers.link import Link
from mainspring.model.errors import BrokerError
from mainspring.model.message import Draft
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import Service
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

WAIT = 5.0
"""Seconds for which one turn waits for a message."""

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


@dataclass(slots=True)
class _Held:
    """A batch that was received and is not acknowledged, on the connection that brought it."""

    connection: BrokerConnection
    batch: Sequence[Received]
    drafts: dict[str, Draft] = field(default_factory=dict)


class Intake(Service):
    """Stores each message with its inbox mark before the broker may forget it (invariant 33).

    What cannot be stored now is kept and tried again, and nothing more is received: the broker holds the rest. A
    message is never given back for a retry: retries are the consumer's, in the database. Killed at any point, it leaves
    messages that the broker delivers again, and marks that refuse them.
    """

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
        self._storage = storage
        self._stored = stored
        self._draining = draining
        self._held: _Held | None = None
        self._receiving: asyncio.Task[tuple[BrokerConnection, list[Received]]] | None = None

    async def turn(self) -> float:
        """Receive a batch, store it, acknowledge it."""
        if self._held is not None and self._held.connection.closed:
            self._held = None  # the broker delivers them again
        if self._held is None:
            if self._draining() or await self._is_full():
                return 1.0
            if self._stopping:
                return 0.0
            self._held = await self._received()
            if self._held is None:
                return 0.0
        held = self._held
        new = await self._storage.inbox.receive(self.feed.group, self.feed.link.broker.source, held.drafts)
        self._held = None
        counts = self.feed.link.counts
        counts["stored"] += len(new)
        counts["repeat"] += len(held.batch) - len(new)
        if new:
            self._stored()
        await held.connection.ack(held.batch)
        return 0.0

    def end_soon(self) -> None:
        """End after the current turn; a wait for messages ends now."""
        super().end_soon()
        if self._receiving is not None:
            self._receiving.cancel()

    async def _received(self) -> _Held | None:
        self._receiving = asyncio.create_task(self._receive())
        try:
            connection, batch = await self._receiving
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return None
        finally:
            self._receiving = None
        if not batch:
            return None
        self.feed.link.counts["received"] += len(batch)
        held = _Held(connection, batch)
        for each in batch:
            id, draft = self.feed.read(each)
            held.drafts.setdefault(id, draft)
        return held

    async def _receive(self) -> tuple[BrokerConnection, list[Received]]:
        connection = await self.feed.link.connection()
        return connection, await connection.receive(self.feed.prefetch, WAIT)

    async def _is_full(self) -> bool:
        limit = self.feed.pending_limit
        if limit is None:
            return False
        return (await self._storage.ledger.pending({self.feed.group: limit})).get(self.feed.group, 0) >= limit

    async def _loop(self) -> None:
        try:
            await super()._loop()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        held, self._held = self._held, None
        if held is not None and not held.connection.closed:
            with contextlib.suppress(BrokerError):  # they are delivered again when the connection ends
                await held.connection.nack(held.batch)
        await self.feed.link.close()
