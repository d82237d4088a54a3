"""Brokers: where routes send to and sources read from. Each client is an extra, imported when it connects."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.app.broker.remote import Remote
    from mainspring.brokers.contract import Broker
    from mainspring.brokers.kafka import Kafka
    from mainspring.brokers.memory import MemoryBroker, MemoryQueues
    from mainspring.brokers.nats import Nats
    from mainspring.brokers.rabbitmq import RabbitMQ
    from mainspring.brokers.redis import RedisStreams

__all__ = ["Broker", "Kafka", "MemoryBroker", "MemoryQueues", "Nats", "RabbitMQ", "RedisStreams", "Remote"]

_HOMES = {
    "Broker": "mainspring.brokers.contract",
    "Kafka": "mainspring.brokers.kafka",
    "MemoryBroker": "mainspring.brokers.memory",
    "MemoryQueues": "mainspring.brokers.memory",
    "Nats": "mainspring.brokers.nats",
    "RabbitMQ": "mainspring.brokers.rabbitmq",
    "RedisStreams": "mainspring.brokers.redis",
    "Remote": "mainspring.app.broker.remote",  # it opens a database, which no broker of this room does
}

# Hidden from type checkers: they would believe that every name is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a broker when it is first asked for: most apps use one."""
        module = _HOMES.get(name)
        if module is None:
            raise AttributeError(f"module 'mainspring.brokers' has no attribute {name!r}")
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
