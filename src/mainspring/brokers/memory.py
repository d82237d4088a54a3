"""A broker in this process, for tests: queues by name, bound to topics."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import ClassVar

from msgspec.structs import replace

from mainspring.brokers.contract import SENT, Broker, BrokerConnection, Received, SendResult, WireMessage
from mainspring.model.errors import BrokerUnavailable


class MemoryQueues:
    """The queues of a broker in this process: what waits in each, and which topics lead to it.

    ``away`` is why it cannot be reached, ``refuses`` why it takes nothing at the moment; None while it does.
    """

    def __init__(self, bindings: Mapping[str, Sequence[str]]) -> None:
        self.bindings: dict[str, tuple[str, ...]] = {name: tuple(topics) for name, topics in bindings.items()}
        self.waiting: dict[str, deque[Received]] = {name: deque() for name in bindings}
        self.away: str | None = None
        self.refuses: str | None = None
        self.largest: int = 1_000_000
        self.connections: set[MemoryConnection] = set()
        self.waiters: set[asyncio.Future[None]] = set()
        self.numbers: count[int] = count(1)

    def fail(self, why: str = "it was stopped") -> None:
        """Break every connection and accept none until ``heal``. What was not acknowledged waits again."""
        self.away = why
        for each in tuple(self.connections):
            each.drop()

    def heal(self) -> None:
        """Accept connections again."""
        self.away = None

    def put(self, queue: str, received: Received) -> None:
        """Put a message into a queue, as another program would."""
        coordinates = received.coordinates or f"{queue}/{next(self.numbers)}"
        self.waiting[queue].append(replace(received, address=queue, coordinates=coordinates))
        self.wake()

    def wake(self) -> None:
        """Wake those that wait for a message."""
        for each in tuple(self.waiters):
            if not each.done():
                each.get_loop().call_soon_threadsafe(_finish, each)

    def routed(self, topic: str) -> list[str]:
        """Return the queues of a topic; one that is bound to no topic receives all."""
        return [name for name, topics in self.bindings.items() if not topics or topic in topics]


class MemoryBroker(Broker):
    """A broker in this process. Brokers with the same ``queues`` are one; ``read`` names the queue of a source."""

    kind: ClassVar[str] = "memory"

    def __init__(self, queues: MemoryQueues, *, read: str | None = None) -> None:
        self.queues: MemoryQueues = queues
        self.read: str | None = read
        self.declare: bool = False

    @property
    def url(self) -> str:
        """Its address."""
        return "memory://broker"

    @property
    def source(self) -> str:
        """The queue that is read."""
        return "" if self.read is None else f"memory:{self.read}"

    def address(self, topic: str) -> str:
        """Return the queues that a topic leads to."""
        return ", ".join(self.queues.routed(topic))

    async def connect(self) -> BrokerConnection:
        """Connect."""
        if self.queues.away is not None:
            raise BrokerUnavailable(self.queues.away)
        return MemoryConnection(self)


class MemoryConnection:
    """A connection to a broker in this process."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._queues = broker.queues
        self._read = broker.read
        self._in_flight: dict[int, Received] = {}
        self._closed = False
        self._queues.connections.add(self)

    @property
    def closed(self) -> bool:
        """Whether it is lost."""
        return self._closed

    def drop(self) -> None:
        """Lose the connection: what it has received is delivered again, before anything else."""
        self._closed = True
        self._queues.connections.discard(self)
        self._return(list(self._in_flight.values()))

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """See ``BrokerConnection``."""
        async with asyncio.timeout(within):
            await asyncio.sleep(0)
        return [self._sent(each) for each in messages]

    def _sent(self, message: WireMessage) -> SendResult:
        queues = self._queues
        if self._closed:
            return SendResult("later", queues.away or "the connection is lost")
        if queues.refuses is not None:
            return SendResult("later", queues.refuses)
        if len(message.body) > queues.largest:
            return SendResult("rejected", f"its {len(message.body):,} bytes exceed the limit of {queues.largest:,}")
        routed = queues.routed(message.topic)
        if not routed:
            return SendResult("rejected", f"no queue is bound to {message.topic!r}")
        for name in routed:
            received = Received(
                message.body, message.headers, message.content_type, name, "", message.id, message.key,
                message.correlation_id,
            )  # fmt: skip
            queues.put(name, received)
        return SENT

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """See ``BrokerConnection``."""
        waiting = self._waiting()
        if not waiting:
            waiter = asyncio.get_running_loop().create_future()
            self._queues.waiters.add(waiter)
            try:
                async with asyncio.timeout(wait):
                    await waiter
            except TimeoutError:
                return []
            finally:
                self._queues.waiters.discard(waiter)
            waiting = self._waiting()
        taken: list[Received] = []
        while waiting and len(taken) < limit:
            number = next(self._queues.numbers)
            received = replace(waiting.popleft(), token=number)
            self._in_flight[number] = received
            taken.append(received)
        return taken

    def _waiting(self) -> deque[Received]:
        if self._closed or self._read is None:
            raise BrokerUnavailable(self._queues.away or "the connection is lost")
        return self._queues.waiting[self._read]

    async def ack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        if self._closed:
            raise BrokerUnavailable(self._queues.away or "the connection is lost")
        for each in received:
            self._in_flight.pop(each.token, None)

    async def nack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        self._return([self._in_flight[each.token] for each in received if each.token in self._in_flight])

    def _return(self, received: Sequence[Received]) -> None:
        for each in reversed(received):
            del self._in_flight[each.token]
            self._queues.waiting[each.address].appendleft(replace(each, redelivered=True, token=None))
        self._queues.wake()

    async def lag(self) -> int | None:
        """See ``BrokerConnection``."""
        return None if self._read is None else len(self._queues.waiting[self._read])

    async def check(self) -> list[str]:
        """See ``BrokerConnection``."""
        if self._read is None or self._read in self._queues.waiting:
            return []
        return [f"there is no queue {self._read!r}: declare=True makes it"]

    async def declare(self) -> list[str]:
        """See ``BrokerConnection``."""
        if self._read is None or self._read in self._queues.waiting:
            return []
        self._queues.bindings[self._read] = ()
        self._queues.waiting[self._read] = deque()
        return [f"queue {self._read}"]

    async def close(self) -> None:
        """See ``BrokerConnection``."""
        if not self._closed:
            self.drop()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
