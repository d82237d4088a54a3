"""The mailbox in SQL: every operation is one statement for any batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.limits import Limits, Ration
from mainspring.model.message import Cancelled, Claim, Delivery, Draft, Extended, Published, Receipt, Settled, Want
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Done, Settlement
from mainspring.storage.contract import Keyed
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.fan_in import open_join
from mainspring.storage.postgres.limits import PostgresLimiting
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.unique import publish_unique
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql import Now
from mainspring.storage.sql.limited import claim_limited, reap_limited

_HEADERS = Delivery._fields.index("headers")


class PostgresMailbox:
    """``MailboxScripts`` for PostgreSQL. Scripts are free of drivers: they run on any connection that takes ``$1``."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._channel = names.channel
        self._sql = names.sql

    def publish(self, drafts: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Mailbox.publish``."""
        if not drafts:
            return Published(frozenset())
        if len(drafts) == 1 and columns.is_plain(drafts[0]):
            rows = yield Statement(self._sql("publish_one"), (*columns.of_draft(drafts[0]), self._channel, now))
        else:
            rows = yield Statement(self._sql("publish"), (*columns.of_drafts(drafts), self._channel, now))
        return Published(frozenset(row[0] for row in rows))

    def publish_unique(self, draft: Draft, likeness: Likeness, now: Now) -> Script[Receipt]:
        """See ``Mailbox.publish_unique``."""
        return publish_unique(self._names, self.publish, draft, likeness, now)

    def join(self, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Mailbox.join``."""
        return open_join(self._names, join, members, now)

    def claim(self, wants: Sequence[Want], owner: str, hold: timedelta, now: Now) -> Script[list[Delivery]]:
        """See ``Mailbox.claim``."""
        rows = yield Statement(self._sql("claim"), (*columns.of_wants(wants), owner, hold, now))
        return [
            # The columns are the fields in their order: nothing is cheaper than taking the row as it is.
            tuple.__new__(Delivery, row) if row[_HEADERS] is None else columns.with_headers(row)
            for row in rows
        ]

    def claim_limited(
        self, want: Want, limits: Limits, after: str | None, owner: str, hold: timedelta, now: Now
    ) -> Script[Ration]:
        """See ``Mailbox.claim_limited``."""
        limiting = PostgresLimiting(self._names, want.group, limits, owner, hold, now)
        return claim_limited(limiting, want, limits, after)

    def reap_limited(
        self, group: str, limits: Limits, owner: str, hold: timedelta, now: Now
    ) -> Script[Delivery | None]:
        """See ``Mailbox.reap_limited``."""
        if not limits.is_rated:
            return self.reap([group], owner, hold, now)
        return reap_limited(PostgresLimiting(self._names, group, limits, owner, hold, now), limits)

    def take(self, message_id: UUID, group: str, owner: str, hold: timedelta, now: Now) -> Script[Delivery | None]:
        """See ``Mailbox.take``."""
        rows = yield Statement(self._sql("take"), (message_id, group, owner, hold, now))
        return columns.with_headers(rows[0]) if rows else None

    def reap(self, groups: Sequence[str], owner: str, hold: timedelta, now: Now) -> Script[Delivery | None]:
        """See ``Mailbox.reap``."""
        rows = yield Statement(self._sql("reap"), (list(groups), owner, hold, now))
        return columns.with_headers(rows[0]) if rows else None

    def upcoming(self, groups: Sequence[str], now: Now, back: timedelta = timedelta()) -> Script[timedelta | None]:
        """See ``Mailbox.upcoming``."""
        rows = yield Statement(self._sql("upcoming"), (list(groups), back, now))
        until: timedelta | None = rows[0][0]
        return until

    def extend(self, claims: Sequence[Claim], hold: timedelta, now: Now) -> Script[Extended]:
        """See ``Mailbox.extend``."""
        if not claims:
            return Extended()
        rows = yield Statement(self._sql("extend"), (*columns.columns(sorted(claims), 2), hold, now))
        return Extended(_claims(rows, "lost"), _claims(rows, "busy"), _claims(rows, "asked"))

    def settle(self, settlements: Sequence[Settlement], now: Now) -> Script[Settled]:
        """See ``Mailbox.settle``."""
        if not settlements:
            return Settled()
        if all(type(each.verdict) is Done and each.keep == "failures" and not each.member for each in settlements):
            return (yield from self._succeed(settlements, now))
        *told, causes = columns.of_settlements(settlements)
        rows = yield Statement(self._sql("settle"), (*told, now, causes))
        return Settled(_claims(rows, "lost"), _claims(rows, "gone"))

    def _succeed(self, settlements: Sequence[Settlement], now: Now) -> Script[Settled]:
        """Settle plain successes that leave nothing behind: nearly all of what is ever settled."""
        refused: list[Row] = []
        # Sorted, because rows are locked in this order by whoever writes several.
        claims: Sequence[Claim] = sorted(each.claim for each in settlements)
        while claims:
            rows = yield Statement(self._sql("settle_done"), (*columns.columns(claims, 2), now))
            refused += rows
            # Somebody changed the row between our first look and our lock. Now that has been committed.
            claims = sorted(_claims(rows, "again"))
        return Settled(_claims(refused, "lost"), _claims(refused, "gone"))

    def cancel(self, which: UUID | Keyed, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Mailbox.cancel``."""
        named: tuple[Any, ...] = (None, which.topic, which.key) if isinstance(which, Keyed) else (which, None, None)
        cancelled, asked, got_away = 0, 0, True
        while got_away:
            args = (*named, columns.clean(reason), self._channel, now)
            [(stopped, asked, got_away)] = yield Statement(self._sql("cancel"), args)
            cancelled += stopped
        return Cancelled(cancelled, asked)

    def pending(self, limits: Mapping[str, int], now: Now) -> Script[dict[str, int]]:  # noqa: ARG002 - no clock decides
        """See ``Ledger.pending``."""
        rows = yield Statement(self._sql("pending"), (list(limits), list(limits.values())))
        return {group: count for group, count in rows}  # noqa: C416 - a row is no pair to a type checker

    def pin(self, claim: Claim) -> Script[None]:
        """See ``MailboxScripts.pin``."""
        yield Statement(self._sql("pin"), (claim.id, claim.epoch))

    def conclude(self, settlement: Settlement, now: Now) -> Script[bool]:
        """See ``MailboxScripts.conclude``."""
        answer = yield from self.settle([settlement], now)
        return not (answer.lost or answer.gone)


def _claims(rows: Sequence[Row], what: str) -> frozenset[Claim]:
    return frozenset(Claim(row[0], row[1]) for row in rows if row[2] == what)
