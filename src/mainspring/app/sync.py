"""``app.sync``: the blocking twin of the app, for views, scripts, notebooks and plain-function handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from uuid import UUID

from mainspring.app.background import Background
from mainspring.app.backlog import WhenFull
from mainspring.app.blocking import BlockingPost
from mainspring.app.bulk import Progress
from mainspring.app.envelope import MISSING, PublishOptions
from mainspring.app.following import Addressed, JoinOptions
from mainspring.app.health import Health, HealthLimits
from mainspring.app.joins import Joins
from mainspring.app.offices import Offices
from mainspring.app.post import REASON
from mainspring.app.sync_dead_letters import SyncDeadLetters
from mainspring.app.sync_desk import SyncGroups, SyncMessages, SyncWorkers
from mainspring.app.sync_joins import SyncJoins
from mainspring.app.workforce import Workers
from mainspring.model.join import JoinReceipt
from mainspring.model.measures import MeasuresView, PacesView, Window
from mainspring.model.message import Cancelled, Keep, Receipt
from mainspring.model.retention import Pruned, Retention
from mainspring.model.views import AuditView, Declaration, Roster, Tally
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.fanouts import Fanouts
    from mainspring.app.inbox import Inbox
    from mainspring.app.leases import Leases
    from mainspring.app.measured import Measured
    from mainspring.app.queues.queues import Queues
    from mainspring.app.queues.sync_queue import SyncQueue
    from mainspring.app.schedules import Schedules
    from mainspring.app.sync_fanouts import SyncFanouts
    from mainspring.app.sync_inbox import SyncInbox
    from mainspring.app.sync_leases import SyncLeases
    from mainspring.app.sync_schedules import SyncSchedules
    from mainspring.app.wishes import Wishes

T = TypeVar("T")
Retrying = RetryPolicy | str | None
"""A policy, or the name of a preset."""


class Sync:
    """Every call of the app that waits, for code that blocks: same arguments, same SQL.

    With ``tx`` a call joins the caller's blocking transaction and needs nothing open. Without, it runs on a loop in a
    thread of its own, which opens the database by itself: from any number of threads, before and after a fork. A
    coroutine awaits the app's own calls instead, and is told so.
    """

    def __init__(
        self,
        offices: Offices,
        post: BlockingPost,
        background: Background,
        scheduling: Callable[[], tuple[Schedules, Wishes]],
        receiving: Callable[[], Inbox],
        leasing: Callable[[], Leases],
        queueing: Callable[[], Queues],
        fanning: Callable[[], Fanouts],
        measuring: Callable[[], Measured],
    ) -> None:
        self._measuring = measuring
        self._scheduling = scheduling
        self._receiving = receiving
        self._leasing = leasing
        self._queueing = queueing
        self._fanning = fanning
        self._background = background
        self._post = post
        self._operations = offices.operations
        run = background.run
        self.messages: SyncMessages = SyncMessages(offices.messages, run)
        """Reading what is stored."""
        self.dead: SyncDeadLetters = SyncDeadLetters(offices.dead, run)
        """The dead letters."""
        self.groups: SyncGroups = SyncGroups(offices.groups, run)
        """The declared groups."""
        self.workers: SyncWorkers = SyncWorkers(Workers(offices.door), run)
        """Who is at work."""
        self.joins: SyncJoins = SyncJoins(Joins(offices.door), run)
        """The joins that are open."""

    @functools.cached_property
    def schedules(self) -> SyncSchedules:
        """What runs on a rhythm."""
        from mainspring.app.sync_schedules import SyncSchedules

        return SyncSchedules(*self._scheduling(), self._background.run)

    @functools.cached_property
    def inbox(self) -> SyncInbox:
        """Messages of others, each processed once."""
        from mainspring.app.sync_inbox import SyncInbox

        return SyncInbox(self._receiving(), self._background.run)

    @functools.cached_property
    def _queues(self) -> Queues:
        return self._queueing()

    @overload
    def queue(
        self,
        group: str,
        *topics: Any,
        type: type[T],
        retry: Retrying = None,
        keep: Keep | None = None,
        pending_limit: int | None = None,
        when_full: WhenFull | None = None,
    ) -> SyncQueue[T]: ...

    @overload
    def queue(
        self,
        group: str,
        *topics: Any,
        type: Any = None,
        retry: Retrying = None,
        keep: Keep | None = None,
        pending_limit: int | None = None,
        when_full: WhenFull | None = None,
    ) -> SyncQueue[Any]: ...

    def queue(
        self,
        group: str,
        *topics: Any,
        type: Any = None,
        retry: Retrying = None,
        keep: Keep | None = None,
        pending_limit: int | None = None,
        when_full: WhenFull | None = None,
    ) -> SyncQueue[Any]:
        """A work queue on a group, for code that blocks. See ``Mainspring.queue``."""
        from mainspring.app.queues.sync_queue import SyncQueue

        options = {"retry": retry, "keep": keep, "pending_limit": pending_limit, "when_full": when_full}
        return SyncQueue(self._queues.make(group, topics, type=type, **options), self._background.run)

    @functools.cached_property
    def leases(self) -> SyncLeases:
        """Named exclusive holds."""
        from mainspring.app.sync_leases import SyncLeases

        return SyncLeases(self._leasing(), self._background.run)

    @functools.cached_property
    def fanouts(self) -> SyncFanouts:
        """One rhythm over many shards."""
        from mainspring.app.sync_fanouts import SyncFanouts

        return SyncFanouts(self._fanning(), self._background.run)

    # --- publishing ----------------------------------------------------------------------------------------

    def publish(self, message: object, payload: object = MISSING, **options: Unpack[PublishOptions]) -> Receipt:
        """Publish a message of a registered type, or a payload on a topic. See ``Mainspring.publish``."""
        return self._post.publish(message, payload, options)

    def publish_many(
        self, messages: Iterable[object], *, spread: Duration | None = None, **options: Unpack[PublishOptions]
    ) -> list[Receipt]:
        """Publish many messages, or (topic, payload) pairs. See ``Mainspring.publish_many``."""
        return self._post.publish_many(messages, spread, options)

    def join(self, members: Iterable[Addressed], **options: Unpack[JoinOptions]) -> JoinReceipt:
        """Send to each member, and let ``then`` or ``failed`` follow when all have ended. See ``Mainspring.join``."""
        return self._post.fan_in(members, options)

    def cancel(
        self, which: UUID | str | Receipt | type, *, key: str | None = None, reason: str = REASON, tx: Any = None
    ) -> Cancelled:
        """Cancel by message id, or by topic (or type) and ``key``. See ``Mainspring.cancel``."""
        return self._post.cancel(which, key, reason, tx)

    # --- operating -----------------------------------------------------------------------------------------

    def migrate(self) -> list[str]:
        """Bring the tables up to date, and return the names of the migrations applied."""
        return self._background.run(self._operations.migrate, "migrate()")

    def declare(self) -> list[Declaration]:
        """Make the groups and their subscriptions known without starting a worker."""
        return self._background.run(self._operations.declare, "declare()")

    def health(self, limits: HealthLimits | None = None) -> Health:
        """Whether all is well. See ``Mainspring.health``."""
        return self._background.run(lambda: self._operations.health(limits), "health()")

    def prune(
        self,
        retention: Retention | None = None,
        *,
        topic: str | None = None,
        by: str = "app",
        progress: Progress | None = None,
    ) -> Pruned:
        """Remove what is older than the retention says. See ``Mainspring.prune``."""
        return self._background.run(lambda: self._operations.prune(retention, topic, by, progress), "prune()")

    def tally(self, cap: int = 100_000) -> Tally:
        """Every group's deliveries by state, each counted up to ``cap``."""
        return self._background.run(lambda: self._operations.tally(cap), "tally()")

    def roster(self) -> Roster:
        """The declared groups and the workers that reported themselves."""
        return self._background.run(self._operations.roster, "roster()")

    def audit(self, *, before: int | None = None, limit: int = 50) -> list[AuditView]:
        """What operators did, newest first."""
        return self._background.run(lambda: self._operations.audit(before, limit), "audit()")

    def note(self, action: str, subject: str, *, by: str, detail: str = "") -> None:
        """Write a line of your own into the audit: what was done, on what, and by whom."""
        self._background.run(lambda: self._operations.note(action, subject, by, detail), "note()")

    def measures(self, window: Window = "15m", group: str | None = None) -> MeasuresView:
        """What became of deliveries within a window. See ``Mainspring.measures``."""
        return self._background.run(lambda: self._measuring().measures(window, group), "measures()")

    def paces(self, over: Duration = "1m") -> PacesView:
        """How fast each group goes. See ``Mainspring.paces``."""
        return self._background.run(lambda: self._measuring().paces(over), "paces()")

    def metrics(self) -> str:
        """What this process has counted, for Prometheus. See ``Mainspring.metrics``."""
        return self._background.run(lambda: self._measuring().metrics(), "metrics()")

    def close(self) -> None:
        """Close the database and end the thread; the next call starts anew. A process may also simply end."""
        self._background.close()
