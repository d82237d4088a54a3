"""Messages and deliveries: what every storage must do with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.limits import LimitedClaim, Limits
from mainspring.model.message import (
    Cancelled,
    Claim,
    ClaimRequest,
    Delivery,
    Draft,
    Extended,
    Published,
    Receipt,
    Settled,
)
from mainspring.model.unique import UniqueKey
from mainspring.model.verdict import Settlement


@dataclass(frozen=True, slots=True)
class Keyed:
    """Every message of a topic under one key."""

    topic: str
    key: str


class Mailbox(Protocol):
    """Messages and deliveries: put in, taken under a claim, settled."""

    async def publish(self, drafts: Sequence[Draft]) -> Published:
        """Store the drafts and route them to their groups, all or none.

        A draft whose id is known changes nothing: it is a *duplicate*, or where its topic or payload is another one, a
        *conflict*. One delivery per group, however many of its patterns match. A topic without a subscriber is parked.
        ``due_at`` is never before now.
        """
        ...

    async def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Receipt:
        """Store the draft, unless an earlier message of this likeness counts; one call at a time for each likeness.

        What counts is the last one that was stored: while all of its copies are there and none was ever taken
        (*pending*, parked or not), while some copy is there (*running*), or for a time from when it was published,
        whatever became of it. Then nothing is stored: *duplicate*, with its id. To keep the last, its copies that were
        never taken are cancelled instead, and the draft is stored: *replaced* where there were any. A draft whose id is
        known was stored by an earlier copy of this call, and changes nothing: *stored*; or it is another message's:
        *conflict*.
        """
        ...

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """Publish the drafts, all or none, as members of a join; each names the one group that receives it.

        A member ends when its delivery is done, buried or cancelled, or its group is retired; a retry is no end. When
        all have ended, ``Timetable.look`` publishes what follows. What was there already is no member.
        """
        ...

    async def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> list[Delivery]:
        """Take due, unheld deliveries, up to each want's limit, and hold them for ``hold``.

        ``owner`` is unique to one start of one process (``model.holder``), here and wherever else something is taken.
        Whatever is written under the claims names it again.

        Within a group: its scans in the order given, within a scan by (due_at, seq). Rows due before a scan's
        ``since`` are not taken. No two callers ever hold the same delivery; rows another caller is taking are
        passed over, not waited for. Paused groups give nothing. ``attempt`` and ``epoch`` grow by one.
        """
        ...

    async def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> LimitedClaim:
        """Take due deliveries of a group as far as its limits allow; one call at a time for each group.

        Looked at are the first that are due, as by ``claim``. Where those of some keys stand in the way of others,
        all keys are gone through as well, some at each call: from ``after`` on, which the last call has answered;
        and the first that have no key are found, however many stand before them.
        Under an order only the first of a key may be taken, while none of that key is held; with ``on_failure="skip"``
        those do not count that have failed and wait to be tried again. What is held counts, lapsed or not.
        """
        ...

    async def reap_limited(
        self,
        group: str,
        limits: Limits,
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Delivery | None:
        """``reap`` for a group with limits: it was and stays in hand, but a rate counts it once more."""
        ...

    async def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Delivery | None:
        """Take this group's delivery of one message, due or not, unless somebody holds it. Pauses do not count."""
        ...

    async def reap(
        self,
        groups: Sequence[str],
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Delivery | None:
        """Take the one delivery of these groups whose claim lapsed longest ago, as a *suspect*.

        Its holder died or froze with it in hand, so it may be what killed it. ``deaths`` grows by one only if it
        was a suspect already: an innocent neighbour of a poisonous message collects none for having been claimed with
        it. What is *accused*, because it has deaths or has one by being taken now, is left alone without ``accused``.
        What this owner holds and has put ``aside`` is left alone too: its holder lives, and only its verdict waits.
        """
        ...

    async def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> timedelta | None:
        """How long until the next delivery of these groups that nobody holds comes due; None: there is none.

        What was due already does not count, unless it came due within the time ``back``: then it has been due for as
        long as the answer is negative. Paused groups do not count. It tells a worker how long it may sleep.
        """
        ...

    async def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Extended:
        """Hold the owner's claims for ``hold`` from now. Locked rows are passed over (busy), never waited for."""
        ...

    async def settle(self, settlements: Sequence[Settlement], owner: str) -> Settled:
        """Write the verdicts, each one only under its own unmoved epoch, held by this owner; together or not at all.

        A lapsed claim that nobody else has taken still settles. A row that is gone, or that was handed back under
        this very epoch, was settled by an earlier copy of the call: *gone*. Another epoch, another owner, or another
        message under the same id: *lost*. Locked rows are passed over, never waited for: *busy*, and to be settled
        again. The end of a member is counted with its verdict; the settlement says that it is one.
        """
        ...

    async def cancel(self, which: UUID | Keyed, reason: str) -> Cancelled:
        """Remove what nobody holds (parked included), and ask the holders of the rest to stop."""
        ...
