"""``Mainspring``: the one object an application makes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import UUID

from mainspring.app import runner
from mainspring.app.background import Background
from mainspring.app.bulk import Progress
from mainspring.app.catalogue import Catalogue, read_codecs
from mainspring.app.config import AppOptions, Options
from mainspring.app.configuring import configure
from mainspring.app.consumers import Consumers
from mainspring.app.dead_letters import DeadLetters
from mainspring.app.desk import Groups, Messages
from mainspring.app.door import Door
from mainspring.app.envelope import MISSING, Envelope, PublishOptions
from mainspring.app.fan_in import FanIn
from mainspring.app.health import Health, HealthLimits
from mainspring.app.joining import Joining
from mainspring.app.middleware.chain import Middleware, PublishChain, check_middleware
from mainspring.app.numbers import Numbers
from mainspring.app.operations import Operations
from mainspring.app.post import REASON, Behind, Post
from mainspring.app.registration import Registration
from mainspring.app.resolvers import Resolver, read_resolver
from mainspring.app.rooms import Rooms
from mainspring.app.storages import open_storage, opener
from mainspring.app.transactions import Transactions
from mainspring.app.url_function import UrlFunction, told
from mainspring.model.errors import Misuse
from mainspring.model.message import Cancelled, Receipt
from mainspring.model.retention import Pruned, Retention
from mainspring.model.views import Declaration
from mainspring.storage.codec import Codec
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.tracing import Tracing
from mainspring.timing.clock import ReplaceableClock, SystemClock
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    # Only who works needs the runtime: a process that publishes starts without it.
    from mainspring.app.sync import Sync
    from mainspring.app.testing.kit import Testing
    from mainspring.runtime.worker import Worker


class Mainspring(Joining, Numbers, Rooms):
    """An application's messages, on one database.

    Making one connects to nothing. ``async with app:`` opens it for publishing, ``async with app.worker():`` also
    consumes, ``app.run()`` does so as a script.
    """

    def __init__(
        self,
        url: str | UrlFunction | None = None,
        *,
        resolver: Resolver | object = None,
        codecs: Iterable[Codec] = (),
        middleware: Sequence[Middleware] = (),
        **options: Unpack[AppOptions],
    ) -> None:
        from mainspring.app.sync import Sync

        self._options, self._address = configure(told(url) if callable(url) else url, options)
        self._clock = ReplaceableClock(SystemClock())
        self._catalogue = Catalogue(read_codecs(codecs))
        self._middleware = check_middleware(middleware)
        self._bus = Bus()
        self._consumers = Consumers(
            self._catalogue,
            self._options,
            None if resolver is None else read_resolver(resolver),
            self._middleware,
        )
        self._workers: list[Worker] = []
        # Not a method: a door outlives the app by the time it takes to close the database, and must not hold it.
        self._wake = functools.partial(runner.wake, self._workers)
        storage, joined = open_storage(self._address, self._options)
        tracing = Tracing(self._options.tracing)
        self._chain = PublishChain(self._middleware, tracing)
        build = tracing.before(opener(self._address, self._options, storage, url if callable(url) else None))
        self._door = Door(build, self._clock, self._wake, auto_migrate=self._options.auto_migrate)
        self._back = Door(build, self._clock, self._wake, auto_migrate=self._options.auto_migrate)
        limit, orders = self._options.payload_limit, self._consumers.orders
        self._envelope = Envelope(self._catalogue, limit, self._clock, orders)
        self._transactions = Transactions(self._address.engine, joined, self._door, self._committed)
        self._count(self._door, self._back, self._transactions)
        background = Background(self._back)
        twin = self._behind()
        self._work_on(self._door, Behind(twin._post, background))  # noqa: SLF001 - of the same class
        self.sync: Sync = Sync(twin, background)
        """Everything that is awaited here, for code that blocks."""

    def _behind(self) -> Self:
        """The same app as the background loop sees it: its database is open on that loop."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), _front=self)
        twin._work_on(self._back)
        return twin

    def _work_on(self, door: Door, blocking: Behind | None = None) -> None:
        self._door = door
        fan_in, backlogs = FanIn(self._consumers, self._envelope), self._consumers.backlogs
        self._post = Post(
            door,
            self._envelope,
            self._catalogue,
            self._transactions,
            self._clock,
            fan_in,
            backlogs,
            blocking,
            self._chain,
        )
        self._operations = Operations(
            door, self._consumers, self._options, self._address, self._workers, self._scheduled
        )
        self.messages: Messages = Messages(door, self._post)
        """Reading what is stored."""
        self.dead: DeadLetters = DeadLetters(door, self._envelope)
        """The dead letters."""
        self.groups: Groups = Groups(door)
        """The declared groups."""

    def __repr__(self) -> str:
        """For people: without secrets."""
        return f"<Mainspring {self._options.name!r} on {self._address.shown}>"

    @property
    def options(self) -> Options:
        """The options, as read."""
        return self._options

    # --- publishing ----------------------------------------------------------------------------------------

    async def publish(self, message: object, payload: object = MISSING, **options: Unpack[PublishOptions]) -> Receipt:
        """Publish a message of a registered type, or a payload on a topic.

        With ``tx`` it joins that transaction; without, it is durable when the call returns. See PublishOptions.
        """
        return await self._post.publish(message, payload, options)

    async def publish_many(
        self, messages: Iterable[object], *, spread: Duration | None = None, **options: Unpack[PublishOptions]
    ) -> list[Receipt]:
        """Publish many messages, or (topic, payload) pairs, under the same options.

        ``spread`` spaces their due times evenly over that time. All are checked before any is stored; without ``tx``
        they are then stored in batches, each all or none.
        """
        return await self._post.publish_many(messages, spread, options)

    async def cancel(
        self, which: UUID | str | Receipt | type, *, key: str | None = None, reason: str = REASON, tx: Any = None
    ) -> Cancelled:
        """Cancel by message id, or by topic (or type) and ``key``: what waits goes, what runs is asked to stop."""
        return await self._post.cancel(which, key, reason, tx)

    # --- opening and working -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open for publishing."""
        await self._door.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close behind the last one inside."""
        await self._door.leave()

    def worker(
        self, *, groups: Collection[str] | None = None, name: str | None = None
    ) -> AbstractAsyncContextManager[Worker]:
        """Open, declare the groups and consume, all of them or only these, until the block ends."""
        return self._work(groups, name)

    def run(self, *, groups: Collection[str] | None = None) -> None:
        """Work until SIGTERM or SIGINT: the first lets handlers finish, the second does not. Blocks."""
        runner.run(self.worker(groups=groups))

    @contextlib.asynccontextmanager
    async def _work(self, groups: Collection[str] | None, name: str | None) -> AsyncIterator[Worker]:
        self._catalogue.check()
        chosen = self._consumers.chosen(groups)
        if not chosen:
            raise Misuse("no consumer is registered: write @app.consumer(…), or app.include() the module that does")
        if self._door.stand_in is not None:
            # In a test nothing runs but what the kit runs: a lifespan that starts a worker is harmless there.
            yield await self._hire(chosen, name)
            return
        async with self, self._observed():
            worker = await self._hire(chosen, name)
            self._workers.append(worker)
            try:
                await worker.start()
                yield worker
            finally:
                try:
                    await worker.stop()
                except asyncio.CancelledError:
                    # Somebody is in a hurry: what runs is handed back rather than left to lapse.
                    await worker.stop_now()
                    raise
                finally:
                    self._workers.remove(worker)

    async def _hire(self, chosen: Sequence[Registration], name: str | None) -> Worker:
        from mainspring.app.hiring import hire

        storage = await self._door.storage("app.worker()")
        return hire(storage, chosen, name, self._options, self._post, self._scheduled(), self._bus, self._meters)

    # --- testing -------------------------------------------------------------------------------------------

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

        With ``tx`` every statement runs in that transaction of yours, and each handler in a savepoint; what others have
        committed is left alone, unless ``committed`` says that it runs too. The clock begins at ``start`` [now]. A
        handler may take ``patience`` of real time; ``limit`` runs at one instant are endless.
        """
        from mainspring.app.testing.kit import Testing
        from mainspring.app.testing.stage import House

        house = House(
            (self._door, self._back),
            self._clock,
            self._transactions,
            self._consumers,
            self._catalogue,
            self._post,
            self._bus,
            self._options,
            lambda: vars(self._front or self).get("_recurrences"),
        )
        return Testing(house, tx=tx, start=start, patience=patience, limit=limit, committed=committed)

    # --- operating -----------------------------------------------------------------------------------------

    async def migrate(self) -> list[str]:
        """Bring the tables up to date, and return the names of the migrations applied. Opens by itself."""
        return await self._operations.migrate()

    async def declare(self) -> list[Declaration]:
        """Make groups, subscriptions and schedules known without starting a worker. Opens by itself."""
        return await self._operations.declare()

    async def health(self, limits: HealthLimits | None = None) -> Health:
        """Whether all is well. Changes nothing, answers within ten seconds, never raises for what is broken."""
        return await self._operations.health(limits)

    async def prune(
        self,
        retention: Retention | None = None,
        *,
        topic: str | None = None,
        by: str = "app",
        progress: Progress | None = None,
    ) -> Pruned:
        """Remove what is older than the retention says [the app's], of topics or all. Audited with ``by``."""
        return await self._operations.prune(retention, topic, by, progress)

    # --- the house -----------------------------------------------------------------------------------------

    def _committed(self) -> None:
        # A caller's transaction that published is over. Workers here need no bell; those elsewhere may have fallen
        # asleep between the publish and the commit, when there was nobody to ring for.
        self._wake()
        if not self._door.rouse():
            self._back.rouse()
