"""The code of an app: its options, message types, consumers and schedules, whatever database they work on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mainspring.app.config import Options
from mainspring.app.consume.consumers import Consumers
from mainspring.app.consume.injection import Resolver, read_resolver
from mainspring.app.consume.middleware import Middleware, PublishChain, check_middleware
from mainspring.app.message.catalogue import Catalogue, read_codecs
from mainspring.app.message.envelope import Envelope
from mainspring.app.registry import Here, Registry
from mainspring.storage.codec import Codec
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.tracing import Tracing
from mainspring.timing.clock import ReplaceableClock, SystemClock

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker


class Code:
    """Everything of an app that is no database's: several databases may share it. Connects to nothing."""

    def __init__(
        self,
        options: Options,
        resolver: Resolver | object,
        codecs: Iterable[Codec],
        middleware: Sequence[Middleware],
        here: Callable[[], Here],
    ) -> None:
        self.options: Options = options
        self.clock: ReplaceableClock = ReplaceableClock(SystemClock())
        self.catalogue: Catalogue = Catalogue(read_codecs(codecs))
        around = check_middleware(middleware)
        self.bus: Bus = Bus()
        resolving = None if resolver is None else read_resolver(resolver)
        self.consumers: Consumers = Consumers(self.catalogue, options, resolving, around)
        self.tracing: Tracing = Tracing(options.tracing)
        self.chain: PublishChain = PublishChain(around, self.tracing)
        orders = self.consumers.orders
        self.envelope: Envelope = Envelope(self.catalogue, options.payload_limit, self.clock, orders)
        self.workers: list[Worker] = []
        """The workers of this process that run it, on every database."""
        declared = (self.catalogue, self.consumers, options, self.envelope, self.workers)
        self.registry: Registry = Registry(*declared, here)
