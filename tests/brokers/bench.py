"""What the contract of brokers needs of each: a place of its own to send to and read from."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from mainspring.brokers.contract import Broker, WireMessage

TOPIC = "orders.placed"


class Bench(Protocol):
    """One broker, with a fresh place on it for one test; what it makes there goes with the test."""

    largest: int
    """How many bytes a body may have; one more is rejected."""
    keeps_undelivered: bool
    """Whether a message that was given back is received again at once, not only on another connection."""

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


def message(
    number: int = 0,
    body: bytes | None = None,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
    key: str | None = None,
    correlation_id: str | None = None,
) -> WireMessage:
    body = b'{"n": %d}' % number if body is None else body
    return WireMessage(
        f"id-{number}", TOPIC, body, content_type, headers or {"ce-id": f"id-{number}"}, key, correlation_id
    )


async def until(question: Callable[[], bool | Awaitable[bool]]) -> None:
    """Ask until the answer is yes."""
    async with asyncio.timeout(60):
        while True:
            answer = question()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.01)
