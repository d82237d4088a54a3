"""One delivery in the hands of a custom processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from uuid import UUID

from mainspring.model.headers import public
from mainspring.model.holder import shown
from mainspring.model.message import Claim, Delivery

T = TypeVar("T")

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Held:
    """What is known here of one claim."""

    delivery: Delivery
    owner: str
    """What it is held by in the database: unique to this process (``model.holder``)."""
    home: object
    """What all queues of its app have in common: an item of another app is told by it."""
    received: float
    """When the claim was answered, by the monotonic clock."""
    until: datetime
    """No later than the claim lapses, by the database's clock."""
    settled: str | None = None
    """The call that settled it, once the database has said so; a transaction of the caller's says nothing."""
    unheard: bool = False
    """Whether a settle was sent and its answer lost: then it may have been written."""

    @property
    def waited(self) -> float:
        """Seconds from when it was due until it was claimed, by the database's clock."""
        return (self.delivery.claimed_at - self.delivery.due_at).total_seconds()

    @property
    def lapses(self) -> float:
        """When the claim has lapsed for certain, by the monotonic clock, unless it is extended."""
        return self.received + (self.until - self.delivery.claimed_at).total_seconds()

    def extended(self, sent: float, hold: timedelta) -> None:
        """It was extended by a call that was sent then."""
        # The database's clock at the claim, and what has passed since: its clock now is no earlier.
        passed = timedelta(seconds=max(sent - self.received, 0.0))
        self.until = self.delivery.claimed_at + passed + hold


class Item(Generic[T]):
    """One group's copy of a message, claimed by ``queue.claim`` or ``queue.reap``, until it is settled or lapses.

    It is settled once, by a queue of the same group: ``ack``, ``abandon`` or ``fail``.
    """

    __slots__ = ("__weakref__", "_held", "_read")

    def __init__(self, held: Held, read: Callable[[Delivery], T]) -> None:
        self._held = held
        self._read = read

    def __repr__(self) -> str:
        """For people: which message, whose copy, which attempt."""
        return f"<Item {self.topic} {self.message_id} for {self.group}, attempt {self.attempt}>"

    @property
    def payload(self) -> T:
        """The payload, read now: as the queue's ``type``, or the one registered for its topic, or as plain values.

        Raises Unreadable, naming the message, for bytes that do not fit. Its neighbours are not touched by that.
        """
        return self._read(self._held.delivery)

    @property
    def body(self) -> bytes:
        """The payload as it is stored."""
        return self._held.delivery.payload

    @property
    def content_type(self) -> str:
        """What its payload is stored as: ``application/json``."""
        return self._held.delivery.content_type

    @property
    def message_id(self) -> UUID:
        """The message's id: the same in every attempt and for every group."""
        return self._held.delivery.message_id

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self._held.delivery.topic

    @property
    def group(self) -> str:
        """The group whose copy this is."""
        return self._held.delivery.group

    @property
    def key(self) -> str | None:
        """The key it was published under."""
        return self._held.delivery.key

    @property
    def headers(self) -> Mapping[str, str]:
        """The publisher's headers; empty when there were none."""
        headers = self._held.delivery.headers
        return _NO_HEADERS if headers is None else MappingProxyType(public(headers))

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to, if the publisher said so."""
        return self._held.delivery.correlation_id

    @property
    def causation_id(self) -> UUID | None:
        """The message whose handler published this one."""
        return self._held.delivery.causation_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1. What was abandoned counted none."""
        return self._held.delivery.attempt

    @property
    def suspect(self) -> bool:
        """Whether it was reaped: its last holder died or froze with it, and it may be the reason."""
        return self._held.delivery.suspect

    @property
    def scheduled_for(self) -> datetime:
        """When it was meant to be delivered; a retry does not move it."""
        return self._held.delivery.scheduled_for

    @property
    def published_at(self) -> datetime:
        """When it was stored, by the database's clock."""
        return self._held.delivery.published_at

    @property
    def claim(self) -> Claim:
        """The right to settle it, ``(id, epoch, message_id)``: the epoch grows with every claim, and is the fence."""
        return self._held.delivery.claim

    @property
    def owner(self) -> str:
        """Who claimed it."""
        return shown(self._held.owner)

    @property
    def held_until(self) -> datetime:
        """When the claim lapses, by the database's clock, unless it is extended. Never later than it really does."""
        return self._held.until


def held(item: Item[Any]) -> Held:
    """What the queues know of an item, and users need not."""
    return item._held  # noqa: SLF001 - the other side of the same thing
