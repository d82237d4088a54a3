"""The broker in this process."""

from mainspring.brokers.contract import Broker
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from tests.brokers.bench import TOPIC


class MemoryBench:
    largest = 100_000
    keeps_undelivered = True
    parks = False

    def __init__(self) -> None:
        self.queues = MemoryQueues({"billing": [TOPIC]})
        self.queues.largest = self.largest

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def sends(self) -> Broker:
        return MemoryBroker(self.queues)

    def reads(self) -> Broker:
        return MemoryBroker(self.queues, read="billing")

    def sends_nowhere(self) -> Broker:
        return MemoryBroker(MemoryQueues({}))

    def reads_nothing(self) -> Broker:
        return MemoryBroker(self.queues, read="missing")

    def at(self, url_port: int) -> Broker:
        away = MemoryQueues({})
        away.away = f"port {url_port} refuses connections"
        return MemoryBroker(away)
