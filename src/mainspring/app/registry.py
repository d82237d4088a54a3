"""Registration of message types, consumers, schedules and hooks: everything is checked at import."""

from __future__ import annotations

import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from mainspring.app.config import Options
from mainspring.app.consume.consumer import ClassSender, Consumed, Registrar, Registration
from mainspring.app.consume.consumers import ConsumerOptions, Consumers, check_options
from mainspring.app.consume.middleware import CursorAdvance, Placed
from mainspring.app.consume.signature import Consumer
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.message.envelope import Envelope
from mainspring.app.options import nearest, refuse_unknown
from mainspring.app.publisher import Publisher
from mainspring.model.errors import BadOption, Conflict, Misuse
from mainspring.model.inbox import InboxReceipt
from mainspring.model.message import Draft
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import EVENTS

if TYPE_CHECKING:
    from mainspring.app.broker.route import RouteOptions
    from mainspring.app.fanout.coordinator import Coordinator
    from mainspring.app.fanout.declaration import FanoutCode
    from mainspring.app.schedule.recurring import Recurrences, RecurringOptions
    from mainspring.app.schedule.timing import RhythmOption
    from mainspring.brokers.contract import Broker
    from mainspring.runtime.schedules.declarations import Declared
    from mainspring.runtime.worker import Worker

M = TypeVar("M")
E = TypeVar("E")
R = TypeVar("R")
P = ParamSpec("P")
Hook = Callable[[E], R]
"""Takes one event; plain or async. Its result is ignored."""


class Here(Placed, Protocol):
    """The database that code works on where it runs."""

    @property
    def publisher(self) -> Publisher:
        """What publishes there."""
        ...

    @property
    def coordinator(self) -> Coordinator:
        """What plans fan-outs there."""
        ...


class Registry:
    """The declarations of an app's code at import. Connects to nothing."""

    def __init__(
        self,
        catalogue: Catalogue,
        consumers: Consumers,
        options: Options,
        envelope: Envelope,
        workers: Sequence[Worker],
        here: Callable[[], Here],
    ) -> None:
        self._catalogue = catalogue
        self._consumers = consumers
        self._options = options
        self._envelope = envelope
        self._workers = workers
        self._here = here

    @functools.cached_property
    def recurrences(self) -> Recurrences:
        """The schedules of code and configuration, imported by an app that has some."""
        from mainspring.app.schedule.recurring import Recurrences

        return Recurrences(self._envelope, self._consumers, self._options)

    @property
    def known_recurrences(self) -> Recurrences | None:
        """The same; None before their first use."""
        return vars(self).get("recurrences")

    def scheduled(self) -> Mapping[str, Declared]:
        """Return the schedules of code and configuration, by stored name."""
        is_used = self.known_recurrences is not None or self._options.schedules
        return self.recurrences.declared() if is_used else {}

    def of_fleet(self) -> frozenset[str]:
        """Return the names of those that run once for a whole fleet."""
        return frozenset(each.name for each in self.known_recurrences or () if each.scope == "fleet")

    def topics(self) -> set[str]:
        """Return the topics that the code publishes to, as far as it says so: of message types, and of schedules."""
        recurring = self.known_recurrences or ()
        return {*self._catalogue.registered, *(each.topic for each in recurring if each.mode == "publish")}

    @functools.cached_property
    def fanouts(self) -> FanoutCode:
        """The fan-outs of code, imported by an app that has some."""
        from mainspring.app.fanout.declaration import FanoutCode

        return FanoutCode(self, self._consumers, CursorAdvance(self._here), lambda: self._here().coordinator)

    def message(self, topic: str, codec: str | None, version: int) -> Callable[[M], M]:
        """See ``Mainspring.message``."""
        if inspect.isclass(topic):
            raise BadOption(
                f"@app.message has no parentheses above {topic.__qualname__}: write @app.message('orders.placed')"
            )

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

    def consumer(
        self, topics: tuple[str | type | Any, ...], options: ConsumerOptions, source: Broker | None = None
    ) -> Registrar:
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
            registration = self._consumers.register(plain, topics, options)
            if source is not None:
                self._read_from(source, None, registration)
            return self._consumed(plain, registration)

        return cast("Registrar", register)

    def route(self, topics: tuple[Any, ...], to: object, options: RouteOptions) -> None:
        """See ``Mainspring.route``."""
        from mainspring.app.broker.direct import DirectSender
        from mainspring.app.broker.route import Route, overlapping, read_route

        if self._workers:
            raise Misuse("a route was registered while a worker runs: register it before app.worker()")
        made = read_route(topics, to, options, self._consumers, self._options)
        for each in self._consumers:
            if isinstance(each, Route) and (topic := overlapping(each, made)) is not None:
                raise Conflict(
                    f"{each.name} and {made.name} both send {topic!r} to {made.broker.shown}, so that it would arrive "
                    "twice: leave it to one of them"
                )
        self._consumers.enter(made)
        self._consumers.direct = DirectSender

    def intake(self, broker: object, topics: object) -> None:
        """See ``Mainspring.intake``."""
        self._read_from(broker, topics, None)

    def _read_from(self, broker: object, topics: object, fed: Registration | None) -> None:
        from mainspring.app.broker.intake import Intake, read_intake

        if self._workers:
            raise Misuse("an intake was registered while a worker runs: register it before app.worker()")
        made = read_intake(broker, topics, self._options, self._received, fed)
        for each in self._consumers:
            if isinstance(each, Intake) and (shared := each.reader.broker.reads & made.reader.broker.reads):
                raise Conflict(
                    f"{min(shared)} is read by {each.caller} already, so {made.caller} would get some of its messages "
                    "and lose the others: read it once, by app.intake(…), and let all consume its topics; if these are "
                    "two servers, give one of them a name=, as in name='eu'"
                )
        self._consumers.enter(made)

    async def _received(self, group: str, source: str, received: Mapping[str, Draft]) -> InboxReceipt:
        return await self._here().publisher.receive(group, source, received)

    def recurring(self, rhythm: RhythmOption, options: RecurringOptions) -> Registrar:
        """See ``Mainspring.recurring``."""
        from mainspring.app.schedule.recurring import SHARED

        recurrences = self.recurrences
        recurrences.check(rhythm, options)
        topics = recurrences.topics(options)
        own = {name: value for name, value in options.items() if name in ConsumerOptions.__annotations__}

        def register(function: Any) -> Any:
            if self._workers:
                raise Misuse("a schedule was registered while a worker runs: import its module before app.worker()")
            plain: Any = function.function if isinstance(function, Consumed) else function
            registration = self._consumers.of(plain)
            shares = registration is not None
            if registration is None:
                keyed = options.get("key") is not None
                registration = self._consumers.register(plain, topics, own, recurring=True, keyed=keyed)
            elif topics:
                raise BadOption(
                    f"{registration.name} is registered by the decorator below, and so an occurrence goes to it alone: "
                    f"leave out mode= and topic=. To let every group of {topics[0]!r} receive it, write "
                    f"@app.recurring(…, topic={topics[0]!r}) above a function of its own, which receives it too"
                )
            elif others := own.keys() - SHARED:
                names = ", ".join(f"{option}=" for option in sorted(others))
                raise BadOption(f"{registration.name} is registered by the decorator below: give {names} there")
            recurrences.add(rhythm, options, registration, shares=shares)
            return self._consumed(plain, registration)

        return cast("Registrar", register)

    def _consumed(self, plain: Any, registration: Registration) -> Any:
        if inspect.isclass(plain):
            # It stays a class, and gets a sender to itself.
            cast("type[Consumer[Any]]", plain).mainspring = ClassSender(registration, self._publisher)
            return plain
        return Consumed(plain, registration, self._publisher)

    def _publisher(self) -> Publisher:
        return self._here().publisher


def include(target: ModuleType | str) -> list[str]:
    """Import the module, and the modules of a package recursively. Return their names."""
    if isinstance(target, str):
        module = _load(target)
    elif isinstance(target, ModuleType):
        module = target
    else:
        raise BadOption(f"include({target!r}): pass a module, or its dotted name as in 'shop.consumers'")
    names = [module.__name__]
    path = getattr(module, "__path__", None)
    if path is not None:
        for found in pkgutil.walk_packages(path, module.__name__ + ".", onerror=_reraise):
            # `__main__` is a script: importing it would run it.
            if found.name.rpartition(".")[2] != "__main__":
                import_module(found.name)
                names.append(found.name)
    return names


def _load(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        # Only the named module: an import that fails inside it is raised as it is.
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise BadOption(
            f"include({name!r}): there is no module {error.name!r}; write its dotted name as in an import, and start "
            "where it can be imported from"
        ) from error
    except (TypeError, ValueError) as error:
        if not name or name.startswith("."):
            raise BadOption(f"include({name!r}): write the full dotted name, as in 'shop.consumers'") from error
        raise


def _reraise(_name: str) -> None:
    raise  # noqa: PLE0704 - called while the import's own error is being handled


def check_event(event: object) -> None:
    """Raise BadOption unless this is the class of an event, and suggest the closest class."""
    if event in EVENTS:
        return
    names = {each.__name__.lower(): each.__name__ for each in EVENTS}
    near = nearest(event, names) if isinstance(event, str) else None
    if near is not None:
        raise BadOption(f"app.on({event!r}): write app.on(events.{names[near]}), with `from mainspring import events`")
    raise BadOption(f"app.on({event!r}): name a class of mainspring.events, one of {', '.join(names.values())}")


def with_rhythm(recurring: Callable[P, R]) -> Callable[P, R]:
    """Raise BadOption for a call without a rhythm, as with ``cron="…"`` in its place, naming what to write."""

    @functools.wraps(recurring)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        if len(args) == 1 and "rhythm" not in options:
            from mainspring.app.schedule.recurring import RecurringOptions

            refuse_unknown(options, RecurringOptions.__annotations__, "@app.recurring(…)")
            raise BadOption("@app.recurring(…) needs a rhythm: '0 9 * * mon-fri' or every('90s')")
        return recurring(*args, **options)

    return checked


def subscribe(bus: Bus, event: type[E], hook: Hook[E, R]) -> Hook[E, R]:
    """Call the hook with every event of this class."""
    check_event(event)
    if not callable(hook):
        raise BadOption(f"app.on(events.{event.__name__}) goes above a function, not {hook!r}")
    bus.subscribe(event, hook)
    return hook
