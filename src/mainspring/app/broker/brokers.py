"""``app.brokers``: the routes and intakes of an app, whether their brokers respond, and what is missing there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mainspring.app.blocking import Face, blocking
from mainspring.app.broker.intake import Intake
from mainspring.app.broker.route import Route
from mainspring.app.broker.state import BrokerState, BrokerView, states
from mainspring.app.connection import Connection
from mainspring.app.consume.consumers import Consumers
from mainspring.brokers.contract import Broker, BrokerConnection
from mainspring.model.errors import BrokerError, MainspringError

T = TypeVar("T")
_PATIENCE = 10.0
"""Seconds that one broker may take."""


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """Whether a broker responds, and what is wrong there."""

    broker: BrokerView
    problems: tuple[str, ...] = ()
    """A sentence each, with what to change; empty if all is well."""
    lag: int | None = None
    """How many messages wait in the broker; None for a route, or if that is unknown."""
    took: float = 0.0
    """Seconds."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class BrokerDeclared:
    """What was made in a broker."""

    broker: BrokerView
    made: tuple[str, ...] = ()
    error: str | None = None
    """Why nothing could be made; None otherwise."""


class Brokers:
    """The brokers that the app's code names. Each call connects by itself, and to all of them at once."""

    def __init__(self, consumers: Consumers, connection: Connection) -> None:
        self._consumers = consumers
        self._connection = connection

    async def list(self) -> list[BrokerView]:
        """Return the routes and intakes of the code; connects to nothing."""
        return [view for view, _ in self._known()]

    async def states(self, cap: int = 10_000) -> Sequence[BrokerState]:
        """Return the routes and intakes of the database and of the code, with what live workers report of them.

        Connects to no broker. Deliveries are counted up to ``cap``.
        """
        storage = await self._connection.storage("app.brokers.states()")
        return states(await self.list(), await storage.ledger.roster(), await storage.ledger.tally(cap))

    async def check(self) -> Sequence[BrokerCheck]:
        """Connect to each, and return what is wrong: unreachable, or without a queue, topic or stream."""
        return await asyncio.gather(*(_checked(view, broker) for view, broker in self._known()))

    async def declare(self) -> Sequence[BrokerDeclared]:
        """Make the exchanges, queues, topics and streams that are missing; idempotent."""
        return await asyncio.gather(*(_declared(view, broker) for view, broker in self._known()))

    async def asyncapi(self) -> dict[str, Any]:
        """Return the AsyncAPI 3.0 document of what the code sends, reads and handles; connects to nothing."""
        from mainspring.app.broker.asyncapi import Document

        return Document(self._consumers).build()

    def _known(self) -> Sequence[tuple[BrokerView, Broker]]:
        found: list[tuple[BrokerView, Broker]] = []
        for each in self._consumers:
            if isinstance(each, Route):
                view = BrokerView(each.group, "out", each.broker.kind, each.broker.shown, each.topics, each.group)
                found.append((view, each.broker))
            elif isinstance(each, Intake):
                broker = each.reader.broker
                view = BrokerView(broker.source, "in", broker.kind, broker.shown, each.reader.topics, each.group)
                found.append((view, broker))
        return found


async def _checked(view: BrokerView, broker: Broker) -> BrokerCheck:
    began = time.monotonic()

    async def examine(connection: BrokerConnection) -> tuple[tuple[str, ...], int | None]:
        problems = tuple(await connection.check())
        return problems, await connection.lag() if view.direction == "in" and not problems else None

    try:
        problems, lag = await _connected(broker, examine)
    except MainspringError as error:  # also a missing extra, which hides no other
        problems, lag = (str(error),), None
    return BrokerCheck(view, problems, lag, time.monotonic() - began)


async def _declared(view: BrokerView, broker: Broker) -> BrokerDeclared:
    try:
        return BrokerDeclared(view, tuple(await _connected(broker, lambda connection: connection.declare())))
    except MainspringError as error:
        return BrokerDeclared(view, error=str(error))


async def _connected(broker: Broker, work: Callable[[BrokerConnection], Awaitable[T]]) -> T:
    try:
        async with asyncio.timeout(_PATIENCE):
            connection = await broker.connect()
            try:
                return await work(connection)
            finally:
                await connection.close()
    except TimeoutError:
        raise BrokerError(f"{broker.shown} has not responded within {_PATIENCE:g} s") from None


class SyncBrokers(Face[Brokers]):
    """The brokers that the app's code names, for code that blocks."""

    list: Final = blocking(Brokers.list)
    states: Final = blocking(Brokers.states)
    check: Final = blocking(Brokers.check)
    declare: Final = blocking(Brokers.declare)
    asyncapi: Final = blocking(Brokers.asyncapi)
