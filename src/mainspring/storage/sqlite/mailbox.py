"""The mailbox of SQLite, as scripts: several statements per operation, which cost no round trip in process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
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
from mainspring.storage.contract import Keyed
from mainspring.storage.operation import operation
from mainspring.storage.script import Script
from mainspring.storage.sql.limited import claim_limited, reap_limited
from mainspring.storage.sqlite.fan_in import open_join
from mainspring.storage.sqlite.limits import SqliteLimiting
from mainspring.storage.sqlite.operations import SqliteOperations
from mainspring.storage.sqlite.publishing import pending, publish
from mainspring.storage.sqlite.taking import taken
from mainspring.storage.sqlite.unique import publish_unique
from mainspring.storage.sqlite.values import (
    after,
    instant,
    micros,
    names,
    numbers,
)
from mainspring.storage.sqlite.verdicts import settle
from mainspring.storage.sqlite.withdrawing import withdraw


class SqliteMailbox(SqliteOperations):
    """``Mailbox`` on SQLite. Each script runs under the one write lock: what it reads, it may rely on.

    ``publish``, ``publish_unique``, ``join``, ``settle``, ``cancel`` and ``pending`` may be part of a caller's
    transaction, so their first statement takes the lock.
    """

    @operation("write")
    def publish(self, drafts: Sequence[Draft]) -> Script[Published]:
        return publish(self._sql, drafts)

    @operation("write")
    def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Script[Receipt]:
        return publish_unique(self._sql, draft, likeness)

    @operation("write")
    def join(self, join: Join, members: Sequence[Draft]) -> Script[Published]:
        return open_join(self._sql, join, members)

    @operation("claim")
    def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> Script[list[Delivery]]:
        sql = self._sql
        # The clock is only read: a claim that finds nothing writes nothing, and so wakes nobody.
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
                yield sql("claim_hold", numbers(row[0] for row in rows), owner, until)
                claimed += [taken(row, at, claimed_at) for row in rows]
                room -= len(rows)
        return claimed

    @operation("limited")
    def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> Script[LimitedClaim]:
        return claim_limited(SqliteLimiting(self._sql, want.group, limits, owner, hold), want, limits, after)

    @operation("limited")
    def reap_limited(
        self,
        group: str,
        limits: Limits,
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Script[Delivery | None]:
        if not limits.is_rated:
            return self.reap.script([group], owner, hold, accused=accused, aside=aside)
        limiting = SqliteLimiting(self._sql, group, limits, owner, hold)
        return reap_limited(limiting, limits, accused=accused, aside=aside)

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
        yield sql("claim_hold", numbers([rows[0][0]]), owner, after(at, hold))
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
        yield sql("reap_hold", columns[0], owner, after(at, hold))
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
        waits: bool = False,  # noqa: ARG002 - who writes has the whole file, so that no row is ever busy
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
        return (yield from withdraw(sql, found, parked, reason, at))

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
    def conclude(self, settlements: Sequence[Settlement], owner: str) -> Script[bool]:
        """End the transaction of a handler: settle. False where a claim is no longer ours: all must be undone."""
        # A transaction that has only read so far has no lock: what it settles by must not change any more.
        yield self._sql("conclude_lock", settlements[0].claim.id, settlements[0].claim.epoch)
        answer = yield from settle(self._sql, settlements, owner)
        return not (answer.lost or answer.gone)
