"""``app.queue``: the deliveries of one group, claimed and settled by code of the user's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Generic, TypeVar

from mainspring.app.blocking import Face, blocking
from mainspring.app.queues import verdicts
from mainspring.app.queues.answers import ExtendedItems, SettledItems
from mainspring.app.queues.custody import Custody
from mainspring.app.queues.item import Item
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import Duration

T = TypeVar("T")


class Queue(Generic[T]):
    """The deliveries of one group, for a processor that claims and settles them itself. Needs no worker.

    Nothing happens in the background: a claim that nobody extends lapses, and what has lapsed comes back by ``reap``
    alone. ``ack``, ``abandon`` and ``fail`` return when every item was settled. They raise ClaimLost when some were
    not, after the others were settled; with ``tx`` the caller rolls back.
    """

    def __init__(self, custody: Custody[T]) -> None:
        self._custody = custody

    def __repr__(self) -> str:
        """For people: the group and its topics."""
        return f"<Queue {self.group!r} of {', '.join(self.topics) or 'what its group subscribes to'}>"

    @property
    def group(self) -> str:
        """The group whose deliveries these are."""
        return self._custody.terms.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none where the group is declared elsewhere."""
        return self._custody.terms.topics

    async def declare(self) -> None:
        """Make the group and its topics known now, and route what was parked for it. The first use does so by itself.

        A queue without topics is only looked for: BadOption when there is no such group.
        """
        await self._custody.declare()

    # --- taking --------------------------------------------------------------------------------------------

    async def claim(self, batch: int = 10, hold: Duration = "1m", owner: str | None = None) -> list[Item[T]]:
        """Take up to ``batch`` due deliveries and hold them for ``hold``; none when nothing is due, or it is paused.

        In the order of workers: by priority, of which none starves, then by due time. What has expired is cancelled
        on the way. What others hold, or have let lapse, is not among them.
        """
        return await self._custody.claim(batch, hold, owner)

    async def reap(self, hold: Duration = "1m", owner: str | None = None) -> Item[T] | None:
        """Take over the delivery whose claim lapsed longest ago, as a *suspect*; None: there is none to be had.

        Its holder died or froze with it, so it may be the reason. So they come one after the other: for the first
        second that one is in hand, and to its end where it has cost a process before, the answer is None. One that
        three suspects' holders have died with is buried unread.
        """
        return await self._custody.reap(hold, owner)

    async def wait(self, timeout: Duration | None = None) -> bool:  # noqa: ASYNC109 - the end of it is no error
        """Sleep until something may be due to claim, at most ``timeout`` [for ever]. False: nothing is.

        Publishers and the next due instant wake it, and beneath that it looks every few seconds. Another processor may
        be faster, and lapsed claims do not count: ``reap`` now and then. In ``app.testing()`` it never sleeps.
        """
        return await self._custody.wait(timeout)

    def items(self, hold: Duration = "1m", owner: str | None = None) -> AsyncIterator[Item[T]]:
        """One item after another, for ever: reaped, claimed or waited for. The body of the loop settles each.

        Each is claimed when it is asked for, and nothing is extended by itself. In ``app.testing()`` it ends when
        nothing is due.
        """
        return self._custody.items(hold, owner)

    async def extend(self, *items: Item[T], hold: Duration = "1m") -> ExtendedItems[T]:
        """Hold them for ``hold`` from now, and learn which were lost, and which somebody has cancelled meanwhile."""
        return await self._custody.extend(items, hold)

    # --- settling ------------------------------------------------------------------------------------------

    async def ack(self, *items: Item[T], output: str | None = None, tx: Any = None) -> SettledItems[T]:
        """They are done. ``output`` is kept with the run, where successes are kept (``keep="all"``).

        With ``tx`` it joins the caller's transaction: they are done if and when that commits.
        """
        return await self._custody.settle(items, verdicts.done(output), tx, "ack")

    async def abandon(
        self, *items: Item[T], delay: Duration = "5s", reason: str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """Hand them back, to be claimed again after ``delay``. No attempt is counted, however often it is done."""
        return await self._custody.settle(items, verdicts.handed_back(delay, reason), tx, "abandon")

    async def fail(
        self, *items: Item[T], error: BaseException | str, retry: RetryPolicy | str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """They failed: the attempt counts, and they are tried again by the policy, or buried with the error.

        ``retry`` is a policy or the name of a preset [the queue's own]; ``"none"`` buries at once.
        """
        judge = verdicts.failed(error, retry, self._custody.terms)
        return await self._custody.settle(items, judge, tx, "fail")


class SyncQueue(Face[Queue[T]], Generic[T]):
    """As ``Queue``, without await. Its items and those of ``app.queue`` of the same group are the same."""

    def __repr__(self) -> str:
        """For people: the group and its topics."""
        return f"<Sync{repr(self._target)[1:]}"

    @property
    def group(self) -> str:
        """The group whose deliveries these are."""
        return self._target.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none where the group is declared elsewhere."""
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
        """One item after another, for ever. See ``Queue.items``."""
        turns = self._target.items(hold, owner)
        while (item := self._wait_for(lambda: anext(turns, None), "items(…)")) is not None:
            yield item
