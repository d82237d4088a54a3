"""The mailbox in memory: publish, claim, reap, extend, settle, cancel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from mainspring.model.join import Join, as_members
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
from mainspring.storage.contract import Keyed
from mainspring.storage.memory.limits import Limiting
from mainspring.storage.memory.publishing import publish, stop
from mainspring.storage.memory.rows import DeliveryRow, JointRow, Line, Place, due
from mainspring.storage.memory.state import State
from mainspring.storage.memory.unique import store_unique
from mainspring.storage.memory.verdicts import write


class MemoryMailbox:
    """``Mailbox`` over shared rows: every operation is one step under the one lock."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def publish(self, drafts: Sequence[Draft]) -> Published:
        """See ``Mailbox.publish``."""
        with self._state.lock:
            return publish(self._state, drafts, self._state.now())

    async def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Receipt:
        """See ``Mailbox.publish_unique``."""
        with self._state.lock:
            return store_unique(self._state, draft, likeness, self._state.now())

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """See ``Mailbox.join``."""
        with self._state.lock:
            now = self._state.now()
            published = publish(self._state, as_members(join, members), now)
            if published.stored:
                # Members that were there already belong to another call, perhaps an earlier copy of this one.
                self._state.joints[join.id] = JointRow(join, now, pending=len(published.stored))
            return published

    async def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> list[Delivery]:
        """See ``Mailbox.claim``."""
        with self._state.lock:
            now = self._state.now()
            return [delivery for want in wants for delivery in self._claim(want, owner, now, now + hold)]

    def _claim(self, want: ClaimRequest, owner: str, now: datetime, until: datetime) -> list[Delivery]:
        state = self._state
        line = state.lines.get(want.group)
        if line is None or _paused(state, want.group):
            return []
        claimed: list[Delivery] = []
        for scan in want.scans:
            for seq in line.take(scan.priority, scan.since, now, want.limit - len(claimed)):
                row = state.deliveries[seq]
                was_due, row.due_at, row.held_by = row.due_at, until, owner
                line.add(row)
                claimed.append(_hand_over(row, was_due, now))
        return claimed

    async def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> LimitedClaim:
        """See ``Mailbox.claim_limited``."""
        state = self._state
        with state.lock:
            line = state.lines.get(want.group)
            if line is None or _paused(state, want.group):
                return LimitedClaim([], None, None, left=False)
            now = state.now()
            limiting = Limiting(state.limits, state.deliveries, want.group, limits, now)
            chosen, ration = limiting.choose(line, want, after)
            return ration._replace(deliveries=[self._hold(state.deliveries[seq], owner, hold, now) for seq in chosen])

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
        """See ``Mailbox.reap_limited``."""
        if not limits.is_rated:
            return await self.reap([group], owner, hold, accused=accused, aside=aside)
        state = self._state
        with state.lock:
            line, now = state.lines.get(group), state.now()
            if line is None or _paused(state, group):
                return None
            may_be_reaped = partial(DeliveryRow.may_be_reaped, owner=owner, accused=accused, aside=aside)
            chosen = Limiting(state.limits, state.deliveries, group, limits, now).choose_lapsed(line, may_be_reaped)
            return None if chosen is None else self._suspect(state.deliveries[chosen], owner, hold, now)

    async def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> timedelta | None:
        """See ``Mailbox.upcoming``."""
        state = self._state
        with state.lock:
            now = state.now()
            lines = [state.lines[group] for group in groups if group in state.lines and not _paused(state, group)]
            waits = [first - now for line in lines if (first := line.next_due(now - back)) is not None]
        return min(waits, default=None)

    async def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Delivery | None:
        """See ``Mailbox.take``."""
        state = self._state
        with state.lock:
            now = state.now()
            row = state.live.get(message_id, {}).get(group)
            return None if row is None or row.held_by is not None else self._hold(row, owner, hold, now)

    def _hold(self, row: DeliveryRow, owner: str, hold: timedelta, now: datetime) -> Delivery:
        was_due = row.due_at
        self._state.move(row, now + hold, owner)
        return _hand_over(row, was_due, now)

    def _suspect(self, row: DeliveryRow, owner: str, hold: timedelta, now: datetime) -> Delivery:
        # Only a suspect dies. Who is reaped for the first time may be an innocent.
        row.deaths += row.suspect
        row.suspect = True
        return self._hold(row, owner, hold, now)

    async def reap(
        self,
        groups: Sequence[str],
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Delivery | None:
        """See ``Mailbox.reap``."""
        state = self._state
        with state.lock:
            now = state.now()
            lines = [state.lines[group] for group in groups if group in state.lines and not _paused(state, group)]
            may_be_reaped = partial(DeliveryRow.may_be_reaped, owner=owner, accused=accused, aside=aside)
            lapsed = [first for line in lines if (first := self._first_lapsed(line, now, may_be_reaped))]
            return self._suspect(state.deliveries[min(lapsed)[1]], owner, hold, now) if lapsed else None

    def _first_lapsed(self, line: Line, now: datetime, may_be_reaped: Callable[[DeliveryRow], bool]) -> Place | None:
        rows, lapsed = self._state.deliveries, line.held[: due(line.held, now)]
        return next((place for place in lapsed if may_be_reaped(rows[place[1]])), None)

    async def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Extended:
        """See ``Mailbox.extend``. Nothing is ever busy here: one lock is over everything."""
        state = self._state
        lost: set[Claim] = set()
        asked: set[Claim] = set()
        with state.lock:
            until = state.now() + hold
            for claim in claims:
                row = state.deliveries.get(claim.id)
                if row is None or not row.is_of(claim) or row.held_by != owner:
                    lost.add(claim)
                    continue
                state.move(row, until, owner)
                if row.cancel_asked:
                    asked.add(claim)
        return Extended(lost=frozenset(lost), asked=frozenset(asked))

    async def settle(self, settlements: Sequence[Settlement], owner: str) -> Settled:
        """See ``Mailbox.settle``."""
        state = self._state
        lost: set[Claim] = set()
        gone: set[Claim] = set()
        ended: list[UUID] = []
        with state.lock:
            now = state.now()
            for settlement in settlements:
                claim = settlement.claim
                row = state.deliveries.get(claim.id)
                if row is None:
                    gone.add(claim)
                elif not row.is_of(claim) or row.held_by not in (owner, None):
                    lost.add(claim)
                elif row.held_by is None:
                    gone.add(claim)
                elif write(state, row, settlement, now):
                    ended.append(row.message_id)
            state.enlist(ended, now)
        return Settled(lost=frozenset(lost), gone=frozenset(gone))

    async def cancel(self, which: UUID | Keyed, reason: str) -> Cancelled:
        """See ``Mailbox.cancel``."""
        state = self._state
        with state.lock:
            named = sorted(state.keyed.get((which.topic, which.key), ())) if isinstance(which, Keyed) else [which]
            return stop(state, named, reason, state.now())


def _hand_over(row: DeliveryRow, was_due: datetime, now: datetime) -> Delivery:
    """Open a new epoch for the holder and give it all it needs."""
    # epoch never goes back: it is the fence (invariant 2). Whatever the last holder writes is refused from here on.
    row.epoch += 1
    row.attempt += 1
    message, draft = row.message, row.message.draft
    return Delivery(
        id=row.seq,
        epoch=row.epoch,
        message_id=draft.id,
        group=row.group,
        topic=draft.topic,
        payload=draft.payload,
        content_type=draft.content_type,
        headers=draft.headers,
        key=draft.key,
        correlation_id=draft.correlation_id,
        causation_id=draft.causation_id,
        priority=row.priority,
        attempt=row.attempt,
        deaths=row.deaths,
        due_at=was_due,
        scheduled_for=row.scheduled_for,
        published_at=message.published_at,
        expired=message.expires_at is not None and message.expires_at <= now,
        cancel_asked=row.cancel_asked,
        suspect=row.suspect,
        claimed_at=now,
        schedule=draft.schedule,
    )


def _paused(state: State, group: str) -> bool:
    declared = state.groups.get(group)
    return declared is not None and declared.paused_at is not None
