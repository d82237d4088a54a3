"""The place of an app: one database, its connections, and everything that works on them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mainspring.app.admin.dead_letters import DeadLetters
from mainspring.app.admin.groups import Groups
from mainspring.app.admin.joins import Joins
from mainspring.app.admin.messages import Messages
from mainspring.app.admin.workers import Workers
from mainspring.app.blocking import Background
from mainspring.app.code import Code
from mainspring.app.connection import Connection
from mainspring.app.consume.backpressure import Backlogs
from mainspring.app.maintenance import Operations
from mainspring.app.observe.custom_checks import CustomChecks
from mainspring.app.observe.health import AppHealth, Examiner
from mainspring.app.observe.metrics import Metrics
from mainspring.app.observe.stats import Stats
from mainspring.app.process import runner
from mainspring.app.publisher import BlockingPublisher, Publisher
from mainspring.app.storages import Address, open_storage, opener, own_place
from mainspring.app.transaction.enlistment import Transactions

if TYPE_CHECKING:
    from mainspring.app.broker.brokers import Brokers
    from mainspring.app.consume.consumer import Registration
    from mainspring.app.fanout.coordinator import Coordinator
    from mainspring.app.fanout.fanouts import Fanouts
    from mainspring.app.inbox import Inbox
    from mainspring.app.lease.leases import Leases
    from mainspring.app.queue.runtime import QueueRuntime
    from mainspring.app.schedule.schedules import Schedules
    from mainspring.app.sync import Sync
    from mainspring.runtime.schedules.declarations import Declared
    from mainspring.runtime.worker import Worker


LEADS = (
    "this app leads a fleet, and only a handler knows which database is meant: write await fleet.publish(…), or take "
    "one database of the fleet, as in fleet['acme'].publish(…)"
)
"""The advice where an app without a database of its own is used outside handlers."""

HERE: ContextVar[Place | None] = ContextVar("mainspring_place", default=None)
"""The database of a fleet whose worker runs this code: set once, where it starts, and inherited by all it runs."""


class Place:
    """A database with the code of an app, as both event loops of a process see it. Making one connects to nothing.

    ``front`` is its side of the application's own loop, ``back`` that of the loop for callers that block. A place that
    is one of many is not ``exported``: its metrics go to no meter provider, which could not tell them apart; and it is
    ``sparing``: its database has few connections. Of the places of a fleet one ``is_home``: it alone declares the
    schedules that run once for the fleet. Every worker there serves its ``own`` groups too, whichever of the code are
    chosen.
    """

    def __init__(
        self,
        code: Code,
        address: Address,
        url: object = None,
        *,
        connection: type[Connection] = Connection,
        exported: bool = True,
        sparing: bool = False,
        is_home: bool = True,
        own: Sequence[Registration] = (),
    ) -> None:
        options = code.options
        self.code: Code = code
        self.address: Address = address
        self.exported: bool = exported
        self.is_home: bool = is_home
        self.own: Sequence[Registration] = own
        self.workers: list[Worker] = []
        """The workers of this process on this database."""
        self.is_tended: bool = False
        """Whether a fleet declares its groups and schedules here, and has done so: a worker need not."""
        self.listeners: list[Callable[[], None]] = []
        """Called from any thread after a publish of this process."""
        # Not a method: a connection outlives the app while the database closes, and must not hold it.
        self.wake: functools.partial[None] = functools.partial(_wake, self.workers, self.listeners)
        storage, joined = open_storage(address, options)
        build = code.tracing.before(opener(address, options, storage, url if callable(url) else None, sparing=sparing))
        front = connection(build, code.clock, self.wake, auto_migrate=options.auto_migrate)
        back = connection(build, code.clock, self.wake, auto_migrate=options.auto_migrate)
        if address.is_fleet:
            front.advice = back.advice = LEADS
        place = own_place(address, url)
        self.transactions: Transactions = Transactions(address.engine, joined, front, self._committed, *place)
        self.backlogs: Backlogs = code.consumers.backlogs.apart()
        self.custom_checks: CustomChecks = CustomChecks()
        self.metrics: Metrics = Metrics(options.name, front, weakref.ref(self), exported=exported)
        self.metrics.count(front, back, self.transactions)
        self.background: Background = Background(back)
        self.back: Side = Side(self, back)
        self.front: Side = Side(self, front, BlockingPublisher(self.back.publisher, self.background))
        self.sync: Sync | None = None
        """The blocking twin, once it was used."""

    def scheduled(self) -> Mapping[str, Declared]:
        """Return the schedules that are declared here, by stored name."""
        elsewhere = self.elsewhere()
        return {name: each for name, each in self.code.registry.scheduled().items() if name not in elsewhere}

    def elsewhere(self) -> frozenset[str]:
        """Return the schedules of the code that only another database of the fleet declares."""
        return frozenset() if self.is_home else self.code.registry.of_fleet()

    def _committed(self) -> None:
        # A caller's transaction that published has ended. Other processes' workers may sleep since the publish.
        self.wake()
        if not self.front.connection.rouse():
            self.back.connection.rouse()


def _wake(workers: Iterable[Worker], listeners: Iterable[Callable[[], None]]) -> None:
    runner.wake(workers)
    for each in listeners:
        each()


class Side:
    """The parts of an app on one connection to its database."""

    def __init__(self, place: Place, connection: Connection, blocking: BlockingPublisher | None = None) -> None:
        code = place.code
        self.place: Place = place
        self.connection: Connection = connection
        where = (connection, code.envelope, code.catalogue, place.transactions, code.clock)
        self.publisher: Publisher = Publisher(*where, code.consumers, code.chain, blocking, place.backlogs)
        declared = (code.consumers, code.options, place.scheduled, place.elsewhere, place.own)
        self.operations: Operations = Operations(connection, *declared)
        watched = (place.address, place.workers, place.metrics.lease_troubles, place.custom_checks)
        self.examiner: Examiner = Examiner(connection, *watched)
        self.health: AppHealth = AppHealth(self.examiner)
        self.messages: Messages = Messages(connection, self.publisher)
        self.dead: DeadLetters = DeadLetters(connection, code.envelope)
        self.groups: Groups = Groups(connection, code.consumers)
        self.joins: Joins = Joins(connection)
        self.workers: Workers = Workers(connection)
        self.stats: Stats = Stats(connection)

    @property
    def transactions(self) -> Transactions:
        """What runs scripts in callers' transactions."""
        return self.place.transactions

    # --- parts, imported on first use ----------------------------------------------------------------------

    @functools.cached_property
    def schedules(self) -> Schedules:
        """See ``Mainspring.schedules``."""
        from mainspring.app.schedule.schedules import Schedules

        code, place = self.place.code, self.place
        using = (self.connection, place.transactions, code.envelope, code.consumers)
        known = (code.registry.recurrences, place.elsewhere, code.options.name, place.workers)
        return Schedules(*using, *known, code.chain.around_occurrences())

    @functools.cached_property
    def inbox(self) -> Inbox:
        """See ``Mainspring.inbox``."""
        from mainspring.app.inbox import Inbox

        code = self.place.code
        return Inbox(self.connection, self.place.transactions, code.options.name, code.bus)

    @functools.cached_property
    def brokers(self) -> Brokers:
        """See ``Mainspring.brokers``."""
        from mainspring.app.broker.brokers import Brokers

        return Brokers(self.place.code.consumers, self.connection)

    @functools.cached_property
    def leases(self) -> Leases:
        """See ``Mainspring.leases``."""
        from mainspring.app.lease.leases import Leases

        place = self.place
        return Leases(self.connection, place.transactions, place.code.clock, place.metrics.meters)

    @functools.cached_property
    def fanouts(self) -> Fanouts:
        """See ``Mainspring.fanouts``."""
        from mainspring.app.fanout.fanouts import Fanouts

        declared = self.place.code.registry.fanouts
        return Fanouts(self.connection, declared, self.schedules, self.coordinator, self.publisher)

    @functools.cached_property
    def queues(self) -> QueueRuntime:
        """What its queues share."""
        from mainspring.app.queue.runtime import QueueRuntime

        code, place = self.place.code, self.place
        using = (place.transactions, code.consumers, code.catalogue, code.options, code.clock)
        return QueueRuntime(self.connection, *using, place.workers, place.metrics.meters)

    @functools.cached_property
    def coordinator(self) -> Coordinator:
        """The coordinator of its fan-outs."""
        from mainspring.app.fanout.coordinator import Coordinator

        code = self.place.code
        return Coordinator(self.connection, self.leases, code.envelope, self.place.wake, code.chain.carried)
