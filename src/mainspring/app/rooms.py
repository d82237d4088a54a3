"""Parts of the app (schedules, inbox, leases, queues, fan-outs), imported on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from mainspring.app.backlog import WhenFull
from mainspring.app.door import Door
from mainspring.app.middleware.chain import PublishChain
from mainspring.app.registering import Registering
from mainspring.app.transactions import Transactions
from mainspring.model.message import Keep
from mainspring.telemetry.measures import Meters
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.clock import ReplaceableClock

if TYPE_CHECKING:
    from mainspring.app.fanout import FanoutCode, FanoutOptions, FanoutRegistrar
    from mainspring.app.fanouts import Fanouts
    from mainspring.app.inbox import Inbox
    from mainspring.app.leases import Leases
    from mainspring.app.planning import Coordinator
    from mainspring.app.queues.queue import Queue
    from mainspring.app.queues.queues import Queues
    from mainspring.app.schedules import Schedules
    from mainspring.app.workforce import Workers


T = TypeVar("T")


class Rooms(Registering):
    """Schedules, inbox, leases, fan-outs and queues of an app, imported when first used."""

    _door: Door
    _transactions: Transactions
    _clock: ReplaceableClock
    _wake: Callable[[], None]
    _chain: PublishChain
    _meters: Meters

    @functools.cached_property
    def schedules(self) -> Schedules:
        """What runs on a rhythm: to look at, and to steer while everything runs."""
        from mainspring.app.schedules import Schedules
        from mainspring.app.wishes import Wishes

        name, recurrences = self._options.name, self._recurrences
        wishes = Wishes(self._envelope, self._consumers, recurrences, name)
        return Schedules(self._door, self._transactions, wishes, recurrences, name, self._workers)

    @functools.cached_property
    def workers(self) -> Workers:
        """Who is at work: to look at, and to drain."""
        from mainspring.app.workforce import Workers

        return Workers(self._door)

    @functools.cached_property
    def inbox(self) -> Inbox:
        """Messages of others, each processed once however often it is sent."""
        from mainspring.app.inbox import Inbox

        return Inbox(self._door, self._transactions, self._options.name, self._bus)

    @overload
    def queue(
        self,
        group: str,
        *topics: Any,
        type: type[T],
        retry: RetryPolicy | str | None = None,
        keep: Keep | None = None,
        pending_limit: int | None = None,
        when_full: WhenFull | None = None,
    ) -> Queue[T]: ...

    @overload
    def queue(
        self,
        group: str,
        *topics: Any,
        type: Any = None,
        retry: RetryPolicy | str | None = None,
        keep: Keep | None = None,
        pending_limit: int | None = None,
        when_full: WhenFull | None = None,
    ) -> Queue[Any]: ...

    def queue(
        self,
        group: str,
        *topics: Any,
        type: Any = None,
        retry: RetryPolicy | str | None = None,
        keep: Keep | None = None,
        pending_limit: int | None = None,
        when_full: WhenFull | None = None,
    ) -> Queue[Any]:
        """A work queue on a group: its deliveries are claimed and settled by code of yours, without a worker.

        It subscribes to the topics, patterns and message types; without any the group must be there. Payloads are read
        as ``type`` [the one of their topic]; failures are tried again by ``retry`` ["messages"]; ``keep`` is how much
        history its deliveries leave [the app's]; ``pending_limit`` and ``when_full`` are those of a consumer.
        """
        from mainspring.app.queues.queue import Queue

        options = {"retry": retry, "keep": keep, "pending_limit": pending_limit, "when_full": when_full}
        return Queue(self._queues.make(group, topics, type=type, **options))

    @functools.cached_property
    def _queues(self) -> Queues:
        from mainspring.app.queues.queues import Queues

        consumers, catalogue, options = self._consumers, self._catalogue, self._options
        clock, workers, meters = self._clock, self._workers, self._meters
        return Queues(self._door, self._transactions, consumers, catalogue, options, clock, workers, meters)

    @functools.cached_property
    def leases(self) -> Leases:
        """Named exclusive holds: one holder at a time, with an epoch to fence what it does."""
        from mainspring.app.leases import Leases

        return Leases(self._door, self._transactions, self._clock)

    def fanout(self, topic: str, work_key: str | None = None, **options: Unpack[FanoutOptions]) -> FanoutRegistrar:
        """Register a planner: a function that yields the shards whose work is due on a rhythm, ``cron`` or ``every``.

        It yields shards as text, or (shard, work) pairs where ``work_key`` is left out. Every shard that is due gets a
        slice, a message; who handles them is registered by ``@planner.slices()``.
        """
        return self._fanout_code.registrar(topic, work_key, options)

    @functools.cached_property
    def _fanout_code(self) -> FanoutCode:
        if self._front is not None:
            return self._front._fanout_code  # noqa: SLF001 - of the same class
        from mainspring.app.advancing import Advancing
        from mainspring.app.fanout import FanoutCode

        advancing = Advancing(self._door, self._transactions)
        return FanoutCode(self.recurring, self.consumer, self._consumers, advancing, lambda: self._coordinator)

    @functools.cached_property
    def fanouts(self) -> Fanouts:
        """One rhythm over many shards: how far each has come, and how they are planned."""
        from mainspring.app.fanouts import Fanouts

        return Fanouts(self._door, self._fanout_code, self.schedules, self._coordinator, self._post)

    @functools.cached_property
    def _coordinator(self) -> Coordinator:
        from mainspring.app.planning import Coordinator

        return Coordinator(self._door, self.leases, self._envelope, self._wake, self._chain.carried)
