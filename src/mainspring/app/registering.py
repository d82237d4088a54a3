"""Registering: message types, consumers and hooks, everything checked where it is written."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

from mainspring.app import discovery
from mainspring.app.catalogue import Catalogue
from mainspring.app.classes import Consumer
from mainspring.app.config import Options
from mainspring.app.consumed import ClassSender, Consumed, Registrar
from mainspring.app.consumers import ConsumerOptions, Consumers, check_options
from mainspring.app.envelope import Envelope
from mainspring.app.hooks import EventName, F, kind_of, subscribe
from mainspring.app.post import Post
from mainspring.app.registration import Registration
from mainspring.model.errors import BadOption, Misuse
from mainspring.telemetry.bus import Bus

if TYPE_CHECKING:
    from mainspring.app.recurring import Recurrences, RecurringOptions
    from mainspring.app.timings import RhythmOption
    from mainspring.runtime.schedules.reconciling import Declared
    from mainspring.runtime.worker import Worker

M = TypeVar("M")


class Registering:
    """The half of an app that is written down at import: it connects to nothing and decides everything once."""

    _catalogue: Catalogue
    _consumers: Consumers
    _workers: list[Worker]
    _post: Post
    _bus: Bus
    _options: Options
    _envelope: Envelope
    _front: Self | None = None
    """The app itself, where this is its twin on the background loop: what code declares is declared there."""

    @functools.cached_property
    def _recurrences(self) -> Recurrences:
        if self._front is not None:
            return self._front._recurrences  # noqa: SLF001 - of the same class
        # Only who has schedules pays for what reads them.
        from mainspring.app.recurring import Recurrences

        return Recurrences(self._envelope, self._options.schedules)

    def _scheduled(self) -> dict[str, Declared]:
        """What code and configuration say of schedules, by their stored names."""
        is_used = "_recurrences" in vars(self._front or self) or self._options.schedules
        return self._recurrences.declared() if is_used else {}

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
            known = self._consumers.of(plain)
            if known is not None and not known.topics:
                raise BadOption(
                    f"{known.name} recurs already: write @app.recurring(…) above @app.consumer(…), which then has all "
                    "options of the consumer"
                )
            return self._consumed(plain, self._consumers.register(plain, topics, options))

        return cast("Registrar", register)

    def _consumed(self, plain: Any, registration: Registration) -> Any:
        if inspect.isclass(plain):
            # It stays the class it is, and learns to send to itself.
            cast("type[Consumer[Any]]", plain).mainspring = ClassSender(registration, self._post)
            return plain
        return Consumed(plain, registration, self._post)

    def recurring(self, rhythm: RhythmOption, **options: Unpack[RecurringOptions]) -> Registrar:
        """Register a handler that runs on a rhythm: a cron expression, or an interval, ``every("90s")``.

        It is a consumer like any other, and its occurrences are messages. Everything is checked here.
        """
        recurrences = self._recurrences
        recurrences.check(rhythm, options)
        topics = recurrences.topics(options)
        own = {name: value for name, value in options.items() if name in ConsumerOptions.__annotations__}

        def register(function: Any) -> Any:
            if self._workers:
                raise Misuse("a schedule was registered while a worker runs: import its module before app.worker()")
            plain: Any = function.function if isinstance(function, Consumed) else function
            registration = self._consumers.of(plain)
            if registration is None:
                registration = self._consumers.register(plain, topics, own, recurring=True)
            elif topics:
                raise BadOption(
                    f"{registration.name} is registered by the decorator below, and so an occurrence goes to it alone: "
                    f"leave out mode= and topic=. To let every group of {topics[0]!r} receive it, write "
                    f"@app.recurring(…, topic={topics[0]!r}) above a function of its own, which receives it too"
                )
            elif own:
                said = ", ".join(f"{option}=" for option in sorted(own))
                raise BadOption(f"{registration.name} is registered by the decorator below: give {said} there")
            recurrences.add(rhythm, options, registration)
            return self._consumed(plain, registration)

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
        kind_of(event)  # here, not where the function is given
        if hook is None:
            return lambda hook: subscribe(self._bus, event, hook)
        return subscribe(self._bus, event, hook)
