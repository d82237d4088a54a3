"""``app.queue``: deliveries of one group, claimed and settled by the caller's own code, without a worker."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mainspring.app.blocking import Face, blocking
from mainspring.app.config import Options
from mainspring.app.connection import Connection
from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.queue import claims
from mainspring.app.queue.claims import QueueClaims
from mainspring.app.queue.item import ExtendedItems, Item, SettledItems
from mainspring.app.queue.options import QueueOptions, QueueSettings
from mainspring.app.queue.runtime import QueueRuntime
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import Conflict
from mainspring.telemetry.measures import Meters
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

T = TypeVar("T")


class Queue(Generic[T]):
    """The deliveries of one group, for a processor that claims and settles them itself. Needs no worker.

    Nothing runs in the background: a claim that is not extended lapses, and only ``reap`` takes over lapsed claims.
    ``ack``, ``abandon`` and ``fail`` return when every item is settled. They raise ClaimLost if some were not, after
    settling the others; with ``tx`` the caller rolls back.
    """

    def __init__(self, claims: QueueClaims[T]) -> None:
        self._claims = claims

    def __repr__(self) -> str:
        """Return the group and topics."""
        return f"<Queue {self.group!r} of {', '.join(self.topics) or 'what its group subscribes to'}>"

    @property
    def group(self) -> str:
        """The group of its deliveries."""
        return self._claims.settings.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none if other code declares the group."""
        return self._claims.settings.topics

    async def declare(self) -> None:
        """Declare the group and its topics now, and route its parked messages. The first use does so implicitly.

        A queue without topics is only looked up: raises BadOption if there is no such group.
        """
        await self._claims.declare()

    # --- claiming ------------------------------------------------------------------------------------------

    async def claim(self, batch: int = 10, hold: Duration = "1m", owner: str | None = None) -> list[Item[T]]:
        """Claim up to ``batch`` due deliveries for ``hold``; none if nothing is due, or the group is paused.

        In the order of workers: by priority, without starvation, then by due time. Expired ones are cancelled.
        Deliveries that are held, or whose claim has lapsed, are excluded.
        """
        return await self._claims.claim(batch, hold, owner)

    async def reap(self, hold: Duration = "1m", owner: str | None = None) -> Item[T] | None:
        """Take over the delivery whose claim lapsed longest ago, as a *suspect*; None if there is none.

        Its holder died or froze with it, so it may be the cause. Suspects are therefore returned one by one: None for
        the first second that one is in hand, and until it is settled if it has killed a process before. After three
        deaths of suspects' holders, a delivery is buried unread.
        """
        return await self._claims.reap(hold, owner)

    async def wait(self, timeout: Duration | None = None) -> bool:  # noqa: ASYNC109 - the end of it is no error
        """Sleep until something may be due to claim, at most ``timeout`` [for ever]. False: nothing is.

        Publishers and the next due instant wake it; it also polls every few seconds. Another processor may be faster,
        and lapsed claims do not count: call ``reap`` regularly. In ``app.testing()`` it never sleeps.
        """
        return await self._claims.wait(timeout)

    def items(self, hold: Duration = "1m", owner: str | None = None) -> AsyncIterator[Item[T]]:
        """Yield one item after another, for ever: reaped, claimed or waited for. The loop body settles each.

        Each is claimed when requested, and nothing is extended implicitly. In ``app.testing()`` it ends when nothing is
        due.
        """
        return self._claims.items(hold, owner)

    async def extend(self, *items: Item[T], hold: Duration = "1m") -> ExtendedItems[T]:
        """Hold them for ``hold`` from now; return which were lost, and which were cancelled."""
        return await self._claims.extend(items, hold)

    # --- settling ------------------------------------------------------------------------------------------

    async def ack(self, *items: Item[T], output: str | None = None, tx: Any = None) -> SettledItems[T]:
        """Settle as done. ``output`` is kept with the run, if successes are kept (``keep="all"``).

        With ``tx`` it enlists in the caller's transaction: they are done when that commits.
        """
        return await self._claims.settle(items, claims.done(output), tx, "ack")

    async def abandon(
        self, *items: Item[T], delay: Duration = "5s", reason: str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """Release them, to be claimed again after ``delay``. No attempt is counted, however often."""
        return await self._claims.settle(items, claims.handed_back(delay, reason), tx, "abandon")

    async def fail(
        self, *items: Item[T], error: BaseException | str, retry: RetryPolicy | str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """Settle as failed: the attempt counts, and the policy retries them, or buries them with the error.

        ``retry`` is a policy or the name of a preset [the queue's own]; ``"none"`` buries at once.
        """
        judge = claims.failed(error, retry, self._claims.settings)
        return await self._claims.settle(items, judge, tx, "fail")


class SyncQueue(Face[Queue[T]], Generic[T]):
    """``Queue`` without await. Items of ``app.queue`` of the same group are interchangeable."""

    def __repr__(self) -> str:
        """Return the group and topics."""
        return f"<Sync{repr(self._target)[1:]}"

    @property
    def group(self) -> str:
        """The group of its deliveries."""
        return self._target.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none if other code declares the group."""
        return self._target.topics

    declare: Final = blocking(Queue[T].declare)
    claim: Final = blocking(Queue[T].claim)
    reap: Final = blocking(Queue[T].reap)
    wait: Final = blocking(Queue[T].wait)
    extend: Final = blocking(Queue[T].extend)
    ack: Final = blocking(Queue[T].ack)
    abandon: Final = blocking(Queue[T].abandon)
    fail: Final = blocking(Queue[T].fail)

    def items(self, hold: Duration = "1m", owner: str | None = None) -> Iterator[Item[T]]:
        """Yield one item after another. See ``Queue.items``."""
        turns = self._target.items(hold, owner)
        while (item := self._wait_for(lambda: anext(turns, None), "items(…)")) is not None:
            yield item


class Queues:
    """Factory of an app's queues."""

    def __init__(
        self,
        connection: Connection,
        transactions: Transactions,
        consumers: Consumers,
        catalogue: Catalogue,
        options: Options,
        clock: Clock,
        workers: Sequence[Worker],
        meters: Meters,
    ) -> None:
        self._meters = meters
        self._connection = connection
        self._transactions = transactions
        self._consumers = consumers
        self._catalogue = catalogue
        self._options = options
        self._clock = clock
        self._workers = workers

    def make(self, group: str, topics: tuple[Any, ...], type: Any, options: QueueOptions) -> QueueClaims[Any]:
        """Create ``app.queue(group, *topics, …)``; raises BadOption or Conflict."""
        settings = QueueSettings(group, topics, self._catalogue, self._options, type, options)
        owner = next((each for each in self._consumers if each.group == settings.group), None)
        if owner is not None:
            raise Conflict(
                f"group {settings.group!r} belongs to the consumer {owner.name}: give the queue another name, since "
                "each would get half of its messages"
            )
        self._consumers.queues.take(settings)
        if settings.pending_limit is not None:
            self._consumers.backlogs.note(settings.group, settings.topics, settings.pending_limit)
        return QueueClaims(settings, self._runtime)

    @functools.cached_property
    def _runtime(self) -> QueueRuntime:
        options = self._options
        return QueueRuntime(
            self._connection,
            self._transactions,
            self._consumers.queues,
            options.name,
            options.idle_poll,
            self._clock,
            self._workers,
            self._meters.new_meter(),
        )
