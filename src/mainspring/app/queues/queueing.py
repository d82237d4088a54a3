"""``app.queue`` itself: the part of an app that makes queues, without importing what serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from mainspring.model.message import Keep
from mainspring.timing.backoff import RetryPolicy

if TYPE_CHECKING:
    from mainspring.app.queues.queue import Queue
    from mainspring.app.queues.queues import Queues

T = TypeVar("T")


class Queueing:
    """The part of an app that makes queues."""

    @property
    def _queues(self) -> Queues:
        raise NotImplementedError

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
