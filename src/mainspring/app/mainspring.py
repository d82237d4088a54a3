"""``Mainspring``: the one object an application makes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self, TypeVar, Unpack, overload
from uuid import UUID

from mainspring.app import registry
from mainspring.app.admin.bulk import Progress
from mainspring.app.admin.dead_letters import DeadLetters
from mainspring.app.admin.groups import Groups
from mainspring.app.admin.joins import Joins
from mainspring.app.admin.messages import Messages
from mainspring.app.admin.workers import Workers
from mainspring.app.blocking import AsyncOnly, Renamed
from mainspring.app.code import Code
from mainspring.app.config import AppOptions, Options
from mainspring.app.connection import Connection
from mainspring.app.consume.consumer import Registrar, Registration
from mainspring.app.consume.consumers import ConsumerOptions
from mainspring.app.consume.injection import Resolver
from mainspring.app.consume.middleware import Middleware
from mainspring.app.environment import configure
from mainspring.app.message.envelope import MISSING, Addressed, JoinOptions, PublishOptions
from mainspring.app.observe.health import AppHealth
from mainspring.app.observe.stats import Stats
from mainspring.app.options import named_options, requires
from mainspring.app.page import Page, listing
from mainspring.app.place import HERE, Place, Side
from mainspring.app.process import runner
from mainspring.app.publisher import REASON
from mainspring.app.registry import E, Hook, M, R, check_event, subscribe, with_rhythm
from mainspring.app.storages import UrlFunction, UrlObject, resolve_url
from mainspring.model.errors import Misuse
from mainspring.model.join import JoinReceipt
from mainspring.model.message import Cancelled, Receipt
from mainspring.model.retention import Pruned, Retention
from mainspring.model.views import AuditView, Declaration
from mainspring.storage.codec import Codec
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    # Only a worker needs the runtime: a process that publishes starts without it.
    from mainspring.app.broker.brokers import Brokers
    from mainspring.app.broker.route import RouteOptions
    from mainspring.app.fanout.declaration import FanoutOptions, FanoutRegistrar
    from mainspring.app.fanout.fanouts import Fanouts
    from mainspring.app.inbox import Inbox
    from mainspring.app.lease.leases import Leases
    from mainspring.app.queue.options import QueueOptions
    from mainspring.app.queue.queue import Queue
    from mainspring.app.schedule.recurring import RecurringOptions
    from mainspring.app.schedule.schedules import Schedules
    from mainspring.app.schedule.timing import RhythmOption
    from mainspring.app.sync import Sync
    from mainspring.brokers.contract import Broker
    from mainspring.runtime.worker import Worker
    from mainspring.testing.kit import Testing

T = TypeVar("T")


class Mainspring(Renamed, AsyncOnly):
    """An application's messages, on one database.

    Making one connects to nothing. ``async with app:`` opens it for publishing, ``async with app.worker():`` also
    consumes, ``app.run()`` does so as a script.
    """

    _former: ClassVar[Mapping[str, str]] = {
        **{name: f"stats.{name}()" for name in ("tally", "roster", "measures")},
        "paces": "stats.rates()",
    }

    _leads: bool = False
    """Whether it leads a fleet, and so works where its handlers do."""

    def __init__(
        self,
        url: str | UrlObject | UrlFunction | None = None,
        *,
        resolver: Resolver | object = None,
        codecs: Iterable[Codec] = (),
        middleware: Sequence[Middleware] = (),
        **options: Unpack[AppOptions],
    ) -> None:
        options_, address = configure(resolve_url(url) if callable(url) else url, options)
        self._code = Code(options_, resolver, codecs, middleware, lambda: self._side)
        self._own = Place(self._code, address, url).front

    @classmethod
    def _at(cls, side: Side) -> Self:
        """Return the app of this code on this side of a place."""
        app = object.__new__(cls)
        app._code, app._own = side.place.code, side
        return app

    @property
    def _side(self) -> Side:
        """Its side of its own place; of an app that leads a fleet, that of the place whose worker runs this code."""
        if self._leads and (place := HERE.get()) is not None and place.code is self._code:
            return place.front
        return self._own

    @property
    def _connection(self) -> Connection:
        return self._side.connection

    def __repr__(self) -> str:
        """For people: without secrets."""
        return f"<Mainspring {self.options.name!r} on {self._own.place.address.shown}>"

    @property
    def options(self) -> Options:
        """The options, as read."""
        return self._code.options

    @property
    def sync(self) -> Sync:
        """Everything that is awaited here, for code that blocks."""
        from mainspring.app.sync import Sync

        place = self._side.place
        if place.sync is None:
            # The same app as the background loop sees it: its database is open on that loop.
            place.sync = Sync(self._at(place.back), place.background)
        return place.sync

    # --- registering ---------------------------------------------------------------------------------------

    def message(self, topic: str, *, codec: str | None = None, version: int = 1) -> Callable[[M], M]:
        """Say which topic a type is published on, so that ``publish(value)`` needs no string.

        ``codec`` is the content type of one of the app's ``codecs`` [JSON], ``version`` that of the type's fields.
        """
        return self._code.registry.message(topic, codec, version)

    def upcaster(self, kind: Any, version: int) -> Callable[[M], M]:
        """Register what turns this version of a message type into the next one: a function from a dict to a dict."""
        return self._code.registry.upcaster(kind, version)

    def consumer(
        self, *topics: str | type | Any, source: Broker | None = None, **options: Unpack[ConsumerOptions]
    ) -> Registrar:
        """Register a handler for topics, patterns (``orders.*``, ``orders.#``) and message types.

        Without any, the topic is that of the type its payload is annotated with. With ``source`` a worker also reads
        messages for it from a broker. The signature and the options are checked here; the function stays callable.
        """
        return self._code.registry.consumer(topics, options, source)

    @with_rhythm
    def recurring(self, rhythm: RhythmOption, **options: Unpack[RecurringOptions]) -> Registrar:
        """Register a consumer that runs on a rhythm: a cron expression, or an interval, ``every("90s")``."""
        return self._code.registry.recurring(rhythm, options)

    def fanout(self, topic: str, work_key: str | None = None, **options: Unpack[FanoutOptions]) -> FanoutRegistrar:
        """Register a planner: a function that yields the shards whose work is due on a rhythm, ``cron`` or ``every``.

        It yields text, or (shard, work) pairs without ``work_key``. Every shard that is due gets a slice, a message,
        for the consumer that ``@planner.slices()`` registers.
        """
        return self._code.registry.fanouts.registrar(topic, work_key, options)

    @requires("to", "app.route('orders.*', to=RabbitMQ('amqp://localhost', exchange='shop'))")
    def route(self, *topics: str | type | Any, to: Broker, **options: Unpack[RouteOptions]) -> None:
        """Send what is published on topics and patterns to a broker: a group whose deliveries it must confirm."""
        self._code.registry.route(topics, to, options)

    def intake(self, source: Broker, topics: Mapping[str, str] | None = None) -> None:
        """Read messages from a broker and publish them here, each once.

        ``topics`` maps addresses of the broker to topics [the CloudEvents type of each message is its topic].
        """
        self._code.registry.intake(source, topics)

    def include(self, module: ModuleType | str) -> list[str]:
        """Import a module, or a package with all its modules, so that its consumers register. Returns their names."""
        return registry.include(module)

    @overload
    def on(self, event: type[E]) -> Callable[[Hook[E, R]], Hook[E, R]]: ...

    @overload
    def on(self, event: type[E], hook: Hook[E, R]) -> Hook[E, R]: ...

    def on(self, event: type[E], hook: Hook[E, R] | None = None) -> Hook[E, R] | Callable[[Hook[E, R]], Hook[E, R]]:
        """Call the function, plain or async, with every event of this class (``mainspring.events``) in this process."""
        check_event(event)  # here, not where the function is given
        if hook is None:
            return lambda hook: subscribe(self._code.bus, event, hook)
        return subscribe(self._code.bus, event, hook)

    # --- publishing ----------------------------------------------------------------------------------------

    async def publish(self, message: object, payload: object = MISSING, **options: Unpack[PublishOptions]) -> Receipt:
        """Publish a message of a registered type, or a payload on a topic.

        With ``tx`` it enlists in that transaction; without, it is durable when the call returns. See PublishOptions.
        """
        return await self._side.publisher.publish(message, payload, options)

    async def publish_many(
        self, messages: Iterable[object], *_: Never, spread: Duration | None = None, **options: Unpack[PublishOptions]
    ) -> list[Receipt]:
        """Publish many messages, or (topic, payload) pairs, under the same options.

        ``spread`` spaces their due times evenly over that time. All are checked before any is stored; without ``tx``
        they are then stored in batches, each all or none.
        """
        return await self._side.publisher.publish_many(messages, spread, options, _)

    async def join(self, members: Iterable[Addressed], **options: Unpack[JoinOptions]) -> JoinReceipt:
        """Send to each member, a ``(consumer, payload)``, and let one consumer follow, once, when all have ended.

        ``then`` follows when all are done, otherwise ``failed``. A member ends when it is done, buried, cancelled or
        expired. All members are stored, with what follows, or none.
        """
        return await self._side.publisher.fan_in(members, options)

    @named_options
    async def cancel(
        self, which: UUID | str | Receipt | type, *, key: str | None = None, reason: str = REASON, tx: Any = None
    ) -> Cancelled:
        """Cancel by message id, or by topic (or type) and ``key``: what waits goes, what runs is asked to stop."""
        return await self._side.publisher.cancel(which, key, reason, tx)

    # --- opening and working -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open for publishing."""
        await self._connection.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close behind the last one inside."""
        await self._connection.close()

    @contextlib.asynccontextmanager
    async def worker(
        self, *, groups: Collection[str] | None = None, name: str | None = None, concurrency: int | None = None
    ) -> AsyncIterator[Worker]:
        """Open, declare the groups and consume, all or only these, until the block ends; ``concurrency`` caps it."""
        code, place = self._code, self._side.place
        code.catalogue.check()
        chosen = code.consumers.chosen(groups)
        if not chosen:
            raise Misuse("no consumer is registered: write @app.consumer(…), or app.include() the module that does")
        if self._connection.stand_in is not None:
            # In a test nothing runs but what the kit runs: a lifespan that starts a worker is harmless there.
            yield await self._build_worker(chosen, name, concurrency)
            return
        async with (
            self,
            place.metrics.observed(),
            runner.at_work(await self._build_worker(chosen, name, concurrency), place.workers, code.workers) as worker,
        ):
            yield worker

    def run(self, *, groups: Collection[str] | None = None, concurrency: int | None = None) -> None:
        """Work until SIGTERM or SIGINT: the first lets handlers finish, the second does not. Blocks."""
        runner.run(self.worker(groups=groups, concurrency=concurrency))

    async def _build_worker(self, chosen: Sequence[Registration], name: str | None, most: int | None) -> Worker:
        storage = await self._connection.storage("app.worker()")
        code, place = self._code, self._side.place
        options, scheduled, meters = code.options, place.scheduled(), place.metrics.meters
        if place.exported:
            runner.warn_unnamed(options, place.address.engine)
        using = (options, self._side.publisher, scheduled, code.bus, meters, most)
        served = (*chosen, *place.own)
        return runner.build_worker(storage, served, code.consumers, name, *using, tended=place.is_tended)

    # --- parts ---------------------------------------------------------------------------------------------

    @property
    def health(self) -> AppHealth:
        """Whether all is well: ``await app.health()``; ``app.health.check(…)`` registers a check of your own."""
        return self._side.health

    @property
    def messages(self) -> Messages:
        """Reading what is stored."""
        return self._side.messages

    @property
    def dead(self) -> DeadLetters:
        """The dead letters."""
        return self._side.dead

    @property
    def groups(self) -> Groups:
        """The declared groups."""
        return self._side.groups

    @property
    def joins(self) -> Joins:
        """The joins that are open."""
        return self._side.joins

    @property
    def workers(self) -> Workers:
        """Workers: list and drain them."""
        return self._side.workers

    @property
    def stats(self) -> Stats:
        """Deliveries counted by state, outcome and time; the roster."""
        return self._side.stats

    @property
    def schedules(self) -> Schedules:
        """Schedules: list, inspect and change them at run time."""
        return self._side.schedules

    @property
    def inbox(self) -> Inbox:
        """Messages of others, each processed once however often it is sent."""
        return self._side.inbox

    @property
    def brokers(self) -> Brokers:
        """The brokers of its routes and intakes."""
        return self._side.brokers

    @property
    def leases(self) -> Leases:
        """Named exclusive holds: one holder at a time, with an epoch to fence what it does."""
        return self._side.leases

    @property
    def fanouts(self) -> Fanouts:
        """One rhythm over many shards: how far each has come, and how they are planned."""
        return self._side.fanouts

    @overload
    def queue(self, group: str, *topics: Any, type: type[T], **options: Unpack[QueueOptions]) -> Queue[T]: ...

    @overload
    def queue(self, group: str, *topics: Any, type: Any = None, **options: Unpack[QueueOptions]) -> Queue[Any]: ...

    def queue(self, group: str, *topics: Any, type: Any = None, **options: Unpack[QueueOptions]) -> Queue[Any]:
        """A work queue on a group: its deliveries are claimed and settled by code of yours, without a worker.

        It subscribes to the topics, patterns and message types; without any the group must be there. Payloads are read
        as ``type`` [the one of their topic]. See QueueOptions.
        """
        from mainspring.app.queue.queue import Queue

        queues = self._side.queues
        return Queue(queues.register(group, topics, type, options), queues)

    # --- testing -------------------------------------------------------------------------------------------

    @named_options
    def testing(
        self,
        *,
        tx: Any = None,
        start: datetime | None = None,
        patience: Duration = "5s",
        limit: int = 10_000,
        committed: bool = False,
    ) -> Testing:
        """A kit for one test: ``with app.testing() as kit:`` puts the app on memory, with a clock in your hand.

        With ``tx`` all runs in that transaction of yours, each handler in a savepoint; what others have committed only
        if ``committed``. The clock begins at ``start`` [now]. A handler may take ``patience`` of real time; ``limit``
        runs at one instant are endless.
        """
        from mainspring.testing.kit import Testing
        from mainspring.testing.services import AppParts

        code, place = self._code, self._own.place
        connections = (place.front.connection, place.back.connection)
        run = (code.consumers, code.catalogue, self._own.publisher, code.bus, code.options)
        parts = AppParts(connections, code.clock, place.transactions, *run, lambda: code.registry.known_recurrences)
        return Testing(parts, tx=tx, start=start, patience=patience, limit=limit, committed=committed)

    # --- operating -----------------------------------------------------------------------------------------

    async def migrate(self) -> list[str]:
        """Bring the tables up to date, and return the names of the migrations applied. Opens by itself."""
        return await self._side.operations.migrate()

    async def declare(self) -> list[Declaration]:
        """Make groups, subscriptions and schedules known without starting a worker. Opens by itself."""
        return await self._side.operations.declare()

    async def prune(
        self,
        retention: Retention | None = None,
        *,
        topic: str | None = None,
        by: str = "app",
        progress: Progress | None = None,
    ) -> Pruned:
        """Remove what is older than the retention says [the app's], of topics or all. Audited with ``by``."""
        return await self._side.operations.prune(retention, topic, by, progress)

    @listing
    async def audit(
        self,
        *,
        text: str | None = None,
        by: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[AuditView]:
        """What operators did, newest first: every line, or those that contain these texts, in either case.

        ``text`` is searched for in the whole line, the others in the operator's name, the action and the subject.
        """
        sought = {"text": text, "by": by, "action": action, "subject": subject}
        return await self._side.operations.audit(cursor, limit, sought)

    async def note(self, action: str, subject: str, *, by: str, detail: str = "") -> None:
        """Write a line of your own into the audit: the action, its subject, and who did it."""
        await self._side.operations.note(action, subject, by, detail)

    async def metrics(self) -> str:
        """The counts of this process, for Prometheus, and the database's, if it responds and no other reports them."""
        return await self._side.place.metrics.text(self._connection)
