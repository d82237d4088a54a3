"""The rooms of an app that are furnished when somebody first enters: who never does, imports nothing of them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mainspring.app.door import Door
from mainspring.app.registering import Registering
from mainspring.app.transactions import Transactions
from mainspring.model.message import Keep
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.clock import ReplaceableClock

if TYPE_CHECKING:
    from mainspring.app.inbox import Inbox
    from mainspring.app.leases import Leases
    from mainspring.app.queues.queue import Queue
    from mainspring.app.queues.queues import Queues
    from mainspring.app.schedules import Schedules
    from mainspring.app.wishes import Wishes


T = TypeVar("T")


class Rooms(Registering):
    """Schedules, inbox, leases and queues of an app. A door belongs to one loop, so each is made twice."""

    _door: Door
    _transactions: Transactions
    _clock: ReplaceableClock

    @functools.cached_property
    def schedules(self) -> Schedules:
        """What runs on a rhythm: to look at, and to steer while everything runs."""
        return self._scheduling(self._door)[0]

    @functools.cached_property
    def inbox(self) -> Inbox:
        """Messages of others, each processed once however often it is sent."""
        return self._receiving(self._door)

    @overload
    def queue(
        self,
        group: str,
        *topics: Any,
        type: type[T],
        retry: RetryPolicy | str | None = None,
        keep: Keep | None = None,
    ) -> Queue[T]: ...

    @overload
    def queue(
        self,
        group: str,
        *topics: Any,
        type: Any = None,
        retry: RetryPolicy | str | None = None,
        keep: Keep | None = None,
    ) -> Queue[Any]: ...

    def queue(
        self,
        group: str,
        *topics: Any,
        type: Any = None,
        retry: RetryPolicy | str | None = None,
        keep: Keep | None = None,
    ) -> Queue[Any]:
        """A work queue on a group: its deliveries are claimed and settled by code of yours, without a worker.

        It subscribes to the topics, patterns and message types; without any the group must be there. Payloads are read
        as ``type`` [the one of their topic]; failures are tried again by ``retry`` ["messages"]; ``keep`` is how much
        history its deliveries leave [the app's].
        """
        from mainspring.app.queues.queue import Queue

        return Queue(self._queues.make(group, topics, type, retry, keep))

    @functools.cached_property
    def _queues(self) -> Queues:
        return self._queueing(self._door)

    @functools.cached_property
    def leases(self) -> Leases:
        """Named exclusive holds: one holder at a time, with an epoch to fence what it does."""
        return self._leasing(self._door)

    def _leasing(self, door: Door) -> Leases:
        from mainspring.app.leases import Leases

        return Leases(door, self._transactions, self._names, self._clock)

    def _scheduling(self, door: Door) -> tuple[Schedules, Wishes]:
        from mainspring.app.schedules import Schedules
        from mainspring.app.wishes import Wishes

        name, names, recurrences = self._options.name, self._names, self._recurrences
        wishes = Wishes(self._envelope, self._consumers, recurrences, names, name)
        return Schedules(door, self._transactions, wishes, recurrences, names, name, self._workers), wishes

    def _receiving(self, door: Door) -> Inbox:
        from mainspring.app.inbox import Inbox

        return Inbox(door, self._transactions, self._names, self._options.name, self._bus)

    def _queueing(self, door: Door) -> Queues:
        from mainspring.app.queues.queues import Queues

        consumers, catalogue, options = self._consumers, self._catalogue, self._options
        return Queues(door, self._transactions, consumers, catalogue, options, self._clock, self._workers)
