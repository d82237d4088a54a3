"""``app.sync.queue``: a queue for processors that block, in their transaction or on a loop in the background."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from mainspring.app.queues import verdicts
from mainspring.app.queues.answers import ExtendedItems, SettledItems
from mainspring.app.queues.custody import Custody
from mainspring.app.queues.item import Item
from mainspring.app.queues.verdicts import Judge
from mainspring.app.sync_desk import Running
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import Duration

T = TypeVar("T")


class SyncQueue(Generic[T]):
    """As ``Queue``, without await. Its items and those of ``app.queue`` of the same group are the same."""

    def __init__(self, custody: Custody[T], run: Running) -> None:
        self._custody = custody
        self._run = run

    def __repr__(self) -> str:
        """For people: the group and its topics."""
        return f"<SyncQueue {self.group!r} of {', '.join(self.topics) or 'what its group subscribes to'}>"

    @property
    def group(self) -> str:
        """The group whose deliveries these are."""
        return self._custody.terms.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none where the group is declared elsewhere."""
        return self._custody.terms.topics

    def declare(self) -> None:
        """Make the group and its topics known now. See ``Queue.declare``."""
        self._run(self._custody.declare, "queue(…).declare()")

    def claim(self, batch: int = 10, hold: Duration = "1m", owner: str | None = None) -> list[Item[T]]:
        """Take up to ``batch`` due deliveries and hold them for ``hold``. See ``Queue.claim``."""
        return self._run(lambda: self._custody.claim(batch, hold, owner), "queue(…).claim(…)")

    def reap(self, hold: Duration = "1m", owner: str | None = None) -> Item[T] | None:
        """Take over the delivery whose claim lapsed longest ago, as a suspect. See ``Queue.reap``."""
        return self._run(lambda: self._custody.reap(hold, owner), "queue(…).reap(…)")

    def wait(self, timeout: Duration | None = None) -> bool:
        """Sleep until something may be due to claim, at most ``timeout``. See ``Queue.wait``."""
        return self._run(lambda: self._custody.wait(timeout), "queue(…).wait(…)")

    def items(self, hold: Duration = "1m", owner: str | None = None) -> Iterator[Item[T]]:
        """One item after another, for ever. See ``Queue.items``."""
        turns = self._custody.items(hold, owner)
        while (item := self._run(lambda: anext(turns, None), "queue(…).items(…)")) is not None:
            yield item

    def extend(self, *items: Item[T], hold: Duration = "1m") -> ExtendedItems[T]:
        """Hold them for ``hold`` from now. See ``Queue.extend``."""
        return self._run(lambda: self._custody.extend(items, hold), "queue(…).extend(…)")

    def ack(self, *items: Item[T], output: str | None = None, tx: Any = None) -> SettledItems[T]:
        """They are done. See ``Queue.ack``."""
        return self._settle(items, verdicts.done(output), tx, "ack")

    def abandon(
        self, *items: Item[T], delay: Duration = "5s", reason: str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """Hand them back, to be claimed again after ``delay``. See ``Queue.abandon``."""
        return self._settle(items, verdicts.handed_back(delay, reason), tx, "abandon")

    def fail(
        self, *items: Item[T], error: BaseException | str, retry: RetryPolicy | str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """They failed: tried again by the policy, or buried with the error. See ``Queue.fail``."""
        return self._settle(items, verdicts.failed(error, retry, self._custody.terms), tx, "fail")

    def _settle(self, items: tuple[Item[T], ...], judge: Judge, tx: object, call: str) -> SettledItems[T]:
        if tx is not None:
            return self._custody.join(items, judge, tx, call)
        return self._run(lambda: self._custody.settle(items, judge, None, call), f"queue(…).{call}(…)")
