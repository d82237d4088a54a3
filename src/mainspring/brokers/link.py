"""A link to a broker that is opened again when it breaks: one reconnect for all adapters."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from mainspring.brokers.contract import Broker, BrokerConnection, SendResult, WireMessage
from mainspring.model.errors import BrokerError, BrokerUnavailable, MainspringError
from mainspring.model.text import storable
from mainspring.model.views import BrokerLink

BrokerEvent = Literal["sent", "later", "rejected", "received", "stored", "repeat", "reconnected"]
"""What is counted: messages sent and confirmed, to be sent again, and rejected; received, stored, and received once
more; and connections that were opened again."""

_logger = logging.getLogger("mainspring.brokers")
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 15.0
CONFIRM_WITHIN = 15.0
"""Seconds within which a broker must confirm."""
CONNECT_WITHIN = 10.0
_LAG_WITHIN = 15.0
"""More than any adapter waits for a reply: one that is cancelled may have to give up its connection."""
_LONGEST_ERROR = 300


class Link:
    """The connection of one worker to one broker, shared by all that use it. Belongs to one event loop.

    A connection that broke is opened again, at most once per pause; the pause doubles, with jitter, while that fails.
    """

    def __init__(self, broker: Broker, now: Callable[[], float] = time.monotonic) -> None:
        self.broker: Broker = broker
        self.error: str | None = None
        """Why it is not connected, without passwords; None while it is, or has not been used."""
        self.counts: dict[BrokerEvent, int] = dict.fromkeys(get_args(BrokerEvent), 0)
        """What has happened since it was made."""
        self.lag: int | None = None
        """How many messages waited in the broker when that was last asked; None if that is unknown."""
        self._down_since: float | None = None
        self._now = now
        self._connection: BrokerConnection | None = None
        self._opening: asyncio.Lock = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0
        self._opened_once = False
        self._unread = False

    @property
    def down_for(self) -> float | None:
        """Seconds since it could not be opened; None while it is open, or was not used."""
        return None if self._down_since is None else self._now() - self._down_since

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self._connection is not None and not self._connection.closed

    def view(self, name: str, direction: Literal["out", "in"]) -> BrokerLink:
        """Return its state, for a report."""
        error = None if self.error is None else storable(self.error)[:_LONGEST_ERROR]
        down_for = None if self.down_for is None else round(self.down_for, 1)
        counts: dict[str, int] = {event: count for event, count in self.counts.items() if count}
        return BrokerLink(name, direction, self.is_open and not self._unread, error, down_for, self.lag, counts)

    async def measure(self) -> None:
        """Ask how many messages wait in the broker. Unknown without a connection, which is not opened for that."""
        connection = self._connection
        try:
            async with asyncio.timeout(_LAG_WITHIN):
                self.lag = None if connection is None or connection.closed else await connection.lag()
        except (BrokerError, TimeoutError):
            self.lag = None

    async def connection(self, patience: float = 0.0) -> BrokerConnection:
        """Return the open connection, or open it; wait for up to ``patience`` seconds. Raises BrokerUnavailable."""
        until = self._now() + patience
        while True:
            try:
                return await self._connected()
            except BrokerUnavailable:
                left = until - self._now()
                if left <= 0:
                    raise
                await asyncio.sleep(min(left, max(0.0, self._not_before - self._now())))

    async def send(
        self, messages: Sequence[WireMessage], patience: float = 0.0, within: float = CONFIRM_WITHIN
    ) -> list[SendResult]:
        """Send all; without a connection all are *later*, also if no attempt will mend that: the reason is told."""
        try:
            connection = await self.connection(patience)
        except BrokerUnavailable as error:
            self.counts["later"] += len(messages)
            return [SendResult("later", str(error))] * len(messages)
        results = await connection.send(messages, within)
        for each in results:
            self.counts[each.status] += 1
        return results

    def unread(self, error: BrokerError) -> None:
        """Note that nothing can be received: it counts as not connected, though it may open, until ``read``."""
        self._unread = True
        self.error = str(error)
        self._down_since = self._now() if self._down_since is None else self._down_since

    def read(self) -> None:
        """Note that the broker was asked for messages, and has answered."""
        if self._unread:
            self._unread, self.error, self._down_since = False, None, None
            _logger.info("%s is connected again", self.broker.shown)

    async def close(self) -> None:
        """Close the connection. It can be opened again."""
        async with self._opening:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> BrokerConnection:
        connection = self._connection
        if connection is not None and not connection.closed:
            return connection
        async with self._opening:
            if self.is_open:
                assert self._connection is not None, "it is open"
                return self._connection
            if self._now() < self._not_before:
                raise BrokerUnavailable(f"{self.broker.shown} is not connected: {self.error}")
            await self._drop()
            try:
                async with asyncio.timeout(CONNECT_WITHIN):
                    connection = await self.broker.connect()
                    self._connection = connection
                    await self._examine(connection)
            except TimeoutError:
                silent = (
                    f"no response within {CONNECT_WITHIN:g} s: check the host and the port, and that the broker runs"
                )
                raise await self._failed(BrokerUnavailable(silent)) from None
            except MainspringError as error:  # also an option that the client refuses, which buries no message
                raise await self._failed(error) from error
            except BaseException:  # cancelled, or a mistake of the adapter's
                await self._drop()
                raise
            self._succeeded()
            return connection

    async def _examine(self, connection: BrokerConnection) -> None:
        """Make what is missing, if that is wanted: a broker may come back empty. What is wrong is logged once."""
        if self.broker.declare:
            for each in await connection.declare():
                _logger.info("%s: made %s", self.broker.shown, each)
        for problem in [] if self._opened_once else await connection.check():
            _logger.warning("%s: %s", self.broker.shown, problem)

    async def _failed(self, error: MainspringError) -> BrokerUnavailable:
        await self._drop()
        self._failures += 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 16)) * random.uniform(0.5, 1.0)
        self._not_before = self._now() + pause
        self._down_since = self._now() if self._down_since is None else self._down_since
        if self._failures == 1:
            _logger.warning("%s cannot be reached, and is tried again: %s", self.broker.shown, error)
        self.error = str(error)
        return BrokerUnavailable(f"{self.broker.shown} is not connected: {self.error}")

    def _succeeded(self) -> None:
        if self._opened_once:
            self.counts["reconnected"] += 1
        self._failures, self._not_before = 0, 0.0
        if not self._unread:
            if self._opened_once:
                _logger.info("%s is connected again", self.broker.shown)
            self.error, self._down_since = None, None
        self._opened_once = True
