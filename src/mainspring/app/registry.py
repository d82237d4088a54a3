"""Registering: message types, consumers and schedules, everything checked where it is written."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mainspring.app.catalogue import Catalogue
from mainspring.app.classes import Consumer
from mainspring.app.config import Options
from mainspring.app.consumed import ClassSender, Consumed, Registrar
from mainspring.app.consumers import ConsumerOptions, Consumers, check_options
from mainspring.app.envelope import Envelope
from mainspring.app.post import Post
from mainspring.app.registration import Registration
from mainspring.model.errors import BadOption, Misuse

if TYPE_CHECKING:
    from mainspring.app.advancing import Advancing
    from mainspring.app.fanout import FanoutCode
    from mainspring.app.planning import Coordinator
    from mainspring.app.recurring import Recurrences, RecurringOptions
    from mainspring.app.timings import RhythmOption
    from mainspring.runtime.schedules.reconciliation import Declared
    from mainspring.runtime.worker import Worker

M = TypeVar("M")


class Registry:
    """What an app's code declares at import: it connects to nothing and decides everything once."""

    def __init__(
        self,
        catalogue: Catalogue,
        consumers: Consumers,
        options: Options,
        envelope: Envelope,
        workers: Sequence[Worker],
        post: Callable[[], Post],
        advancing: Callable[[], Advancing],
        coordinator: Callable[[], Coordinator],
    ) -> None:
        self._catalogue = catalogue
        self._consumers = consumers
        self._options = options
        self._envelope = envelope
        self._workers = workers
        self._post = post
        self._advancing = advancing
        self._coordinator = coordinator

    @functools.cached_property
    def recurrences(self) -> Recurrences:
        """The schedules of code and configuration. Only an app that has some imports what reads them."""
        from mainspring.app.recurring import Recurrences

        return Recurrences(self._envelope, self._options.schedules)

    @property
    def known_recurrences(self) -> Recurrences | None:
        """The same; None where nothing has asked for them yet."""
        return vars(self).get("recurrences")

    def scheduled(self) -> Mapping[str, Declared]:
        """What code and configuration say of schedules, by their stored names."""
        is_used = self.known_recurrences is not None or self._options.schedules
        return self.recurrences.declared() if is_used else {}

    @functools.cached_property
    def fanouts(self) -> FanoutCode:
        """The fan-outs of code, imported by an app that has some."""
        from mainspring.app.fanout import FanoutCode

        return FanoutCode(self, self._consumers, self._advancing(), self._coordinator)

    def message(self, topic: str, codec: str | None, version: int) -> Callable[[M], M]:
        """See ``Mainspring.message``."""

        def register(kind: M) -> M:
            self._catalogue.register(kind, topic, codec, version)
            return kind

        return register

    def upcaster(self, kind: Any, version: int) -> Callable[[M], M]:
        """See ``Mainspring.upcaster``."""

        def register(function: M) -> M:
            self._catalogue.add_upcaster(kind, version, function)
            return function

        return register

    def consumer(self, topics: tuple[str | type | Any, ...], options: ConsumerOptions) -> Registrar:
        """See ``Mainspring.consumer``."""
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

    def recurring(self, rhythm: RhythmOption, options: RecurringOptions) -> Registrar:
        """See ``Mainspring.recurring``."""
        recurrences = self.recurrences
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

    def _consumed(self, plain: Any, registration: Registration) -> Any:
        if inspect.isclass(plain):
            # It stays the class it is, and learns to send to itself.
            cast("type[Consumer[Any]]", plain).mainspring = ClassSender(registration, self._post())
            return plain
        return Consumed(plain, registration, self._post())
