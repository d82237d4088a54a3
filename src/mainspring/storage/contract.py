"""What every storage must do. The tests in ``tests/contract`` are the other half of this file.

Names of topics, groups and keys arrive here as they are stored (namespace included) and already validated.
The storage's clock decides every due time, claim and expiry (invariant 7); ``Storage.now`` replaces it in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol
from uuid import UUID

from mainspring.model.message import Cancelled, Claim, Delivery, Draft, Extended, Published, Settled, Want
from mainspring.model.verdict import Settlement
from mainspring.model.views import (
    AuditView,
    Beat,
    DeadSelection,
    Declaration,
    DeliveryView,
    Filter,
    MessageView,
    Pruned,
    Retention,
    Roster,
    RunView,
    Tally,
)

BellMode = Literal["notify", "watch", "poll"]
"""How work is noticed: told by the database, watched for in the file, or only asked for."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Every message of a topic under one key."""

    topic: str
    key: str


class Mailbox(Protocol):
    """Messages and deliveries: put in, taken under a claim, settled."""

    async def publish(self, drafts: Sequence[Draft]) -> Published:
        """Store the drafts and route them to their groups, all or none.

        A draft whose id is known is a duplicate and changes nothing. One delivery per group, however many of
        its patterns match. A topic without a subscriber is parked. ``due_at`` is never before now.
        """
        ...

    async def claim(self, wants: Sequence[Want], owner: str, hold: timedelta) -> list[Delivery]:
        """Take due, unheld deliveries, up to each want's limit, and hold them for ``hold``.

        Within a group: its scans in the order given, within a scan by (due_at, seq). Rows due before a scan's
        ``since`` are not taken. No two callers ever hold the same delivery; rows another caller is taking are
        passed over, not waited for. Paused groups give nothing. ``attempt`` and ``epoch`` grow by one.
        """
        ...

    async def reap(self, groups: Sequence[str], owner: str, hold: timedelta) -> Delivery | None:
        """Take the one delivery of these groups whose claim lapsed longest ago, as a *suspect*.

        Its holder died or froze with it in hand, so it may be what killed it. ``deaths`` grows by one only if it
        was a suspect already: an innocent neighbour of a poisonous message never collects deaths.
        """
        ...

    async def upcoming(self, groups: Sequence[str]) -> timedelta | None:
        """How long until the next delivery of these groups that nobody holds comes due; None: there is none.

        What is due already does not count, nor do paused groups. It tells a worker how long it may sleep.
        """
        ...

    async def extend(self, claims: Sequence[Claim], hold: timedelta) -> Extended:
        """Hold the claims for ``hold`` from now. Locked rows are passed over (busy), never waited for."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Write the verdicts, all or none, each one only under its own unmoved epoch.

        A lapsed claim that nobody else has taken still settles. A row that is gone, or that was handed back under
        this very epoch, was settled by an earlier copy of the call: *gone*. Another epoch: *lost*.
        """
        ...

    async def cancel(self, which: UUID | Keyed, reason: str) -> Cancelled:
        """Remove what nobody holds (parked included), and ask the holders of the rest to stop."""
        ...


class Ledger(Protocol):
    """Reading. Never locks, never changes anything."""

    async def tally(self, cap: int = 100_000) -> Tally:
        """Count every group's deliveries by state, each up to ``cap``."""
        ...

    async def browse(self, filter: Filter) -> list[DeliveryView]:
        """List deliveries, newest first."""
        ...

    async def find(self, message_id: UUID) -> MessageView | None:
        """One message with all that is known of it."""
        ...

    async def runs(self, group: str | None, before: int | None, limit: int) -> list[RunView]:
        """The kept runs, newest first; ``before`` is the id of the last row of the page before."""
        ...

    async def roster(self) -> Roster:
        """The declared groups and the workers that reported themselves."""
        ...

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """What operators did, newest first."""
        ...


class Controls(Protocol):
    """What an operator may do. Every call is audited with ``by``, in the same transaction."""

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """Stop handing out this group's deliveries. False: there is no such group."""
        ...

    async def resume(self, group: str, by: str) -> bool:
        """Hand them out again. False: there is no such group."""
        ...

    async def revive(self, which: DeadSelection, by: str, limit: int) -> int:
        """Give up to ``limit`` dead letters a fresh life: due now, attempt and deaths 0, epoch grown."""
        ...

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """Revive one dead letter with another payload: ``draft`` is stored for its group, the dead letter ends.

        Messages are immutable, and other groups may still need the old payload. False: no such dead letter.
        """
        ...

    async def discard(self, which: DeadSelection, by: str, limit: int) -> int:
        """Remove up to ``limit`` dead letters for good."""
        ...

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """Remove a group: first its subscriptions, then up to ``limit`` of its deliveries per call.

        Returns how many deliveries were dropped, zero when the last has gone and the group with it; None: there is
        no such group.
        """
        ...


class Upkeep(Protocol):
    """What workers do for the whole, in bounded batches."""

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Make the groups and exactly their subscriptions known. The same declaration again writes nothing.

        Raises Conflict when a group belongs to another app. A pause is left as it is.
        """
        ...

    async def beat(self, beat: Beat) -> None:
        """Report a worker as alive and add up what it has done."""
        ...

    async def farewell(self, worker: str) -> None:
        """Take a worker that ends in good order off the roster."""
        ...

    async def reroute(self, limit: int) -> int:
        """Route up to ``limit`` parked messages whose topic has subscribers now. Returns how many."""
        ...

    async def prune(self, retention: Retention, limit: int) -> Pruned:
        """Remove up to ``limit`` of each kind of what is over. A message goes when nothing refers to it."""
        ...


class Doorbell(Protocol):
    """A hint that work may be due. It may be late, spurious or missing; correctness never needs it."""

    @property
    def mode(self) -> BellMode:
        """How work is noticed now. ``notify`` only while the bell has been proven to ring."""
        ...

    def listen(self, rung: Callable[[str], None]) -> None:
        """Call ``rung(group)`` on this loop when a publisher rings; the empty string means any group."""
        ...

    async def arm(self, groups: Collection[str]) -> None:
        """Ask publishers to ring for these groups. The caller must look once more before it sleeps."""
        ...

    async def disarm(self, groups: Collection[str]) -> None:
        """Enough: we are awake."""
        ...

    async def ring(self) -> None:
        """Wake whoever is asleep anywhere, whatever its groups."""
        ...

    async def rouse(self) -> None:
        """Ring for armed groups that have something due: a transaction was committed after they fell asleep."""
        ...


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

    def sibling(self) -> Storage:
        """Another door to the same database for another thread and loop; the caller opens and closes it."""
        ...
