"""The mailbox of SQLite, as scripts: several statements per operation, which cost no round trip in process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.message import Cancelled, Claim, Delivery, Draft, Extended, Published, Receipt, Settled, Want
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Keyed
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.fan_in import open_join
from mainspring.storage.sqlite.publishing import publish
from mainspring.storage.sqlite.unique import publish_unique
from mainspring.storage.sqlite.values import (
    after,
    instant,
    micros,
    names,
    numbers,
    read_mapping,
    uuid_or_none,
)
from mainspring.storage.sqlite.verdicts import settle
from mainspring.storage.sqlite.withdrawing import withdraw


class SqliteMailbox:
    """``MailboxScripts`` for SQLite. Each script runs under the one write lock: what it reads, it may rely on.

    ``publish``, ``publish_unique``, ``join``, ``settle`` and ``cancel`` may be part of a caller's transaction, so their
    first statement takes the lock.
    """

    def __init__(self, sql: Dialect) -> None:
        self._sql = sql

    def publish(self, drafts: Sequence[Draft], now: datetime | None) -> Script[Published]:
        """See ``Mailbox.publish``."""
        return publish(self._sql, drafts, now)

    def publish_unique(self, draft: Draft, likeness: Likeness, now: datetime | None) -> Script[Receipt]:
        """See ``Mailbox.publish_unique``."""
        return publish_unique(self._sql, draft, likeness, now)

    def join(self, join: Join, members: Sequence[Draft], now: datetime | None) -> Script[Published]:
        """See ``Mailbox.join``."""
        return open_join(self._sql, join, members, now)

    def claim(self, wants: Sequence[Want], owner: str, hold: timedelta, now: datetime | None) -> Script[list[Delivery]]:
        """See ``Mailbox.claim``."""
        sql = self._sql
        # The clock is only read: a claim that finds nothing writes nothing, and so wakes nobody.
        at = yield from sql.read_clock(now)
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
                    yield from sql.mark_clock(at, now)
                # Held at once, not at the end: the same level may be looked at again in this very call.
                yield sql("claim_hold", numbers(row[0] for row in rows), owner, until)
                claimed += [_delivery(row, at, claimed_at) for row in rows]
                room -= len(rows)
        return claimed

    def upcoming(
        self, groups: Sequence[str], now: datetime | None, back: timedelta = timedelta()
    ) -> Script[timedelta | None]:
        """See ``Mailbox.upcoming``."""
        at = yield from self._sql.read_clock(now)
        ((first,),) = yield self._sql("upcoming", names(groups), at - back // timedelta(microseconds=1))
        return None if first is None else timedelta(microseconds=first - at)

    def take(
        self, message_id: UUID, group: str, owner: str, hold: timedelta, now: datetime | None
    ) -> Script[Delivery | None]:
        """See ``Mailbox.take``."""
        sql = self._sql
        at = yield from sql.read_clock(now)
        rows = yield sql("take_read", message_id.bytes, group)
        if not rows:
            return None
        yield from sql.mark_clock(at, now)
        yield sql("claim_hold", numbers([rows[0][0]]), owner, after(at, hold))
        return _delivery(rows[0], at, instant(at))

    def reap(self, groups: Sequence[str], owner: str, hold: timedelta, now: datetime | None) -> Script[Delivery | None]:
        """See ``Mailbox.reap``."""
        sql = self._sql
        at = yield from sql.read_clock(now)
        rows = yield sql("reap_scan", names(groups), at)
        if not rows:
            return None
        yield from sql.mark_clock(at, now)
        ((*columns, suspect),) = rows
        yield sql("reap_hold", columns[0], owner, after(at, hold))
        taken = _delivery(columns, at, instant(at))
        return taken._replace(deaths=taken.deaths + suspect, suspect=True)

    def extend(self, claims: Sequence[Claim], hold: timedelta, now: datetime | None) -> Script[Extended]:
        """See ``Mailbox.extend``. Nothing is ever busy here: there is one write lock, and this holds it."""
        if not claims:
            return Extended()
        sql = self._sql
        at = yield from sql.turn_clock(now)
        rows = yield sql("extend_read", numbers(claim.id for claim in claims))
        held = {Claim(seq, epoch): asked for seq, epoch, asked in rows}
        ours = [claim for claim in claims if claim in held]
        if ours:
            yield sql("extend_hold", numbers(claim.id for claim in ours), after(at, hold))
        return Extended(
            lost=frozenset(claim for claim in claims if claim not in held),
            asked=frozenset(claim for claim in ours if held[claim]),
        )

    def settle(self, settlements: Sequence[Settlement], now: datetime | None) -> Script[Settled]:
        """See ``Mailbox.settle``."""
        return settle(self._sql, settlements, now)

    def cancel(self, which: UUID | Keyed, reason: str, now: datetime | None) -> Script[Cancelled]:
        """See ``Mailbox.cancel``."""
        sql = self._sql
        at = yield from sql.turn_clock(now)
        if isinstance(which, Keyed):
            found = yield sql("cancel_find_key", which.topic, which.key)
            parked = yield sql("cancel_parked_key", which.topic, which.key)
        else:
            found = yield sql("cancel_find_id", which.bytes)
            parked = yield sql("cancel_parked_id", which.bytes)
        return (yield from withdraw(sql, found, parked, reason, at))

    def pin(self, claim: Claim) -> Script[None]:  # noqa: ARG002 - one for every dialect
        """See ``MailboxScripts.pin``. It locks nothing, but a handle that commits by itself is refused by it."""
        yield self._sql("pin")

    def conclude(self, settlement: Settlement, now: datetime | None) -> Script[bool]:
        """See ``MailboxScripts.conclude``."""
        # A transaction that has only read so far has no lock: what it settles by must not change any more.
        yield self._sql("conclude_lock", *settlement.claim)
        answer = yield from settle(self._sql, [settlement], now)
        return not (answer.lost or answer.gone)


def _delivery(row: Row, at: int, claimed_at: datetime) -> Delivery:
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
    )
