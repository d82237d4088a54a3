"""The mailbox on PostgreSQL: publish, claim, extend, settle, cancel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.model.join import Join, as_members
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
    repeated,
)
from mainspring.model.verdict import Done, Settlement
from mainspring.model.worker import shown
from mainspring.storage.contract import Keyed
from mainspring.storage.operation import Now, operation
from mainspring.storage.portable.limits import Candidate, Found, LimitDialect, Spent, SqlLimits
from mainspring.storage.portable.timetable import written_draft
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.columns import plain_id
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.script import Row, Script

Publish = Callable[[Sequence[Draft]], Script[Published]]


_BATCH = 1000
_LAPSED = 32
_MICROSECOND = timedelta(microseconds=1)
_PATIENCE = "5000"
"""Milliseconds that a handler's transaction waits for a row which another session has locked."""
_HEADERS = Delivery._fields.index("headers")


def conflicts(names: Names, drafts: Sequence[Draft], stored: Collection[UUID]) -> Script[dict[int, str]]:
    """See ``Published.conflicts``. Asks nothing where all were stored. A role that reads no payloads finds none."""
    known = repeated(drafts, stored)
    found: dict[int, str] = {}
    if not known or not (yield names("publish_readable"))[0][0]:
        return found
    for start in range(0, len(known), _BATCH):
        rows = [(place, each.id, each.topic, _digest(each)) for place, each in known[start : start + _BATCH]]
        differing = yield names("publish_known", *columns.columns(rows, 4))
        found |= {place: topic for place, topic in differing}  # noqa: C416 - a row is no pair to a type checker
    return found


def _digest(draft: Draft) -> bytes:
    return hashlib.sha256(draft.payload).digest()


def open_join(names: Names, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
    """Store the members, and with them what is to follow."""
    drafts = as_members(join, members)
    stored: set[UUID] = set()
    for start in range(0, len(drafts), _BATCH):
        batch = drafts[start : start + _BATCH]
        known = yield names.opening("publish", *columns.of_drafts(batch), names.bell, now)
        stored |= _stored(batch, known)
    if stored:
        # Members that were there already belong to another call, perhaps an earlier copy of this one.
        following = written_draft(join.then), written_draft(join.failed)
        yield names("joint_open", join.id, len(stored), *following, now)
    return Published(frozenset(stored), (yield from conflicts(names, drafts, stored)))


def _stored(drafts: Sequence[Draft], known: Sequence[Row]) -> frozenset[UUID]:
    stored = frozenset(draft.id for draft in drafts)
    return stored.difference(columns.plain_id(row[0]) for row in known) if known else stored


def publish_unique(names: Names, publish: Publish, draft: Draft, key: UniqueKey, now: Now) -> Script[Receipt]:
    """See ``Mailbox.publish_unique``."""
    scope = key.scope if key.window is None else "window"
    args = (key.hash, draft.id, scope, key.window, key.keep, key.remembered, now)
    # The row is locked until the transaction ends: decisions are serialised (invariant 17).
    ((fate, earlier),) = yield names.opening("unique_enter", *args)
    if fate == "again":
        return Receipt(draft.id, "conflict" if (yield from conflicts(names, [draft], ())) else "stored")
    if fate == "duplicate":
        return Receipt(_plain(earlier), "duplicate")
    replaced = 0
    if fate == "replace":
        replaced = yield from _replace(names, _plain(earlier), now)
    yield from publish([draft])
    return Receipt(draft.id, "replaced" if replaced else "stored")


def _replace(names: Names, earlier: UUID, now: Now) -> Script[int]:
    replaced, got_away = 0, True
    while got_away:
        ((stopped, got_away),) = yield names("unique_replace", earlier, REPLACED, names.bell, now)
        replaced += stopped
    return replaced


def _plain(id: object) -> UUID:
    # A driver may have its own kind of UUID, which is not for callers to keep.
    return UUID(int=plain_id(id).int)


class PostgresLimits(LimitDialect):
    """``LimitDialect`` for PostgreSQL."""

    _sql: Names

    def turn(self) -> Script[None]:
        """It is a statement of its own, so that the next one has a snapshot of its own."""
        yield self._sql.opening("limited_turn", self._group)

    def due(self, scans: Sequence[Scan], breadth: int) -> Script[Found | None]:
        levels, sinces = [scan.priority for scan in scans], [scan.since for scan in scans]
        rows = yield self._sql("limited_due", self._group, levels, sinces, breadth, self._at)
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        if "paused" in found:
            return None
        return Found(
            found["now"][0][4],
            [Candidate(seq, key) for _, _, seq, key, _ in sorted(found.get("due", ()), key=lambda row: int(row[1]))],
            {key: count for _, count, _, key, _ in found.get("held", ())},
            found["next"][0][4] if "next" in found else None,
        )

    def lapsed(self, *, accused: bool, aside: Collection[Claim]) -> Script[tuple[datetime, list[Candidate]]]:
        ours = [claim.id for claim in aside]
        args = (self._group, _LAPSED, self._at, accused, self._owner, ours)
        rows = yield self._sql("limited_lapsed", *args)
        return rows[0][0], [Candidate(seq, key) for _, seq, key in rows if seq is not None]

    def keyless(self, scans: Sequence[Scan], most: int) -> Script[list[Candidate]]:
        levels = [scan.priority for scan in scans]
        rows = yield self._sql("limited_keyless", self._group, levels, most, self._at)
        return [Candidate(seq, None) for (seq,) in rows]

    def heads(self, keys: Sequence[str], most: int) -> Script[list[Candidate]]:
        args = (self._group, list(keys), self._limits.ordered, self._skips, self._depth, most, self._at)
        return [Candidate(*row) for row in (yield self._sql("limited_heads", *args))]

    def spent(self, keys: Sequence[str]) -> Script[list[Spent]]:
        return [Spent(*row) for row in (yield self._sql("limited_spent", self._group, list(keys), self._at))]

    def hold(self, seqs: Sequence[int], *, lapsed: bool = False) -> Script[list[Delivery]]:
        rates = (*_micros(self._limits.rate), *_micros(self._limits.key_rate))
        args = (self._group, list(seqs), lapsed, self._owner, self._hold, *rates, self._at)
        return [columns.with_headers(row) for row in (yield self._sql("limited_hold", *args))]


def _micros(rate: Rate | None) -> tuple[int | None, int | None]:
    return (None, None) if rate is None else (rate.per // _MICROSECOND, rate.slot // _MICROSECOND)


class PostgresMailbox(SqlLimits, PostgresOperations):
    """``Mailbox`` on PostgreSQL. Scripts are free of drivers: they run on any connection that takes ``$1``.

    In a transaction of the caller's, ``settle`` ``waits`` for a row that is locked as its session does, so that none is
    busy; ``pending`` belongs to one that publishes, ``pin`` and ``settle_all`` to that of a handler.
    """

    _limited = PostgresLimits

    @operation("write")
    def publish(self, drafts: Sequence[Draft]) -> Script[Published]:
        if not drafts:
            return Published(frozenset())
        if len(drafts) == 1 and columns.is_plain(drafts[0]):
            rows = yield self._sql("publish_one", *columns.of_draft(drafts[0]), self._channel, self.now)
            stored = frozenset(each.id for each in drafts if rows)
        else:
            rows = yield self._sql("publish", *columns.of_drafts(drafts), self._channel, self.now)
            stored = _stored(drafts, rows)
        return Published(stored, (yield from conflicts(self._sql, drafts, stored)))

    @operation("write")
    def publish_unique(self, draft: Draft, key: UniqueKey) -> Script[Receipt]:
        return publish_unique(self._sql, self.publish.script, draft, key, self.now)

    @operation("write")
    def join(self, join: Join, members: Sequence[Draft]) -> Script[Published]:
        return (yield from open_join(self._sql, join, members, self.now))

    @operation("claim")
    def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> Script[list[Delivery]]:
        rows = yield self._sql("claim", *columns.of_wants(wants), owner, hold, self.now)
        return [
            # The columns are the fields in their order: nothing is cheaper than taking the row as it is.
            tuple.__new__(Delivery, row) if row[_HEADERS] is None else columns.with_headers(row)
            for row in rows
        ]

    @operation("claim")
    def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Script[Delivery | None]:
        rows = yield self._sql("take", message_id, group, owner, hold, self.now)
        return columns.with_headers(rows[0]) if rows else None

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
        ours = [claim.id for claim in aside]
        rows = yield self._sql("reap", list(groups), owner, hold, self.now, accused, ours)
        return columns.with_headers(rows[0]) if rows else None

    @operation("claim")
    def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> Script[timedelta | None]:
        rows = yield self._sql("upcoming", list(groups), back, self.now)
        until: timedelta | None = rows[0][0]
        return until

    @operation("settle")
    def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Script[Extended]:
        if not claims:
            return Extended()
        rows = yield self._sql("extend", *columns.columns(sorted(claims), 3), owner, hold, self.now)
        return Extended(_claims(rows, "lost"), _claims(rows, "busy"), _claims(rows, "asked"))

    @operation("settle")
    def settle(self, settlements: Sequence[Settlement], owner: str, *, waits: bool = False) -> Script[Settled]:
        return (yield from self._settle_waiting(settlements, owner, None, waits=waits))

    def _settle_waiting(
        self, settlements: Sequence[Settlement], owner: str, patience: str | None, *, waits: bool
    ) -> Script[Settled]:
        if waits and len(settlements) > 1:
            # All of them before any is locked, in the order of their seq.
            yield from self._wait_for(settlements, patience)
        answer = yield from self._settle_in_batches(settlements, owner)
        if not waits or not answer.busy:
            return answer
        busy = [each for each in settlements if each.claim in answer.busy]
        yield from self._wait_for(busy, patience)
        again = yield from self._settle_in_batches(busy, owner)
        return Settled(answer.lost | again.lost, answer.gone | again.gone, again.busy)

    def _settle_in_batches(self, settlements: Sequence[Settlement], owner: str) -> Script[Settled]:
        """Settle claims of which two may be on one delivery: after a failover, one of them is not ours any more."""
        if not settlements:
            return Settled()
        if len({each.claim.id for each in settlements}) == len(settlements):
            return (yield from self._settle(settlements, owner))
        lost, gone, busy = frozenset[Claim](), frozenset[Claim](), frozenset[Claim]()
        for batch in columns.in_batches(settlements):
            answer = yield from self._settle(batch, owner)
            lost, gone, busy = lost | answer.lost, gone | answer.gone, busy | answer.busy
        return Settled(lost, gone, busy)

    def _settle(self, settlements: Sequence[Settlement], owner: str) -> Script[Settled]:
        """Settle claims on different deliveries: the statements know a claim by its seq."""
        if all(type(each.verdict) is Done and each.keep == "failures" and not each.member for each in settlements):
            # Plain successes that leave nothing behind: nearly all of what is ever settled.
            claims = sorted(each.claim for each in settlements)
            rows = yield self._sql("settle_done", *columns.columns(claims, 3), owner, self.now)
        else:
            args = (*columns.of_settlements(settlements), owner, shown(owner), self.now)
            rows = yield self._sql("settle", *args)
        return Settled(_claims(rows, "lost"), _claims(rows, "gone"), _claims(rows, "busy"))

    def _wait_for(self, settlements: Sequence[Settlement], patience: str | None) -> Script[None]:
        yield self._sql("settle_wait", [each.claim.id for each in settlements], patience)

    @operation("write")
    def cancel(self, which: UUID | Keyed, reason: str) -> Script[Cancelled]:
        named: tuple[Any, ...] = (None, which.topic, which.key) if isinstance(which, Keyed) else (which, None, None)
        cancelled, asked, got_away = 0, 0, True
        while got_away:
            args = (*named, columns.clean(reason), self._channel, self.now)
            [(stopped, asked, got_away)] = yield self._sql("cancel", *args)
            cancelled += stopped
        return Cancelled(cancelled, asked)

    @operation("write")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        """``Ledger.pending`` for a transaction that is about to publish."""
        rows = yield self._sql("pending", list(limits), list(limits.values()))
        return {group: count for group, count in rows}  # noqa: C416 - a row is no pair to a type checker

    @operation("write")
    def pin(self, claim: Claim, owner: str) -> Script[None]:
        """Begin the transaction of a handler: at any isolation, no heartbeat then keeps it from settling at its end.

        A row that another session has locked is waited for a few seconds, here and by ``settle_all``. Then the driver's
        error is raised.
        """
        yield self._sql("pin", *claim, owner, _PATIENCE)

    @operation("settle")
    def settle_all(self, settlements: Sequence[Settlement], owner: str) -> Script[bool]:
        """End the transaction of a handler: settle in the order of claims.

        False where a claim is no longer ours, so that all of the transaction has to be undone.
        """
        answer = yield from self._settle_waiting(settlements, owner, _PATIENCE, waits=True)
        return not (answer.lost or answer.gone or answer.busy)


def _claims(rows: Sequence[Row], what: str) -> frozenset[Claim]:
    return frozenset(Claim(*row[:3]) for row in rows if row[3] == what)
