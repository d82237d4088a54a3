"""Leases: named exclusive holds, each with an epoch that only grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

LeaseState = Literal["held", "expired", "free"]
"""Held; not renewed in time by its holder; or released."""


class Hold(NamedTuple):
    """One holder's right to a lease: valid until the epoch has advanced or the time is up.

    ``holder`` is unique to one acquisition: a restored database may repeat an epoch.
    """

    name: str
    epoch: int
    holder: str


class Granted(NamedTuple):
    """An acquired lease."""

    epoch: int
    acquired_at: datetime
    expires_at: datetime


class Renewal(NamedTuple):
    """A hold to be extended by ``ttl`` from now."""

    hold: Hold
    ttl: timedelta


@dataclass(frozen=True, slots=True)
class Renewed:
    """The result of renewals: those in neither set were renewed."""

    lost: frozenset[Hold] = field(default_factory=frozenset)
    """No longer held under this epoch, or expired."""
    busy: frozenset[Hold] = field(default_factory=frozenset)
    """Still held, but its row is locked just now: retry."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease as it is stored, for people."""

    name: str
    state: LeaseState
    holder: str | None
    """The holder, or the last one if it expired; None if it was released."""
    epoch: int
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When it expires, expired or was released."""


@dataclass(frozen=True, slots=True)
class LeaseTrouble:
    """A lease of this process that was not renewed in time."""

    name: str
    since: timedelta
    """How long ago it was lost, or had to be renewed."""
    why: str
    lost: bool = False
    """Whether it is lost; else it is held, and its renewal is late."""
