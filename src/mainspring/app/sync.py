"""``app.sync``: the blocking twin of the app, for views, scripts, notebooks and plain-function handlers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

from mainspring.app.admin.dead_letters import SyncDeadLetters
from mainspring.app.admin.groups import SyncGroups
from mainspring.app.admin.joins import SyncJoins
from mainspring.app.admin.messages import SyncMessages
from mainspring.app.admin.workers import SyncWorkers
from mainspring.app.blocking import Background, Face, blocking
from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.health import SyncHealth
from mainspring.app.observe.stats import SyncStats

if TYPE_CHECKING:
    from mainspring.app.broker.brokers import SyncBrokers
    from mainspring.app.fanout.fanouts import SyncFanouts
    from mainspring.app.inbox import SyncInbox
    from mainspring.app.lease.leases import SyncLeases
    from mainspring.app.queue.options import QueueOptions
    from mainspring.app.queue.queue import Queue, SyncQueue
    from mainspring.app.schedule.schedules import SyncSchedules

F = TypeVar("F", bound=Face[Any])
T = TypeVar("T")


class Sync(Face[Mainspring]):
    """Every call of the app that waits, for code that blocks: same arguments, same SQL.

    With ``tx`` a call enlists in the caller's blocking transaction and needs nothing open. Without, it runs on a loop
    in a thread of its own, which opens the database by itself: from any number of threads, before and after a fork. A
    coroutine awaits the app's own calls instead: here it gets a Misuse that names them.
    """

    def __init__(self, app: Mainspring, background: Background) -> None:
        super().__init__(app, background, "app.sync", "app")
        self.messages: SyncMessages = self._face(SyncMessages, "messages")
        """Reading what is stored."""
        self.dead: SyncDeadLetters = self._face(SyncDeadLetters, "dead")
        """The dead letters."""
        self.groups: SyncGroups = self._face(SyncGroups, "groups")
        """The declared groups."""
        self.stats: SyncStats = self._face(SyncStats, "stats")
        """Deliveries counted by state, outcome and time; the roster."""
        self.workers: SyncWorkers = self._face(SyncWorkers, "workers")
        """Workers: list and drain them."""
        self.joins: SyncJoins = self._face(SyncJoins, "joins")
        """The joins that are open."""
        self.health: SyncHealth = self._face(SyncHealth, "health")
        """Whether all is well: ``app.sync.health()``."""

    @functools.cached_property
    def schedules(self) -> SyncSchedules:
        """Schedules: list, inspect and change them at run time."""
        from mainspring.app.schedule.schedules import SyncSchedules

        return self._face(SyncSchedules, "schedules")

    @functools.cached_property
    def inbox(self) -> SyncInbox:
        """Messages of others, each processed once."""
        from mainspring.app.inbox import SyncInbox

        return self._face(SyncInbox, "inbox")

    @functools.cached_property
    def brokers(self) -> SyncBrokers:
        """The brokers of its routes and intakes."""
        from mainspring.app.broker.brokers import SyncBrokers

        return self._face(SyncBrokers, "brokers")

    @functools.cached_property
    def leases(self) -> SyncLeases:
        """Named exclusive holds."""
        from mainspring.app.lease.leases import SyncLeases

        return self._face(SyncLeases, "leases")

    @functools.cached_property
    def fanouts(self) -> SyncFanouts:
        """One rhythm over many shards."""
        from mainspring.app.fanout.fanouts import SyncFanouts

        return self._face(SyncFanouts, "fanouts")

    @overload
    def queue(self, group: str, *topics: Any, type: type[T], **options: Unpack[QueueOptions]) -> SyncQueue[T]: ...

    @overload
    def queue(self, group: str, *topics: Any, type: Any = None, **options: Unpack[QueueOptions]) -> SyncQueue[Any]: ...

    def queue(self, group: str, *topics: Any, type: Any = None, **options: Unpack[QueueOptions]) -> SyncQueue[Any]:
        """A work queue on a group, for code that blocks. See ``Mainspring.queue``."""
        from mainspring.app.queue.queue import SyncQueue

        queue: Queue[Any] = self._target.queue(group, *topics, type=type, **options)
        return SyncQueue(queue, self._background, "app.sync.queue(…)", "app.queue(…)")

    publish: Final = blocking(Mainspring.publish)
    publish_many: Final = blocking(Mainspring.publish_many, listed=True)
    join: Final = blocking(Mainspring.join, listed=True)
    cancel: Final = blocking(Mainspring.cancel)
    migrate: Final = blocking(Mainspring.migrate)
    declare: Final = blocking(Mainspring.declare)
    prune: Final = blocking(Mainspring.prune)
    audit: Final = blocking(Mainspring.audit)
    note: Final = blocking(Mainspring.note)
    metrics: Final = blocking(Mainspring.metrics)

    def close(self) -> None:
        """Close the database and end the thread; the next call starts them again. A process may also simply end."""
        self._background.close()

    def _face(self, kind: type[F], name: str) -> F:
        return kind(getattr(self._target, name), self._background, f"app.sync.{name}", f"app.{name}")
