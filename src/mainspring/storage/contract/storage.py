"""One database: its operations, its doorbell, its schema, and the connections that it lends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.measures import Sums
from mainspring.model.message import Progress
from mainspring.model.retention import Chore, Pruned, Rerouted, Retention
from mainspring.model.roles import Lacking
from mainspring.model.symptom import LostObject, Symptom, Tolerances
from mainspring.model.views import Beat, Declaration, Orders, RunView
from mainspring.model.worker import Declarer, DeclareResult
from mainspring.storage.contract.coordination import Fanouts, Inbox, Leases, Timetable
from mainspring.storage.contract.messages import Controls, Ledger, Mailbox
from mainspring.storage.contract.moves import Moves, Transfer

BellMode = Literal["notify", "watch", "poll"]
"""How work is noticed: by a notification, by watching the file, or by polling only."""


class Doorbell(Protocol):
    """A hint that work may be due. It may be late, spurious or missing; correctness never needs it."""

    @property
    def mode(self) -> BellMode:
        """How work is noticed now. ``notify`` only while the bell is proven to ring."""
        ...

    def listen(self, rung: Callable[[str], None]) -> None:
        """Call ``rung(group)`` on this loop when a publisher rings; the empty string means any group."""
        ...

    async def arm(self, groups: Collection[str]) -> None:
        """Ask publishers to ring for these groups. The caller must look once more before it sleeps."""
        ...

    async def disarm(self, groups: Collection[str]) -> None:
        """Stop asking: the caller is awake."""
        ...

    async def ring(self) -> None:
        """Wake all sleeping workers of all processes, whatever their groups."""
        ...

    async def rouse(self) -> None:
        """Ring for armed groups that have something due: a transaction was committed after they fell asleep."""
        ...


class Lender(Protocol):
    """Lends connections, each in a transaction of its own, to one handler at a time.

    They are never those that claim and settle, so that no handler can stop the worker. The transaction is committed
    at the end of the block, and rolled back when the block raises. A lent connection is the driver's own, and a handle
    that Mainspring can enlist in. Errors of the driver pass unchanged: they are the handler's.
    """

    size: int
    """How many at once; later callers wait."""

    def lend(self) -> AbstractAsyncContextManager[Any]:
        """Lend a transaction to a coroutine."""
        ...

    def lend_blocking(self) -> AbstractContextManager[Any]:
        """Lend a transaction to a plain function, in its own thread."""
        ...

    def check(self, *, blocking: bool) -> None:
        """Raise BadOption or MissingExtra where no such connection can be lent. Connects to nothing."""
        ...

    async def close(self) -> None:
        """End every connection, also those at work. Idempotent."""
        ...


class Upkeep(Protocol):
    """Maintenance by workers, in bounded batches."""

    async def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> DeclareResult:
        """Make the groups and their subscriptions known. The same declaration again changes nothing.

        A subscription that is not declared here any more is removed when no other live process has declared it, and no
        newer version has declared the group (invariant 26). A process is live until it deregisters, except after a
        silence of ``SILENT_AFTER`` while ``declarer`` was not silent. A declaration without a ``declarer`` counts until
        the app makes another one, or for as long as a silent worker is kept. Handler and options are those of the
        newest version, among equal ones of the latest start.

        Raises Conflict when a group belongs to another app. A pause is left as it is.
        """
        ...

    async def beat(self, beat: Beat) -> Orders:
        """Report a worker as alive and add up its counts. Returns the orders of operators for it.

        A beat that is sent again, known by its start and its number, is counted once. The first beat of another start
        revokes an order to drain; one after a mere silence does not.
        """
        ...

    async def deregister(self, worker: str, start_id: str = "") -> None:
        """Take a worker that stops in good order off the roster. Declarations of this start count no more."""
        ...

    async def record(self, runs: Sequence[RunView]) -> None:
        """Add runs that were made while the storage was unavailable; the storage assigns their ids."""
        ...

    async def reroute(self, limit: int, after: str | None = None) -> Rerouted:
        """Route up to ``limit`` parked messages whose topic has subscribers now.

        Topics that are subscribed to by name are found at once, however many messages are parked. Patterns need a scan
        of the topics, a stretch at a time: continue after the ``last`` of it.
        """
        ...

    async def outlook(self, app: str, groups: Sequence[str]) -> timedelta | None:
        """Return how long until a worker of the app that serves these groups has something to do; None: nothing is.

        Zero or less: now. What counts are deliveries of groups that are not paused, due or at the end of their claims,
        schedules of the app that are followed, and ends of members that no tick has counted. Read-only.
        """
        ...

    async def recount(self, after: UUID | None, limit: int) -> Recount:
        """Compare up to ``limit`` open joins, by id from ``after`` on, with their members.

        Members that ended uncounted, settled by a release without joins, are counted now: as failed where the kept runs
        show it, otherwise as done. However many recount at once, each end is counted once.
        """
        ...

    async def report(self, progress: Sequence[Progress], owner: str) -> None:
        """Store the progress of runs; of each the latest counts. One trip, which locks no delivery.

        It is shown while the owner holds the claim under the same epoch: a lost claim reports nothing (invariant 2).
        """
        ...

    async def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Pruned:
        """Remove up to ``limit`` finished records of each kind. A message is removed when nothing refers to it.

        With a ``topic``, or a pattern of topics, only their runs, dead letters and parked messages. With a ``chore``
        only that one; where its topics have different retentions, for a stretch of topics: continue after the ``last``.
        Messages are examined in the batches in which they ended, whole ones: ``last`` is empty while some are left.
        """
        ...


class Measures(Protocol):
    """Reads the counts of workers, which are written with their beats (``Upkeep.beat``), at the time of the beat."""

    async def read(self, span: int, back: timedelta, group: str) -> Sums[datetime]:
        """Return the counts of one group, or with an empty name of all groups together; by time.

        From spans of so many seconds (one of ``SPANS``): the present one, and those of the time ``back`` before it.
        """
        ...

    async def rates(self, back: timedelta) -> Sums[str]:
        """Return the counts of each group, from the shortest spans: the present one, and the time ``back``."""
        ...


class Schema(Protocol):
    """The tables and their version."""

    async def version(self) -> int:
        """Return the version of the database; 0: there are no tables."""
        ...

    async def check(self) -> None:
        """Raise SchemaMissing or SchemaTooNew unless this release can work with what is there."""
        ...

    async def migrate(self) -> list[str]:
        """Apply missing migrations, forward only, safe with many concurrent starts. Returns the names applied.

        What applied migrations created and was dropped since is created again if it holds no data, and then named as
        ``function publish_one``. Raises SchemaDamaged if it held some.
        """
        ...

    async def missing(self) -> list[LostObject]:
        """Return what the applied migrations created, and is not there any more."""
        ...

    async def lacking(self) -> Lacking:
        """Return what the connected role lacks to be each of the roles; only PostgreSQL has any."""
        ...

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        """Return what may be wrong with a reachable database; ``host`` is the clock to compare with. Changes nothing.

        Memory has none of the symptoms.
        """
        ...

    async def ahead(self) -> timedelta:
        """Return how far an embedded database's time is ahead of this host's clock; zero for a server."""
        ...


class PoolUse(NamedTuple):
    """The connections for all but claiming and settling, and how callers waited for one."""

    size: int = 1
    busy: int = 0
    waits: int = 0
    """How many calls have had to wait, since it was opened."""
    waited: float = 0.0
    """For how many seconds, all together."""


class OperationSet(Protocol):
    """All operations on one database."""

    @property
    def mailbox(self) -> Mailbox: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def controls(self) -> Controls: ...
    @property
    def upkeep(self) -> Upkeep: ...
    @property
    def timetable(self) -> Timetable: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def fanouts(self) -> Fanouts: ...
    @property
    def measures(self) -> Measures: ...
    @property
    def moves(self) -> Moves: ...
    @property
    def schema(self) -> Schema: ...

    async def ping(self) -> object:
        """Make one empty round trip. Raises StorageUnavailable."""
        ...


class Storage(OperationSet, Protocol):
    """One database with all of its operations."""

    now: datetime | None
    """A hand-set clock for tests. None in production: the database owns the clock."""
    migrates_itself: bool
    """Whether opening may create the tables by itself (embedded databases)."""
    doorbell: Doorbell

    @property
    def transfer(self) -> Transfer:
        """What moves its content to another database."""
        ...

    async def open(self) -> None:
        """Open on the running loop. Does not fail because a server is away: operations raise then."""
        ...

    async def close(self) -> None:
        """Close every connection and thread. Idempotent."""
        ...

    async def ping(self) -> timedelta:
        """Return the time of one empty round trip. Raises StorageUnavailable."""
        ...

    def pool(self) -> PoolUse:
        """Return the use of its connections. Thread-safe, and does not wait."""
        ...

    def lender(self, size: int) -> Lender:
        """Return a lender of connections to handlers, up to ``size`` at once. Opens none yet."""
        ...

    def sibling(self) -> Storage:
        """Return another storage on the same database for another thread and loop; the caller opens and closes it."""
        ...
