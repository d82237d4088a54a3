"""Registering: message types, consumers and hooks, everything checked where it is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from mainspring.app import discovery
from mainspring.app.catalogue import Catalogue
from mainspring.app.classes import Consumer
from mainspring.app.consumed import ClassSender, Consumed, Registrar
from mainspring.app.consumers import ConsumerOptions, Consumers, check_options
from mainspring.app.hooks import EventName, F, subscribe
from mainspring.app.names import Namespace
from mainspring.app.post import Post
from mainspring.model.errors import BadOption, Misuse
from mainspring.telemetry.bus import Bus

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

M = TypeVar("M")


class Registering:
    """The half of an app that is written down at import: it connects to nothing and decides everything once."""

    _names: Namespace
    _catalogue: Catalogue
    _consumers: Consumers
    _workers: list[Worker]
    _post: Post
    _bus: Bus

    def message(self, topic: str, *, codec: str | None = None, version: int = 1) -> Callable[[M], M]:
        """Say which topic a type is published on, so that ``publish(value)`` needs no string.

        ``codec`` is the content type of one of the app's ``codecs`` [JSON], ``version`` that of the type's fields.
        """

        def register(kind: M) -> M:
            self._catalogue.register(kind, topic, codec, version)
            return kind

        return register

    def upcaster(self, kind: Any, version: int) -> Callable[[M], M]:
        """Register what turns this version of a message type into the next one: a function from a dict to a dict."""

        def register(function: M) -> M:
            self._catalogue.add_upcaster(kind, version, function)
            return function

        return register

    def consumer(self, *topics: str | type | Any, **options: Unpack[ConsumerOptions]) -> Registrar:
        """Register a handler for topics, patterns (``orders.*``, ``orders.#``) and message types.

        Without any, the topic is that of the type its payload is annotated with. The signature and the options are
        checked here; the function stays callable as it was.
        """
        check_options(options)
        if len(topics) == 1 and inspect.isroutine(topics[0]):
            raise BadOption(
                f"@app.consumer has no parentheses above {topics[0].__qualname__}: write "
                "@app.consumer('orders.placed'), or @app.consumer() where its payload has @app.message(topic)"
            )

        def register(function: Any) -> Any:
            if self._workers:
                raise Misuse("a consumer was registered while a worker runs: import its module before app.worker()")
            plain: Any = function.function if isinstance(function, Consumed) else function
            registration = self._consumers.register(plain, topics, options)
            if inspect.isclass(plain):
                # It stays the class it is, and learns to send to itself.
                cast("type[Consumer[Any]]", plain).mainspring = ClassSender(registration, self._post)
                return plain
            return Consumed(plain, registration, self._post)

        return cast("Registrar", register)

    def include(self, module: ModuleType | str) -> list[str]:
        """Import a module, or a package with all its modules, so that its consumers register. Returns their names."""
        return discovery.include(module)

    @overload
    def on(self, event: EventName) -> Callable[[F], F]: ...

    @overload
    def on(self, event: EventName, hook: F) -> F: ...

    def on(self, event: EventName, hook: F | None = None) -> F | Callable[[F], F]:
        """Call the function, plain or async, with every event of this name that a worker of this process settles.

        The events are in ``mainspring.events``. What a hook raises is logged and changes nothing.
        """
        if hook is None:
            return lambda hook: subscribe(self._bus, self._names, event, hook)
        return subscribe(self._bus, self._names, event, hook)
