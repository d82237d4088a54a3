"""What the contract of brokers needs of each: a place of its own to send to and read from."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from uuid import UUID

from mainspring.brokers.contract import Broker, Received, WireMessage

TOPIC = "orders.placed"


class Bench(Protocol):
    """One broker, with a fresh place on it for one test; what it makes there goes with the test."""

    largest: int
    """How many bytes a body may have; one more is rejected."""
    keeps_undelivered: bool
    """Whether a message that was given back is received again at once, not only on another connection."""
    parks: bool
    """Whether it keeps what leads nowhere until something is there, and so rejects nothing."""

    async def open(self) -> None:
        """Make the place."""
        ...

    async def close(self) -> None:
        """Remove it."""
        ...

    def sends(self) -> Broker:
        """Return the broker that sends ``TOPIC`` to this place."""
        ...

    def reads(self) -> Broker:
        """Return the broker that reads it."""
        ...

    def sends_nowhere(self) -> Broker:
        """Return one that sends where no queue, topic or stream is."""
        ...

    def reads_nothing(self) -> Broker:
        """Return one that reads from a place that is not there yet, and can be declared."""
        ...

    def at(self, url_port: int) -> Broker:
        """Return one of this kind at another port of this host."""
        ...


def event(number: int, **headers: str) -> Received:
    """A CloudEvent of ``TOPIC`` as a broker brings it."""
    given = {"ce-id": f"evt-{number}", "ce-type": TOPIC, "ce-subject": f"order:{number}", **headers}
    return Received(json.dumps({"n": number}).encode(), given, "application/json", "", "")


def message(
    number: int = 0,
    body: bytes | None = None,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
    key: str | None = None,
    correlation_id: str | None = None,
) -> WireMessage:
    body = b'{"n": %d}' % number if body is None else body
    id = identity(number)
    return WireMessage(id, TOPIC, body, content_type, headers or {"ce-id": id}, key, correlation_id)


def identity(number: int) -> str:
    """Return the id of a message: that of routes is a UUID."""
    return str(UUID(int=number))


async def until(question: Callable[[], bool | Awaitable[bool]]) -> None:
    """Ask until the answer is yes."""
    async with asyncio.timeout(60):
        while True:
            answer = question()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.01)
