"""The mailbox on SQLite: publish, claim, extend, settle, cancel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.limits import Rate
from mainspring.model.message import (
    REPLACED,
    Cancelled,
    Claim,
    ClaimRequest,
    Delivery,
    Draft,
    Extended,
    Published,
    Receipt,
    Scan,
    Settled,
    UniqueKey,
)
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Keyed
from mainspring.storage.operation import operation
from mainspring.storage.portable.dialect import read_mapping
from mainspring.storage.portable.limits import (
    WHOLE_GROUP,
    Candidate,
    Found,
    LimitDialect,
    Spent,
    SqlLimits,
)
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect, SqliteOperations
from mainspring.storage.sqlite.publish import conflicts, open_join, pending, publish
from mainspring.storage.sqlite.values import (
    after,
    before,
    instant,
    instant_or_none,
    micros,
    names,
    numbers,
    uuid_or_none,
)
from mainspring.storage.sqlite.verdicts import cancel_deliveries, settle

_MICROSECOND = timedelta(microseconds=1)
_LAPSED = 32
_FORGOTTEN = 500


def taken(row: Row, at: int, claimed_at: datetime) -> Delivery:
    """A row of ``claim_scan`` as its new holder sees it: in a new epoch, at its next attempt."""
    (
        seq,
        epoch,
        raw,
        group,
        topic,
        payload,
        content_type,
        headers,
        key,
        correlation_id,
        causation_id,
        priority,
        attempt,
        deaths,
        due,
        asked,
        published,
        expires,
        cancel_asked,
        schedule,
    ) = row
    due_at = instant(due)
    # Nearly always one instant is all three.
    scheduled_for = due_at if asked == due else instant(asked)
    return Delivery(
        seq,
        epoch + 1,
        UUID(bytes=raw),
        group,
        topic,
        payload,
        content_type,
        None if headers is None else read_mapping(headers),
        key,
        correlation_id,
        uuid_or_none(causation_id),
        priority,
        attempt + 1,
        deaths,
        due_at,
        scheduled_for,
        due_at if published == due else instant(published),
        expires is not None and expires <= at,
        bool(cancel_asked),
        suspect=False,
        claimed_at=claimed_at,
        schedule=schedule,
    )


def hold_lapsed(sql: Dialect, seq: int, owner: str, hold: timedelta, at: int) -> Script[None]:
    """Take over a delivery whose claim has lapsed, and record the run that its holder does not."""
    yield sql("reap_lost", seq, at, hold // _MICROSECOND, "another has taken it over")
    yield sql("reap_hold", seq, owner, after(at, hold), at)


def publish_unique(sql: Dialect, draft: Draft, key: UniqueKey) -> Script[Receipt]:
    """See ``Mailbox.publish_unique``. The clock's statement takes the write lock."""
    at = yield from sql.turn_clock()
    ((is_known, earlier, *stands),) = yield sql("unique_look", key.hash, draft.id.bytes)
    if is_known:  # an earlier copy of this call was written, and its reply was lost
        return Receipt(draft.id, "conflict" if (yield from conflicts(sql, [draft], ())) else "stored")
    if earlier is not None and _counts(key, at, *stands):
        yield sql("unique_extend", key.hash, key.remembered // _MICROSECOND)
        return Receipt(UUID(bytes=earlier), "duplicate")
    until = after(at, key.remembered)
    # All errors are raised by now: in a caller's transaction nothing would roll back earlier writes.
    yield from publish(sql, [draft])
    yield sql("unique_enter", key.hash, draft.id.bytes, at, until)
    replaced = 0
    if earlier is not None and key.keep == "last":
        free = yield sql("unique_free", earlier)
        parked = yield sql("cancel_parked_id", earlier)
        replaced = (yield from cancel_deliveries(sql, free, parked, REPLACED, at)).cancelled
    return Receipt(draft.id, "replaced" if replaced else "stored")


def _counts(key: UniqueKey, at: int, published: int, parked: int, left: int, begun: int, copies: Any) -> bool:
    if key.keep == "last":
        return False
    if key.window is not None:
        return published > before(at, key.window)
    if key.scope == "running":
        return bool(parked or left)
    # Where fewer copies are left than there were, one has ended, so that it had begun.
    return bool(parked or (left and not begun and left >= copies))


class SqliteLimits(LimitDialect):
    """``LimitDialect`` for SQLite."""

    _sql: Dialect
    _at: int

    def turn(self) -> Script[None]:
        """The clock is only read: a claim that finds nothing writes nothing."""
        self._at = yield from self._sql.read_clock()

    def due(self, scans: Sequence[Scan], breadth: int) -> Script[Found | None]:
        sql, group = self._sql, self._group
        if (group,) in (tuple(row) for row in (yield sql("paused"))):
            return None
        due: list[Candidate] = []
        for scan in scans:
            since = 0 if scan.since is None else micros(scan.since)
            rows = yield sql("limited_due", group, scan.priority, since, self._at, breadth - len(due))
            due += [Candidate(*row) for row in rows]
        held: dict[str | None, int] = {row[0]: row[1] for row in (yield sql("limited_held", group))}
        ((first,),) = yield sql("upcoming", names([group]), self._at)
        return Found(instant(self._at), due, held, instant_or_none(first))

    def lapsed(self, *, accused: bool, aside: Collection[Claim]) -> Script[tuple[datetime, list[Candidate]]]:
        if (self._group,) in (tuple(row) for row in (yield self._sql("paused"))):
            return instant(self._at), []
        ours = numbers(claim.id for claim in aside)
        rows = yield self._sql("limited_lapsed", self._group, self._at, _LAPSED, accused, self._owner, ours)
        return instant(self._at), [Candidate(*row) for row in rows]

    def keyless(self, scans: Sequence[Scan], most: int) -> Script[list[Candidate]]:
        found: list[Candidate] = []
        for scan in scans:
            args = (self._group, scan.priority, self._at, most - len(found))
            found += [Candidate(seq, None) for (seq,) in (yield self._sql("limited_keyless", *args))]
        return found

    def heads(self, keys: Sequence[str], most: int) -> Script[list[Candidate]]:
        heads: list[Candidate] = []
        for key in keys:
            args = (self._group, key, self._limits.ordered, self._skips, self._depth, most, self._at)
            rows = yield self._sql("limited_heads", *args)
            heads += [Candidate(seq, key) for (seq,) in rows]
        return heads

    def spent(self, keys: Sequence[str]) -> Script[list[Spent]]:
        rows = yield self._sql("limited_spent", self._group, names(keys), self._at)
        return [Spent(key, instant(until), claims) for key, until, claims in rows]

    def hold(self, seqs: Sequence[int], *, lapsed: bool = False) -> Script[list[Delivery]]:
        sql, at = self._sql, self._at
        yield from sql.mark_clock(at)
        held: list[Delivery] = []
        for *row, suspect in (yield sql("limited_read", numbers(seqs))):
            delivery = taken(row, at, instant(at))
            deaths = delivery.deaths + (suspect if lapsed else 0)
            held.append(delivery._replace(deaths=deaths, suspect=bool(suspect or lapsed)))
        until = after(at, self._hold)
        if lapsed:
            for each in held:
                yield from hold_lapsed(sql, each.id, self._owner, self._hold, at)
        else:
            yield sql("claim_hold", numbers(each.id for each in held), self._owner, until, at)
        yield from self._spend(held)
        return held

    def _spend(self, held: Sequence[Delivery]) -> Script[None]:
        """Count them: from the beginning of their slot, for a window and a slot."""
        limits = self._limits
        if not limits.is_rated:
            return
        spending: list[tuple[str, Rate, int]] = [] if limits.rate is None else [(WHOLE_GROUP, limits.rate, len(held))]
        if limits.key_rate is not None:
            by_key = Counter(each.key for each in held if each.key is not None)
            spending += [(key, limits.key_rate, count) for key, count in by_key.items()]
        for key, rate, count in spending:
            slot = rate.slot // _MICROSECOND
            until = self._at // slot * slot + slot + rate.per // _MICROSECOND
            yield self._sql("limited_spend", self._group, key, until, count)
        yield self._sql("prune_spent", self._at, _FORGOTTEN)


class SqliteMailbox(SqlLimits, SqliteOperations):
    """``Mailbox`` on SQLite. Each script runs under the one write lock: what it reads, it may rely on.

    ``publish``, ``publish_unique``, ``join``, ``settle``, ``cancel`` and ``pending`` may be part of a caller's
    transaction, so their first statement takes the lock.
    """

    _limited = SqliteLimits

    @operation("write")
    def publish(self, drafts: Sequence[Draft]) -> Script[Published]:
        return publish(self._sql, drafts)

    @operation("write")
    def publish_unique(self, draft: Draft, key: UniqueKey) -> Script[Receipt]:
        return publish_unique(self._sql, draft, key)

    @operation("write")
    def join(self, join: Join, members: Sequence[Draft]) -> Script[Published]:
        return open_join(self._sql, join, members)

    @operation("claim")
    def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> Script[list[Delivery]]:
        sql = self._sql
        # The clock is only read: a claim that finds nothing writes nothing, and wakes no process.
        at = yield from sql.read_clock()
        until, claimed_at = after(at, hold), instant(at)
        paused = {name for (name,) in (yield sql("paused"))}
        claimed: list[Delivery] = []
        for want in wants:
            if want.group in paused:
                continue
            room = want.limit
            for scan in want.scans:
                if room <= 0:
                    break
                since = 0 if scan.since is None else micros(scan.since)
                rows = yield sql("claim_scan", want.group, scan.priority, since, at, room)
                if not rows:
                    continue
                if not claimed:
                    yield from sql.mark_clock(at)
                # Held at once, not at the end: the same level may be looked at again in this very call.
                yield sql("claim_hold", numbers(row[0] for row in rows), owner, until, at)
                claimed += [taken(row, at, claimed_at) for row in rows]
                room -= len(rows)
        return claimed

    @operation("claim")
    def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> Script[timedelta | None]:
        at = yield from self._sql.read_clock()
        ((first,),) = yield self._sql("upcoming", names(groups), at - back // timedelta(microseconds=1))
        return None if first is None else timedelta(microseconds=first - at)

    @operation("claim")
    def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Script[Delivery | None]:
        sql = self._sql
        at = yield from sql.read_clock()
        rows = yield sql("take_read", message_id.bytes, group)
        if not rows:
            return None
        yield from sql.mark_clock(at)
        yield sql("claim_hold", numbers([rows[0][0]]), owner, after(at, hold), at)
        return taken(rows[0], at, instant(at))

    @operation("claim")
    def reap(
        self,
        groups: Sequence[str],
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Script[Delivery | None]:
        sql = self._sql
        at = yield from sql.read_clock()
        rows = yield sql("reap_scan", names(groups), at, accused, owner, numbers(claim.id for claim in aside))
        if not rows:
            return None
        yield from sql.mark_clock(at)
        ((*columns, suspect),) = rows
        yield from hold_lapsed(sql, columns[0], owner, hold, at)
        delivery = taken(columns, at, instant(at))
        return delivery._replace(deaths=delivery.deaths + suspect, suspect=True)

    @operation("settle")
    def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Script[Extended]:
        """Nothing is ever busy here: there is one write lock, and this holds it."""
        if not claims:
            return Extended()
        sql = self._sql
        at = yield from sql.turn_clock()
        rows = yield sql("extend_read", numbers(claim.id for claim in claims), owner)
        held = {Claim(seq, epoch, UUID(bytes=raw)): asked for seq, epoch, raw, asked in rows}
        ours = [claim for claim in claims if claim in held]
        if ours:
            yield sql("extend_hold", numbers(claim.id for claim in ours), after(at, hold))
        return Extended(
            lost=frozenset(claim for claim in claims if claim not in held),
            asked=frozenset(claim for claim in ours if held[claim]),
        )

    @operation("settle")
    def settle(
        self,
        settlements: Sequence[Settlement],
        owner: str,
        *,
        waits: bool = False,  # noqa: ARG002 - a writer has the whole file, so no row is ever busy
    ) -> Script[Settled]:
        return settle(self._sql, settlements, owner)

    @operation("write")
    def cancel(self, which: UUID | Keyed, reason: str) -> Script[Cancelled]:
        sql = self._sql
        at = yield from sql.turn_clock()
        if isinstance(which, Keyed):
            found = yield sql("cancel_find_key", which.topic, which.key)
            parked = yield sql("cancel_parked_key", which.topic, which.key)
        else:
            found = yield sql("cancel_find_id", which.bytes)
            parked = yield sql("cancel_parked_id", which.bytes)
        return (yield from cancel_deliveries(sql, found, parked, reason, at))

    @operation("write")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        """``Ledger.pending`` for a transaction that is about to publish, and so takes the write lock."""
        yield from self._sql.turn_clock()
        return (yield from pending(self._sql, limits))

    @operation("write")
    def pin(self, claim: Claim, owner: str) -> Script[None]:  # noqa: ARG002 - one for every dialect
        """Begin the transaction of a handler. It locks nothing; a handle that commits by itself is rejected."""
        yield self._sql("pin")

    @operation("settle")
    def settle_all(self, settlements: Sequence[Settlement], owner: str) -> Script[bool]:
        """End the transaction of a handler: settle. False where a claim is no longer ours: all must be undone."""
        # A transaction that has only read so far has no lock: what it settles by must not change any more.
        yield self._sql("settle_lock", settlements[0].claim.id, settlements[0].claim.epoch)
        answer = yield from settle(self._sql, settlements, owner)
        return not (answer.lost or answer.gone)
