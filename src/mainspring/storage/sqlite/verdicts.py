"""Verdicts and cancels on SQLite: how deliveries end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_never

from mainspring.model.message import Cancelled, Claim, Settled
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Release, Retry, Settlement, Snooze
from mainspring.model.worker import shown
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.publish import Ends, count_dropped
from mainspring.storage.sqlite.values import after, before, numbers, storable

_ASKED = "cancelled while running"
_SEQ, _EPOCH, _HELD, _MESSAGE, _ATTEMPT, _CANCEL_ASKED, _JOIN, _GROUP, _KIND = range(9)


def cancel_deliveries(
    sql: Dialect, found: Sequence[Row], parked: Sequence[Row], reason: str, at: int
) -> Script[Cancelled]:
    """Remove the deliveries that were found, or ask their holders to stop; and remove parked messages."""
    held = [seq for seq, _, is_held, _ in found if is_held]
    free = [(seq, raw) for seq, raw, is_held, _ in found if not is_held]
    why = storable(reason)
    if held:
        yield sql("cancel_ask", numbers(held))
    if free:
        seqs = numbers(seq for seq, _ in free)
        yield sql("delivery_cancelled", seqs, at, why)
        yield sql("delivery_delete", seqs)
        yield from count_dropped(sql, (join_id for _, _, is_held, join_id in found if not is_held))
    if parked:
        seqs = numbers(seq for seq, _ in parked)
        yield sql("parked_cancelled", seqs, at, why)
        yield sql("parked_delete", seqs)
    if free or parked:
        yield sql("ended_add", at, 0, b"".join(raw for _, raw in (*free, *parked)))
    return Cancelled(cancelled=len(free) + len(parked), asked=len(held))


def settle(sql: Dialect, settlements: Sequence[Settlement], owner: str) -> Script[Settled]:
    """Write each verdict whose claim still stands. Plain successes cost one read and one delete together."""
    if not settlements:
        return Settled()
    at = yield from sql.turn_clock()
    rows = yield sql("settle_read", numbers(settlement.claim.id for settlement in settlements))
    there = {row[_SEQ]: row for row in rows}
    batch = _Batch(sql, at, owner)
    lost: set[Claim] = set()
    gone: set[Claim] = set()
    for settlement in settlements:
        claim, verdict, keep, *_ = settlement
        row = there.get(claim.id)
        if row is None:
            gone.add(claim)
        elif row[_EPOCH] != claim.epoch or row[_MESSAGE] != claim.message_id.bytes or row[_HELD] not in (owner, None):
            # The fence. The write lock is ours since the clock was read: no epoch moves before we commit.
            lost.add(claim)
        elif row[_HELD] is None:
            gone.add(claim)
        elif keep == "failures" and type(verdict) is Done:
            batch.remove(row, done=True)
        else:
            yield from batch.write(row, settlement)
    yield from batch.finish()
    return Settled(lost=frozenset(lost), gone=frozenset(gone))


class _Batch:
    """Writes the runs and moves one by one, and what is removed all together at the end."""

    def __init__(self, sql: Dialect, at: int, owner: str) -> None:
        self._sql = sql
        self._at = at
        self._owner = owner
        self._removed: list[int] = []
        self._ended: list[bytes] = []
        self._handled: dict[tuple[str, str], list[bytes]] = {}
        self._members = Ends()
        self._due = False
        self._buried: dict[int, tuple[Failure, bool]] = {}

    def write(self, row: Row, settlement: Settlement) -> Script[None]:
        """Write one verdict on a delivery that is held under its claim."""
        verdict, keep, took = settlement.verdict, settlement.keep, settlement.took
        match verdict:
            case Done(output):
                if keep == "all":
                    yield from self._record(row, "done", took, output=output)
                elif keep == "none" and row[_ATTEMPT] > 1:
                    yield self._sql("settle_forget", row[_MESSAGE], row[_SEQ])
                self.remove(row, done=True)
            case Retry(delay, failure):
                # Whatever is to be kept: should it end as a dead letter, it has every error.
                yield from self._record(row, "failed", took, failure)
                yield from self._hand_back(row, delay, took, forgive=0)
            case Snooze(delay, reason):
                assert isinstance(delay, timedelta), "the executor reads text before it settles"
                if keep == "all" and not row[_CANCEL_ASKED]:
                    yield from self._record(row, "snoozed", took, output=reason)
                yield from self._hand_back(row, delay, took, forgive=1)
            case Release(delay):
                yield from self._hand_back(row, delay, took, forgive=1)
            case Bury(failure):
                yield from self._record(row, "dead", took, failure)
                self._buried[row[_SEQ]] = failure, settlement.replaces
                self.remove(row)
            case Cancel(reason):
                yield from self._cancel(row, took, reason)
            case _:
                assert_never(verdict)

    def remove(self, row: Row, *, done: bool = False, ends: bool = False) -> None:
        """Have the delivery deleted; the janitor examines its message later, if it is ``done`` or ``ends`` anyhow."""
        self._removed.append(row[_SEQ])
        if row[_JOIN] is not None:
            self._members.note(row[_JOIN], done=done)
        if done:
            self._handled.setdefault((row[_GROUP], row[_KIND]), []).append(row[_MESSAGE])
        elif ends:
            self._ended.append(row[_MESSAGE])

    def finish(self) -> Script[None]:
        """Write what was gathered."""
        yield from self._bury()
        if self._removed:
            yield self._sql("delivery_delete", numbers(self._removed))
        if self._ended:
            yield self._sql("ended_add", self._at, 0, b"".join(dict.fromkeys(self._ended)))
        for (group, kind), ids in self._handled.items():
            yield self._sql("ended_handled", self._at, b"".join(ids), group, kind, self._owner)
        yield from self._members.count(self._sql)
        if self._due:
            yield self._sql("bell_ring")

    def _bury(self) -> Script[None]:
        """Bury what has failed: occurrences of schedules by their times, since each may replace those before it."""
        if not self._buried:
            return
        # Most processes bury nothing, and its patterns take long to compile.
        from mainspring.model.fingerprint import fingerprint

        seqs = list(self._buried)
        if sum(replaces for _, replaces in self._buried.values()) > 1:
            seqs = [seq for (seq,) in (yield self._sql("settle_by_occurrence", numbers(seqs)))]
        for seq in seqs:
            failure, replaces = self._buried[seq]
            replaced = (yield self._sql("settle_replace", seq)) if replaces else ()
            self._ended += [message_id for message_id, _ in replaced]
            repeats = sum(earlier + 1 for _, earlier in replaced)
            cause = fingerprint(failure.kind, failure.error)
            yield self._sql("settle_bury", seq, failure.kind, storable(failure.error), self._at, cause, repeats)

    def _hand_back(self, row: Row, delay: timedelta, took: timedelta, *, forgive: int) -> Script[None]:
        if row[_CANCEL_ASKED]:
            yield from self._cancel(row, took, _ASKED)
            return
        due = after(self._at, delay)
        yield self._sql("settle_back", row[_SEQ], due, forgive)
        # Another worker may claim it at once, and no new delivery rings for it.
        self._due = self._due or due <= self._at

    def _cancel(self, row: Row, took: timedelta, reason: str | None) -> Script[None]:
        yield from self._record(row, "cancelled", took, error=reason)
        self.remove(row, ends=True)

    def _record(
        self,
        row: Row,
        status: str,
        took: timedelta,
        failure: Failure | None = None,
        *,
        error: str | None = None,
        output: str | None = None,
    ) -> Script[None]:
        why: tuple[Any, ...] = (None, storable(error), None)
        if failure is not None:
            why = (failure.kind, storable(failure.error), storable(failure.traceback))
        started = before(self._at, took)
        yield self._sql("settle_run", row[_SEQ], status, started, self._at, *why, storable(output), shown(self._owner))
