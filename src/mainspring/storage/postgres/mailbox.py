"""The mailbox in SQL: every operation is one statement for any batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from mainspring.model.holder import shown
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
from mainspring.model.verdict import Done, Settlement
from mainspring.storage.contract import Keyed
from mainspring.storage.operation import operation
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.conflicts import conflicts
from mainspring.storage.postgres.fan_in import open_join
from mainspring.storage.postgres.limits import PostgresLimiting
from mainspring.storage.postgres.operations import PostgresOperations
from mainspring.storage.postgres.unique import publish_unique
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql.limited import claim_limited, reap_limited

_PATIENCE = "5000"
"""Milliseconds that a handler's transaction waits for a row which another session has locked."""
_HEADERS = Delivery._fields.index("headers")


class PostgresMailbox(PostgresOperations):
    """``Mailbox`` on PostgreSQL. Scripts are free of drivers: they run on any connection that takes ``$1``.

    In a transaction of the caller's, ``settle`` ``waits`` for a row that is locked as its session does, so that none is
    busy; ``pending`` belongs to one that publishes, ``pin`` and ``conclude`` to that of a handler.
    """

    @operation("write")
    def publish(self, drafts: Sequence[Draft]) -> Script[Published]:
        if not drafts:
            return Published(frozenset())
        if len(drafts) == 1 and columns.is_plain(drafts[0]):
            rows = yield Statement(self._sql("publish_one"), (*columns.of_draft(drafts[0]), self._channel, self.now))
        else:
            rows = yield Statement(self._sql("publish"), (*columns.of_drafts(drafts), self._channel, self.now))
        stored = frozenset(columns.plain_id(row[0]) for row in rows)
        return Published(stored, (yield from conflicts(self._names, drafts, stored)))

    @operation("write")
    def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Script[Receipt]:
        return publish_unique(self._names, self.publish.script, draft, likeness, self.now)

    @operation("write")
    def join(self, join: Join, members: Sequence[Draft]) -> Script[Published]:
        return open_join(self._names, join, members, self.now)

    @operation("claim")
    def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> Script[list[Delivery]]:
        rows = yield Statement(self._sql("claim"), (*columns.of_wants(wants), owner, hold, self.now))
        return [
            # The columns are the fields in their order: nothing is cheaper than taking the row as it is.
            tuple.__new__(Delivery, row) if row[_HEADERS] is None else columns.with_headers(row)
            for row in rows
        ]

    @operation("limited")
    def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> Script[LimitedClaim]:
        limiting = PostgresLimiting(self._names, want.group, limits, owner, hold, self.now)
        return claim_limited(limiting, want, limits, after)

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
        limiting = PostgresLimiting(self._names, group, limits, owner, hold, self.now)
        return reap_limited(limiting, limits, accused=accused, aside=aside)

    @operation("claim")
    def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Script[Delivery | None]:
        rows = yield Statement(self._sql("take"), (message_id, group, owner, hold, self.now))
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
        rows = yield Statement(self._sql("reap"), (list(groups), owner, hold, self.now, accused, ours))
        return columns.with_headers(rows[0]) if rows else None

    @operation("claim")
    def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> Script[timedelta | None]:
        rows = yield Statement(self._sql("upcoming"), (list(groups), back, self.now))
        until: timedelta | None = rows[0][0]
        return until

    @operation("settle")
    def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Script[Extended]:
        if not claims:
            return Extended()
        rows = yield Statement(self._sql("extend"), (*columns.columns(sorted(claims), 3), owner, hold, self.now))
        return Extended(_claims(rows, "lost"), _claims(rows, "busy"), _claims(rows, "asked"))

    @operation("settle")
    def settle(self, settlements: Sequence[Settlement], owner: str, *, waits: bool = False) -> Script[Settled]:
        return self._settle_waiting(settlements, owner, None, waits=waits)

    def _settle_waiting(
        self, settlements: Sequence[Settlement], owner: str, patience: str | None, *, waits: bool
    ) -> Script[Settled]:
        if waits and len(settlements) > 1:
            # All of them before any is locked, in the order of their seq.
            yield from self._wait_for(settlements, patience)
        answer = yield from self._settle_apart(settlements, owner)
        if not waits or not answer.busy:
            return answer
        busy = [each for each in settlements if each.claim in answer.busy]
        yield from self._wait_for(busy, patience)
        again = yield from self._settle_apart(busy, owner)
        return Settled(answer.lost | again.lost, answer.gone | again.gone, again.busy)

    def _settle_apart(self, settlements: Sequence[Settlement], owner: str) -> Script[Settled]:
        """Settle claims of which two may be on one delivery: after a failover, one of them is not ours any more."""
        if not settlements:
            return Settled()
        if len({each.claim.id for each in settlements}) == len(settlements):
            return (yield from self._settle(settlements, owner))
        lost, gone, busy = frozenset[Claim](), frozenset[Claim](), frozenset[Claim]()
        for batch in columns.apart(settlements):
            answer = yield from self._settle(batch, owner)
            lost, gone, busy = lost | answer.lost, gone | answer.gone, busy | answer.busy
        return Settled(lost, gone, busy)

    def _settle(self, settlements: Sequence[Settlement], owner: str) -> Script[Settled]:
        """Settle claims on different deliveries: the statements know a claim by its seq."""
        if all(type(each.verdict) is Done and each.keep == "failures" and not each.member for each in settlements):
            # Plain successes that leave nothing behind: nearly all of what is ever settled.
            claims = sorted(each.claim for each in settlements)
            rows = yield Statement(self._sql("settle_done"), (*columns.columns(claims, 3), owner, self.now))
        else:
            args = (*columns.of_settlements(settlements), owner, shown(owner), self.now)
            rows = yield Statement(self._sql("settle"), args)
        return Settled(_claims(rows, "lost"), _claims(rows, "gone"), _claims(rows, "busy"))

    def _wait_for(self, settlements: Sequence[Settlement], patience: str | None) -> Script[None]:
        yield Statement(self._sql("settle_wait"), ([each.claim.id for each in settlements], patience))

    @operation("write")
    def cancel(self, which: UUID | Keyed, reason: str) -> Script[Cancelled]:
        named: tuple[Any, ...] = (None, which.topic, which.key) if isinstance(which, Keyed) else (which, None, None)
        cancelled, asked, got_away = 0, 0, True
        while got_away:
            args = (*named, columns.clean(reason), self._channel, self.now)
            [(stopped, asked, got_away)] = yield Statement(self._sql("cancel"), args)
            cancelled += stopped
        return Cancelled(cancelled, asked)

    @operation("write")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        """``Ledger.pending`` for a transaction that is about to publish."""
        rows = yield Statement(self._sql("pending"), (list(limits), list(limits.values())))
        return {group: count for group, count in rows}  # noqa: C416 - a row is no pair to a type checker

    @operation("write")
    def pin(self, claim: Claim, owner: str) -> Script[None]:
        """Begin the transaction of a handler: at any isolation, no heartbeat then keeps it from settling at its end.

        A row that another session has locked is waited for a few seconds, here and by ``conclude``. Then the driver's
        error is raised.
        """
        yield Statement(self._sql("pin"), (*claim, owner, _PATIENCE))

    @operation("settle")
    def conclude(self, settlements: Sequence[Settlement], owner: str) -> Script[bool]:
        """End the transaction of a handler: settle in the order of claims.

        False where a claim is no longer ours, so that all of the transaction has to be undone.
        """
        answer = yield from self._settle_waiting(settlements, owner, _PATIENCE, waits=True)
        return not (answer.lost or answer.gone or answer.busy)


def _claims(rows: Sequence[Row], what: str) -> frozenset[Claim]:
    return frozenset(Claim(*row[:3]) for row in rows if row[3] == what)
