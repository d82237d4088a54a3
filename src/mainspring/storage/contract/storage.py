"""One database with every door to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage.contract.controls import Controls
from mainspring.storage.contract.doorbell import Doorbell
from mainspring.storage.contract.fanouts import Fanouts
from mainspring.storage.contract.inbox import Inbox
from mainspring.storage.contract.leases import Leases
from mainspring.storage.contract.ledger import Ledger
from mainspring.storage.contract.lending import Lender
from mainspring.storage.contract.mailbox import Mailbox
from mainspring.storage.contract.measures import Measures
from mainspring.storage.contract.timetable import Timetable
from mainspring.storage.contract.upkeep import Upkeep


class Schema(Protocol):
    """The tables and their version."""

    async def version(self) -> int:
        """The version the database is at; 0 when there is nothing."""
        ...

    async def check(self) -> None:
        """Raise SchemaMissing or SchemaTooNew unless this release can work with what is there."""
        ...

    async def migrate(self) -> list[str]:
        """Apply what is missing, forward only, safe with many starters. Returns the names applied."""
        ...

    async def lacking(self) -> list[str]:
        """The rights that the role lacks for what an app does, each as the statement that grants it.

        Only PostgreSQL has roles.
        """
        ...

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        """What may be wrong with a database that answers; ``host`` is the clock it is compared with. Changes nothing.

        Memory has none of the symptoms.
        """
        ...

    async def ahead(self) -> timedelta:
        """How far the time that is told here is ahead of this host's clock, where it should be that; zero elsewhere."""
        ...


class Storage(Protocol):
    """One database, with every door to it."""

    now: datetime | None
    """A hand-set clock for tests. None in production: the database owns the clock."""
    migrates_itself: bool
    """Whether opening may create the tables without being asked (embedded databases)."""
    mailbox: Mailbox
    ledger: Ledger
    controls: Controls
    upkeep: Upkeep
    timetable: Timetable
    inbox: Inbox
    leases: Leases
    fanouts: Fanouts
    measures: Measures
    doorbell: Doorbell
    schema: Schema

    async def open(self) -> None:
        """Get ready on the running loop. Does not fail because a server is away: operations will say so."""
        ...

    async def close(self) -> None:
        """Let go of every connection and thread. Idempotent."""
        ...

    async def ping(self) -> timedelta:
        """One empty round trip, and how long it took. Raises StorageUnavailable."""
        ...

    def lender(self, size: int) -> Lender:
        """What lends connections to handlers, up to ``size`` at once. Opens none yet."""
        ...

    def sibling(self) -> Storage:
        """Another door to the same database for another thread and loop; the caller opens and closes it."""
        ...
