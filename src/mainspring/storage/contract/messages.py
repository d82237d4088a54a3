"""Messages and deliveries: the mailbox that stores them, the ledger that reads them, the controls of an operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from mainspring.model.join import Join, JoinView
from mainspring.model.limits import LimitedClaim, Limits
from mainspring.model.message import (
    Cancelled,
    Claim,
    ClaimRequest,
    Delivery,
    Draft,
    Extended,
    Held,
    Lapse,
    Published,
    Receipt,
    ReleasedClaims,
    Settled,
    UniqueKey,
)
from mainspring.model.search import CAUSES_SCAN, By, Causes, Chain, DeadSelection, Filter, Matches, Picked
from mainspring.model.verdict import Settlement
from mainspring.model.views import AuditView, DeliveryView, MessageView, Roster, RunTimes, RunView, Tally


@dataclass(frozen=True, slots=True)
class Keyed:
    """Every message of a topic under one key."""

    topic: str
    key: str


class Mailbox(Protocol):
    """Messages and deliveries: published, claimed, settled."""

    async def publish(self, drafts: Sequence[Draft]) -> Published:
        """Store the drafts and route them to their groups, all or none.

        A draft whose id is known changes nothing: it is a *duplicate*, or a *conflict* where its topic or payload
        differs. One delivery per group, however many of its patterns match. A message without a subscriber is parked.
        ``due_at`` is never before now.
        """
        ...

    async def publish_unique(self, draft: Draft, key: UniqueKey) -> Receipt:
        """Store the draft, unless an earlier message under this unique key counts; one call at a time for each key.

        Only the last stored message counts: while all of its copies exist and none was ever claimed (*pending*, parked
        or not), while any copy exists (*running*), or for a time from its publishing on. Then nothing is stored:
        *duplicate*, with its id. To keep the last, its copies that were never claimed are cancelled instead, and the
        draft is stored: *replaced* where there were any. A draft whose id is known was stored by an earlier copy of
        this call, and changes nothing: *stored*; or the id is another message's: *conflict*.
        """
        ...

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """Publish the drafts, all or none, as members of a join; each names the one group that receives it.

        A member ends when its delivery is done, buried or cancelled, or its group is retired; a retry is no end. When
        all have ended, ``Timetable.tick`` publishes the follow-up. A message that existed before is no member.
        """
        ...

    async def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> list[Delivery]:
        """Claim due, unheld deliveries, up to the limit of each request, for ``hold``.

        ``owner`` is unique to one start of one process (``model.worker.holder``), here and in every other claim. Every
        write under a claim names it again.

        Within a group: its scans in the order given, within a scan by (due_at, seq). Rows due before a scan's
        ``since`` are not claimed. No two callers ever hold the same delivery; rows that another caller is claiming are
        skipped, not waited for. Paused groups yield nothing. ``attempt`` and ``epoch`` grow by one.
        """
        ...

    async def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> LimitedClaim:
        """Claim due deliveries of a group as far as its limits allow; one call at a time for each group.

        It examines the first that are due, as ``claim`` does. Where some keys block others, it also visits all keys,
        some at each call: from ``after`` on, which the last call returned; and it finds the first without a key,
        however many stand before them. Under an order only the first of a key may be claimed, while none of that key is
        held; with ``on_failure="skip"`` those that failed and wait for a retry do not count. A held delivery counts,
        lapsed or not.
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
        """``reap`` for a group with limits: the delivery was and stays held, but a rate counts it once more."""
        ...

    async def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Delivery | None:
        """Claim this group's delivery of one message, due or not, unless it is held. Pauses do not count."""
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
        """Claim the one delivery of these groups whose claim lapsed longest ago, as a *suspect*.

        Its holder died or froze while holding it, so it may be the cause. ``deaths`` grows by one only if it was a
        suspect already: a message that was only claimed together with a poisonous one collects none. An *accused*
        delivery, which has deaths or gets one by this claim, is left alone without ``accused``. So is what this owner
        holds and has put ``aside``: its holder lives, and only its verdict waits.
        """
        ...

    async def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> timedelta | None:
        """Return how long until the next unheld delivery of these groups comes due; None: there is none.

        Deliveries that were due already do not count, unless they came due within the time ``back``: then the result is
        negative. Paused groups do not count. A worker may sleep for so long.
        """
        ...

    async def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Extended:
        """Extend the owner's claims to ``hold`` from now. Locked rows are skipped (busy), never waited for."""
        ...

    async def settle(self, settlements: Sequence[Settlement], owner: str) -> Settled:
        """Write the verdicts, each only under its own unchanged epoch and held by this owner; all or none.

        A lapsed claim that no other holder has taken over still settles. A row that is gone, or was released under this
        epoch, was settled by an earlier copy of the call: *gone*. Another epoch, another owner, or another message
        under the same id: *lost*. Locked rows are skipped, never waited for: *busy*, and to be settled again. The end
        of a member is counted with its verdict; the settlement marks members.
        """
        ...

    async def cancel(self, which: UUID | Keyed, reason: str) -> Cancelled:
        """Remove what is unheld, parked messages included, and ask the holders of the rest to stop."""
        ...


class Ledger(Protocol):
    """Reading. Never locks, never changes anything."""

    async def tally(self, cap: int = 100_000) -> Tally:
        """Count every group's deliveries by state, and what is parked, each up to ``cap``."""
        ...

    async def browse(self, filter: Filter) -> Matches:
        """List deliveries, newest first, without scanning more rows than the filter allows.

        The pages, by ``before``, together list every match once, however short some of them are.
        """
        ...

    async def causes(self, group: str | None, cap: int, limit: int, scan: int = CAUSES_SCAN) -> Causes:
        """List the causes of dead letters, up to ``limit``: of one group, or of all.

        The most frequent first, each counted up to ``cap``, or less far where counting all causes would take more than
        ``scan`` rows.
        """
        ...

    async def buried(self, within: timedelta, cap: int) -> dict[str, int]:
        """Count the dead letters that were buried within this time, by group: the latest ones, up to ``cap``."""
        ...

    async def chain(self, message_id: UUID, limit: int) -> Chain:
        """List up to ``limit`` messages that caused a message, and as many that it caused.

        Empty where the message is unknown. A pruned message ends the chain on that side.
        """
        ...

    async def held(self, claim: Claim) -> Held | None:
        """Return the delivery that is held under this claim, lapsed or not, with its owner; None: none is any more."""
        ...

    async def find(self, message_id: UUID) -> MessageView | None:
        """Return one message with its deliveries and runs; None: there is none."""
        ...

    async def runs(
        self, group: str | None, before: int | None, limit: int, schedule: str | None = None
    ) -> list[RunView]:
        """List the kept runs, newest first; ``before`` is the id of the last row of the page before."""
        ...

    async def failures(self, limit: int, before: tuple[datetime, int] | None = None) -> list[RunView]:
        """List the latest kept runs that failed, for good or not, the last to end first.

        ``before`` is the end and the id of the last row of the page before.
        """
        ...

    async def recent(self, schedules: Collection[str], limit: int) -> dict[str, tuple[RunView, ...]]:
        """Return the latest kept runs of each of these schedules by name, newest first; only schedules with runs."""
        ...

    async def run_times(self, schedule: str, limit: int) -> RunTimes | None:
        """Return how long the latest kept runs of a schedule took, done or failed; None if there are none."""
        ...

    async def joins(self, after: UUID | None, limit: int) -> list[JoinView]:
        """List the open joins by id, which is oldest first; ``after`` is the id of the last row of the page before."""
        ...

    async def find_join(self, id: UUID) -> JoinView | None:
        """Return one open join; None: there is none."""
        ...

    async def members(self, join_id: UUID, after: int | None, limit: int) -> list[DeliveryView]:
        """List the members of a join that have not ended, by ``seq``; ``after`` is the last one of the page before."""
        ...

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        """Count the unheld deliveries of each group, due or not, up to its limit."""
        ...

    async def roster(self) -> Roster:
        """Return the declared groups and the workers that have reported."""
        ...

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """List what operators did, newest first."""
        ...


class Controls(Protocol):
    """Actions of an operator. Every call is audited with ``by``, in the same transaction.

    Where ``by`` is a ``Line`` that ``note`` made, the call is one batch of many, and updates that line.
    """

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """Stop handing out this group's deliveries. False: there is no such group."""
        ...

    async def resume(self, group: str, by: str) -> bool:
        """Hand them out again. False: there is no such group."""
        ...

    async def release(
        self, group: str, by: str, limit: int, after: Lapse | None
    ) -> tuple[ReleasedClaims, Lapse | None] | None:
        """Release lapsed claims of this group, each unheld and due now under a new epoch, its run lost as by ``reap``.

        Examines up to ``limit``, from the one after ``after`` on, and returns the last of them if there may be more.
        No live claim is changed, and no suspect is released (invariant 15): those that are suspects, have deaths or
        lapsed in the attempt before this one as well are left to ``reap``, and so are those that were cancelled.
        Locked rows are skipped, never waited for. None: there is no such group.
        """
        ...

    async def revive(self, which: DeadSelection, by: By, limit: int) -> int:
        """Revive up to ``limit`` dead letters: due now, attempt and deaths 0, epoch grown."""
        ...

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """Revive one dead letter with another payload: ``draft`` is stored for its group, the dead letter ends.

        Messages are immutable, and other groups may still need the old payload. False: no such dead letter.
        """
        ...

    async def discard(self, which: DeadSelection, by: By, limit: int) -> int:
        """Remove up to ``limit`` dead letters for good."""
        ...

    async def run_now(self, picked: Picked, by: By) -> int:
        """Make those of these deliveries that are scheduled due now. Returns how many.

        A delivery that waits for the end of an earlier run of its schedule keeps waiting.
        """
        ...

    async def cancel(self, picked: Picked, by: By, reason: str) -> Cancelled:
        """Cancel these deliveries: remove the unheld ones, and ask the holders of the others to stop."""
        ...

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """Remove a group: first its subscriptions, then up to ``limit`` of its deliveries per call.

        Returns how many deliveries were dropped, zero when the last has gone and the group with it; None: there is
        no such group.
        """
        ...

    async def drain(self, worker: str, by: str, reason: str) -> bool:
        """Have a worker finish what it holds and claim no more, until it is resumed. False: no such worker.

        It obeys with its next beat, confirms with the one after, and stays drained until it is restarted.
        """
        ...

    async def resume_worker(self, worker: str, by: str) -> bool:
        """Let a worker claim again. False: there is no such worker."""
        ...

    async def note(self, action: str, subject: str, by: str, detail: str) -> int:
        """Add a line to the audit for an action in any number of batches. Returns its id."""
        ...

    async def amend(self, line: int, standing: str) -> None:
        """Write the outcome into a line of the audit; its count stays."""
        ...
