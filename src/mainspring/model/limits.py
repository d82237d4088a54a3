"""Order and limits: what of a group may be in hand at once, in which order, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from mainspring.model.message import Delivery

OnFailure = Literal["block", "skip"]
"""What a failed message of an ordered consumer does to those behind it: they wait for it, or go on meanwhile."""

SLOTS = 50
"""Into how many slots the window of a rate is cut. What a slot has spent comes back as one, a slot after its window."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``count`` claims within any stretch of ``per``."""

    count: int
    per: timedelta

    @property
    def slot(self) -> timedelta:
        """How long a slot is; the database keeps one number for each."""
        return max(self.per / SLOTS, timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a group, for all workers together. What has no key is bound by those of the whole group only."""

    ordered: bool = False
    """One at a time under a key, by ``seq``."""
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
        """Whether one key may have to wait while another has not."""
        return self.most_of_a_key is not None or self.key_rate is not None

    @property
    def is_rated(self) -> bool:
        """Whether claims are counted."""
        return self.rate is not None or self.key_rate is not None


class LimitedClaim(NamedTuple):
    """What a claim under limits brought."""

    deliveries: list[Delivery]
    again_in: timedelta | None
    """When there may be more without anybody doing anything: something comes due, or a rate has room again."""
    after: str | None
    """The key after which the next call goes on looking; None: all keys have been looked at."""
    left: bool
    """Whether something due was left behind, and so every end of a run is a reason to look again."""
    full: bool = False
    """Whether that is because of the limits of the whole group, so that nothing goes, whatever else is published."""
