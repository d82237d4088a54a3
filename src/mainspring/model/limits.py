"""Order and limits: how many deliveries of a group may be in hand, in which order, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from mainspring.model.message import Delivery

OnFailure = Literal["block", "skip"]
"""What a failed message of an ordered consumer does to those behind it: they wait for it, or run before its retry."""

SLOTS = 50
"""The number of slots of a rate's window. A slot's claims are freed together, one slot after the window."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``count`` claims within any period of ``per``."""

    count: int
    per: timedelta

    @property
    def slot(self) -> timedelta:
        """The length of a slot; the database stores one number for each."""
        return max(self.per / SLOTS, timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a group, across all workers. Messages without a key are subject to the whole group's only."""

    ordered: bool = False
    """One at a time per key, by ``seq``."""
    on_failure: OnFailure = "block"
    key_concurrency: int | None = None
    global_concurrency: int | None = None
    rate: Rate | None = None
    key_rate: Rate | None = None

    @property
    def most_of_a_key(self) -> int | None:
        """How many of one key may be in hand at once."""
        return 1 if self.ordered else self.key_concurrency

    @property
    def is_by_key(self) -> bool:
        """Whether one key may have to wait while another need not."""
        return self.most_of_a_key is not None or self.key_rate is not None

    @property
    def is_rated(self) -> bool:
        """Whether claims are counted."""
        return self.rate is not None or self.key_rate is not None


class LimitedClaim(NamedTuple):
    """The result of a claim under limits."""

    deliveries: list[Delivery]
    again_in: timedelta | None
    """When there may be more without another event: a delivery is due, or a rate has room again."""
    after: str | None
    """The key after which the next call continues; None if all keys were scanned."""
    left: bool
    """Whether due deliveries were left, so that every end of a run is a reason to claim again."""
    full: bool = False
    """Whether the limits of the whole group are reached, so that no publish is a reason to claim."""
