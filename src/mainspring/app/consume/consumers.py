"""The registry of consumers: their options, their names, and all checks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypedDict, cast

from mainspring.app.config import KEEPS, MOST_AT_ONCE, Options, time_limit
from mainspring.app.connection import Connection
from mainspring.app.consume import signature
from mainspring.app.consume.backpressure import Backlogs, WhenFull, read_pending_limit
from mainspring.app.consume.batch import BATCH_CONCURRENCY, check_batch, read_batch
from mainspring.app.consume.consumer import Registration, registration_of
from mainspring.app.consume.cpu import check_place, check_program, cores
from mainspring.app.consume.injection import Resolver
from mainspring.app.consume.limits import read_limits
from mainspring.app.consume.middleware import CursorAdvance, Middleware, check_middleware
from mainspring.app.consume.queue_registry import QueueRegistry
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.message.envelope import OrderedGroups
from mainspring.app.names import check_own_group, check_pattern, handler_name, is_reloaded
from mainspring.app.options import choice, closest, flag, given, refuse_unknown, retry_policy, whole
from mainspring.app.transaction.sources import Source, read_source
from mainspring.model.errors import BadOption, BadSignature, Conflict
from mainspring.model.limits import OnFailure
from mainspring.model.message import Draft, Keep, Receipt
from mainspring.storage.patterns import is_wild
from mainspring.timing.backoff import RECURRING, RetryPolicy
from mainspring.timing.breaker import Breaker
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

# A worker never fetches more than its free slots, so this is also how much one process takes at a time. Coroutines
# mostly wait and cost kilobytes; a thread costs a stack, and a hundred of them share one interpreter.
ASYNC_CONCURRENCY = 100
THREAD_CONCURRENCY = 10


class ConsumerOptions(TypedDict, total=False):
    """Options of ``@app.consumer(*topics, …)``; None is the same as leaving an option out."""

    group: str | None
    """The consumer's name in the database [the function's name]; it keeps the work of a renamed function."""
    retry: RetryPolicy | str | None
    """When to retry after a failure: a policy, a preset's name or waits [the app's; "recurring" for schedules]."""
    timeout: Duration | None
    """The time limit of one attempt; "none": none [the app's ``timeout``; its ``recurring_timeout`` for schedules]."""
    concurrency: int | None
    """How many run at once in one process [100 for ``async def``, 10 for plain functions, one per core for cpu]."""
    keep: Keep | None
    """How much history its deliveries leave [the app's]."""
    breaker: Breaker | None
    """When it pauses itself because too much fails, as in ``breaker(failures=10, within="1m")`` [never]."""
    middleware: Sequence[Middleware] | None
    """Middleware around its attempts, inside the app's own [none]."""
    ordered: bool | None
    """Handle messages of one key one at a time, in publish order, over all workers [False]."""
    on_failure: OnFailure | None
    """What a failed message of an ordered consumer does to those behind it: "block" or "skip" ["block"]."""
    key_concurrency: int | None
    """How many of one key run at once, over all workers [any number]."""
    global_concurrency: int | None
    """How many run at once, over all workers [any number]."""
    rate: str | None
    """How many start in what time, over all workers, as in "100/1m" [any number]."""
    key_rate: str | None
    """How many of one key start in what time, over all workers [any number]."""
    batch: int | None
    """How many messages it is given at once, as a list, at most 1,000 [one, and no list]."""
    linger: Duration | None
    """How long the first message of a batch that is not full waits for others, at most a minute ["50ms"]."""
    cpu: bool | None
    """Run a plain function in processes of their own, killed when they run out of time [False]."""
    pending_limit: int | None
    """How many of its messages may wait before publishing to it raises or waits [any number]."""
    when_full: WhenFull | None
    """What a publish over the limit does: "raise" Backlogged, or "wait" for room, half a minute ["raise"]."""
    transactional: bool | str | Callable[[], Any] | None
    """Commit what the handler writes through ``ctx.tx``, what it publishes and its verdict as one [False]. True: on a
    connection of the app's own; a factory of sessions or connections, or a Django alias: on yours."""


class DirectSending(Protocol):
    """Sending to the brokers of routes, without the outbox."""

    def check(self, options: Mapping[str, Any], call: str) -> None:
        """Raise BadOption for an option that only a stored message has."""
        ...

    async def send(self, drafts: Sequence[Draft], call: str) -> list[Receipt]:
        """Send each to every route of its topic."""
        ...


class Consumers:
    """The in-process registry, the only source of handlers."""

    def __init__(
        self,
        catalogue: Catalogue,
        options: Options,
        resolver: Resolver | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.catalogue: Catalogue = catalogue
        """The message types of the app."""
        self._resolver = resolver
        self._middleware = middleware
        self.options: Options = options
        """The options of the app."""
        self._registered: dict[str, Registration] = {}
        self.queues: QueueRegistry = QueueRegistry()
        """The groups that are queues, not consumers."""
        self.backlogs: Backlogs = Backlogs()
        """The groups that have a pending limit."""
        self.orders: OrderedGroups = OrderedGroups()
        """The groups that are ordered."""
        self.direct: Callable[[Connection, Iterable[Registration], Clock], DirectSending] | None = None
        """Makes what sends to the brokers of routes; None while there is no route."""

    def __iter__(self) -> Iterator[Registration]:
        """Yield in registration order."""
        return iter(self._registered.values())

    def __len__(self) -> int:
        """Count them."""
        return len(self._registered)

    def chosen(self, groups: Any) -> list[Registration]:
        """Return the consumers of these groups; all if none are named."""
        if groups is None:
            return list(self)
        for group in [groups] if isinstance(groups, str) else groups:
            if group not in self._registered:
                names = ", ".join(self._registered) or "none"
                raise BadOption(
                    f"no consumer has group {group!r}.{closest(group, self._registered)} There are: {names}"
                )
        wanted = {groups} if isinstance(groups, str) else set(groups)
        return [each for each in self if each.group in wanted or each.feeds in wanted]

    def find(self, consumer: object) -> Registration:
        """Return the consumer that is meant, by itself, its function or its name. Raises BadOption.

        Only this registry decides what may run (invariant 9).
        """
        found = registration_of(consumer)
        if found is not None:
            known = self._registered.get(found.group)
            if known is not None and (known is found or known.function is found.function):
                return known
            raise BadOption(f"{found.name} is a consumer of another app: pass one that this app has registered")
        if isinstance(consumer, str):
            return self._named(consumer)
        known = self.of(consumer) if callable(consumer) else None
        if known is not None:
            return known
        raise BadOption(
            f"{consumer!r} is no consumer of this app: pass the function or class below @app.consumer(…) or "
            "@app.recurring(…), or the name of its group"
        )

    def _named(self, name: str) -> Registration:
        if name in self._registered:
            return self._registered[name]
        named = [each for each in self if name in (each.name, each.name.rpartition(".")[2])]
        if len(named) == 1:
            return named[0]
        if name in self.queues:
            raise BadOption(f"{name!r} is app.queue({name!r}), which has no handler to run: name a consumer")
        if not self._registered:
            raise BadOption(
                f"{name!r} is no consumer of this process, which has none: import the modules that register them, or "
                "name the app, as in --app shop:app"
            )
        groups = ", ".join(each.group for each in named or self)
        raise BadOption(f"{name!r} is no consumer of this app.{closest(name, self._registered)} There are: {groups}")

    def of(self, function: Callable[..., Any]) -> Registration | None:
        """Return the registration of this function, or None."""
        return next((each for each in self if each.function is function), None)

    def register(
        self,
        function: Callable[..., Any],
        topics: tuple[Any, ...],
        options: Mapping[str, Any],
        *,
        recurring: bool = False,
        keyed: bool = True,
    ) -> Registration:
        """Check and register a consumer; raise if it is invalid. A recurring one needs no topic."""
        registration = self._read(function, topics, given(options), recurring=recurring, keyed=keyed)
        self.enter(registration)
        shape, decode = registration.shape, registration.decode
        self.catalogue.consumed(registration.group, registration.topics, shape.annotation, decode)
        return registration

    def enter(self, registration: Registration) -> None:
        """Enter one that was read; raises Conflict if its group belongs to another."""
        function, other = registration.function, self._registered.get(registration.group)
        if other is not None and other.function is not function and not is_reloaded(other.function, function):
            this = "this one" if registration.name == other.name else registration.name
            raise Conflict(
                f"group {registration.group!r} already belongs to {other.name}: give {this} another "
                "group=…, since two consumers of one group would each get half of its messages"
            )
        if registration.group in self.queues:
            raise Conflict(
                f"group {registration.group!r} already belongs to app.queue({registration.group!r}): give "
                f"{registration.name} another group=…, since each of the two would get half of its messages"
            )
        self._registered[registration.group] = registration
        self.backlogs.note(registration.group, registration.topics, registration.pending_limit)
        self.orders.note(registration.group, registration.topics, registration.limits)

    def _read(
        self, function: Any, topics: tuple[Any, ...], options: dict[str, Any], *, recurring: bool, keyed: bool
    ) -> Registration:
        if not callable(function):
            raise BadSignature(f"@app.consumer(…) goes above a function, not {function!r}")
        name = handler_name(function)
        shape = signature.read(function, self._resolver)
        cpu = flag(options.get("cpu", False), "cpu")
        if cpu:
            check_program(function, name, is_async=not shape.threaded)
            check_place(function, name, self._needed(shape))
        shape, batches = read_batch(options, shape, name, cpu=cpu)
        threaded = shape.threaded and not cpu
        group = check_own_group(options.get("group") or _default_group(function, name))
        patterns = () if recurring and not topics else tuple(dict.fromkeys(self._patterns(topics, shape, name)))
        transactional = self._transactional(options, name, threaded=threaded, cpu=cpu)
        most = cores() if cpu else THREAD_CONCURRENCY if threaded else ASYNC_CONCURRENCY
        if batches is not None:
            most = BATCH_CONCURRENCY
        if transactional is not None:
            most = min(most, transactional.capacity() or self.options.handler_pool)
        concurrency = whole(options.get("concurrency", most), "concurrency", least=1, most=MOST_AT_ONCE)
        around = (*self._middleware, *check_middleware(options.get("middleware", ())))
        # CursorAdvance is the outermost: if a middleware fails, which may be the one that commits, cursors stay.
        middleware = tuple(sorted(around, key=lambda each: not isinstance(each, CursorAdvance)))
        if batches is not None:
            check_batch(batches, concurrency, middleware, name)
        return Registration(
            group=group,
            name=name,
            function=function,
            shape=shape,
            decode=signature.payload_decoder(shape, self.catalogue.decoder),
            topics=patterns,
            topic=self.catalogue.topic_of(shape.annotation)
            or next((each for each in patterns if not is_wild(each)), group),
            retry=retry_policy(options.get("retry"), RECURRING if recurring else self.options.retry),
            timeout=self._timeout(options, recurring=recurring),
            concurrency=concurrency,
            keep=cast("Keep", choice(options.get("keep", self.options.keep), KEEPS, "keep")),
            keep_scheduled=cast("Keep", options.get("keep", "all")),
            retry_scheduled=None if options.get("retry") is not None else RECURRING,
            dead=self.options.dead,
            threaded=threaded,
            cpu=cpu,
            breaker=_breaker(options.get("breaker")),
            middleware=middleware,
            batching=batches,
            transactional=transactional,
            pending_limit=read_pending_limit(options, name),
            limits=read_limits(options, name, keyless=not keyed and not topics),
            newer_wait=self.options.newer_wait,
        )

    def _transactional(self, options: Mapping[str, Any], name: str, *, threaded: bool, cpu: bool) -> Source | None:
        source = read_source(options.get("transactional"), name, threaded=threaded)
        if source is not None and cpu:
            raise BadOption(f"{name} has transactional= and cpu=True, whose processes open no database: drop one")
        return source

    def _timeout(self, options: Mapping[str, Any], *, recurring: bool) -> timedelta | None:
        """Return its limit, or the app's: schedules have one of their own, since they may run long."""
        if "timeout" in options:
            return time_limit(options["timeout"], "timeout")
        sources = self.options.sources
        is_set = sources.get("timeout", "default") != "default"
        if recurring and (sources.get("recurring_timeout", "default") != "default" or not is_set):
            return self.options.recurring_timeout
        return self.options.timeout

    def _needed(self, shape: signature.Shape) -> list[str]:
        """Describe what this handler needs of the app."""
        needed = [] if shape.payload is None else self.catalogue.needed(shape.annotation)
        if shape.plan.resolves:
            needed.append("the resolver of the app")
        return needed

    def _patterns(self, topics: tuple[Any, ...], shape: signature.Shape, name: str) -> Iterator[str]:
        for topic in topics:
            if isinstance(topic, str):
                yield check_pattern(topic)
            else:
                yield self.topic_of(topic)
        if not topics:
            own = self.catalogue.topic_of(shape.annotation)
            if own is None:
                raise BadOption(
                    f"{name} has no topic: name one, @app.consumer('orders.placed'), or annotate its payload with a "
                    "type that has @app.message(topic)"
                )
            yield own

    def topic_of(self, kind: Any) -> str:
        """Return the topic of a message type. Raises BadOption."""
        topic = self.catalogue.topic_of(kind)
        if topic is not None:
            return topic
        if isinstance(kind, type):
            raise BadOption(f"{kind.__qualname__} has no topic: put @app.message('your.topic') above it")
        raise BadOption(
            f"a consumer takes topics and message types, not {kind!r}: write @app.consumer('orders.placed')"
        )


def check_options(options: Mapping[str, Any]) -> None:
    """Raise BadOption for an option that ``@app.consumer`` does not know."""
    refuse_unknown(options, ConsumerOptions.__annotations__, "@app.consumer(…)")


def _default_group(function: Any, name: str) -> str:
    own = getattr(function, "__name__", None)
    if not isinstance(own, str) or not own.isidentifier():
        raise BadOption(f"{name} has no name of its own to be its group: give one, @app.consumer(…, group='receipts')")
    return own


def _breaker(given: object) -> Breaker | None:
    if given is None or isinstance(given, Breaker):
        return given
    raise BadOption(f"breaker={given!r} must be made by breaker(…), as in breaker(failures=10, within='1m')")
