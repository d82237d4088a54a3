"""Leases: named exclusive holds, each with an epoch that only ever grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

LeaseState = Literal["held", "expired", "free"]
"""Somebody has it; its holder did not renew it in time; nobody has it."""


class Hold(NamedTuple):
    """One holder's right to a lease: good until the epoch has moved on or the time has run out.

    ``holder`` is another one for every acquisition: a restored database may hand out an epoch again.
    """

    name: str
    epoch: int
    holder: str


class Granted(NamedTuple):
    """A lease that was acquired."""

    epoch: int
    acquired_at: datetime
    expires_at: datetime


class Renewal(NamedTuple):
    """A hold that is to be good for ``ttl`` from now."""

    hold: Hold
    ttl: timedelta


@dataclass(frozen=True, slots=True)
class Renewed:
    """What became of renewals: those in neither set were renewed."""

    lost: frozenset[Hold] = field(default_factory=frozenset)
    """No longer held under this epoch, or run out, whoever has it now."""
    busy: frozenset[Hold] = field(default_factory=frozenset)
    """Still held, and locked by somebody at this moment: to be asked again."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease as it is stored, for people to look at."""

    name: str
    state: LeaseState
    holder: str | None
    """Who has it, or had it when it expired; None: it was released."""
    epoch: int
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When it runs out, or when it ran out or was released."""
