"""The controls of SQLite, as scripts: what an operator may do, audited in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from mainspring.model.message import REPLAYED, Cancelled, Draft, Lapse, ReleasedClaims
from mainspring.model.schedule import Note
from mainspring.model.search import UNFINISHED, By, DeadSelection, Picked, spelled
from mainspring.storage.operation import operation
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import count_dropped, publish
from mainspring.storage.sqlite.values import instant, micros, names, numbers, storable
from mainspring.storage.sqlite.verdicts import cancel_deliveries


class SqliteControls(SqliteOperations):
    """``Controls`` on SQLite."""

    @operation("write")
    def pause(self, group: str, by: str, reason: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("pause", group, at, by, storable(reason))):
            return False
        yield self._note(at, Note(by, "pause", reason), group)
        return True

    @operation("write")
    def resume(self, group: str, by: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("pause", group, None, None, None)):
            return False
        yield self._note(at, Note(by, "resume"), group)
        yield self._ring()
        return True

    @operation("write")
    def release(
        self, group: str, by: str, limit: int, after: Lapse | None
    ) -> Script[tuple[ReleasedClaims, Lapse | None] | None]:
        """Nothing is ever busy here: there is one write lock, and this holds it."""
        sql = self._sql
        at = yield from sql.turn_clock()
        if not (yield sql("group_there", group)):
            return None
        lapsed_at, last = (0, 0) if after is None else (micros(after[0]), after[1])
        rows = yield sql("release_scan", group, at, lapsed_at, last, limit)
        free = [seq for seq, _, stays in rows if not stays]
        if free:
            for seq in free:
                yield sql("reap_lost", seq, at, 0, "an operator has released it")
            yield sql("release_free", numbers(free), at)
            yield self._note(at, Note(by, "release", f"{len(free)} released"), group)
            # They have their old seqs, so no new one rings for them.
            yield self._ring()
        more = (instant(rows[-1][1]), rows[-1][0]) if len(rows) == limit else None
        return ReleasedClaims(len(free), len(rows) - len(free)), more

    @operation("write")
    def revive(self, which: DeadSelection, by: By, limit: int) -> Script[int]:
        at = yield from self._sql.turn_clock()
        chosen = yield from self._chosen(which, limit)
        if chosen:
            seqs = numbers(seq for seq, _ in chosen)
            yield self._sql("dead_revive", seqs, at)
            yield self._sql("dead_delete", seqs)
            yield self._batch(at, by, "revive", which.described, len(chosen), f"{len(chosen)} revived")
            # A revived delivery has its old seq, so no new one rings for it.
            yield self._ring()
        return len(chosen)

    @operation("write")
    def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("dead_take", message_id.bytes, group)):
            return False
        yield from publish(self._sql, [draft])
        yield self._sql("replayed", draft.id.bytes, REPLAYED)
        yield self._sql("ended_add", at, 0, message_id.bytes)
        yield self._note(at, Note(by, "replace", f"replaced in {group} by {draft.id}"), str(message_id))
        return True

    @operation("write")
    def discard(self, which: DeadSelection, by: By, limit: int) -> Script[int]:
        at = yield from self._sql.turn_clock()
        chosen = yield from self._chosen(which, limit)
        if chosen:
            yield self._sql("dead_delete", numbers(seq for seq, _ in chosen))
            yield self._sql("ended_add", at, 0, b"".join(raw for _, raw in chosen))
            yield self._batch(at, by, "discard", which.described, len(chosen), f"{len(chosen)} discarded")
        return len(chosen)

    @operation("write")
    def run_now(self, picked: Picked, by: By) -> Script[int]:
        at = yield from self._sql.turn_clock()
        due = len((yield self._sql("run_now", *_flattened(picked), at)))
        if due:
            yield self._batch(at, by, "run_now", spelled(picked), due, f"{due} due now")
            # It has its old seq, so no new one rings for it.
            yield self._ring()
        return due

    @operation("write")
    def cancel(self, picked: Picked, by: By, reason: str) -> Script[Cancelled]:
        sql = self._sql
        at = yield from sql.turn_clock()
        found = yield sql("cancel_find_picked", *_flattened(picked))
        parked = yield sql("cancel_parked_picked", *_flattened(picked))
        answer = yield from cancel_deliveries(sql, found, parked, reason, at)
        if found or parked:
            detail = f"{answer.cancelled} cancelled, {answer.asked} asked to stop: {reason}"
            yield self._batch(at, by, "cancel", spelled(picked), answer.cancelled + answer.asked, detail)
        return answer

    @operation("write")
    def retire(self, group: str, by: str, limit: int) -> Script[int | None]:
        sql = self._sql
        at = yield from sql.turn_clock()
        if not (yield sql("group_there", group)):
            return None
        # First of all nothing more may come in, or the last delivery would never have gone.
        yield sql("group_unsubscribe", group)
        dropped = sorted((yield sql("group_deliveries", group, limit)), key=lambda row: int(row[0]))
        if dropped:
            seqs = numbers(seq for seq, _, _ in dropped)
            yield sql("group_retired", seqs, at, "group retired")
            yield sql("delivery_delete", seqs)
            yield from count_dropped(sql, (join_id for _, _, join_id in dropped))
            yield sql("ended_add", at, 0, b"".join(raw for _, raw, _ in dropped))
        else:
            yield sql("group_delete", group)
            yield sql("group_tally_delete", group)
            yield sql("limited_retire", group)
        yield self._note(at, Note(by, "retire", f"{len(dropped)} dropped"), group)
        return len(dropped)

    @operation("write")
    def drain(self, worker: str, by: str, reason: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("drain", worker, at, storable(by), storable(reason))):
            return False
        yield self._note(at, Note(by, "drain", reason), worker)
        return True

    @operation("write")
    def resume_worker(self, worker: str, by: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("drain", worker, None, None, None)):
            return False
        yield self._note(at, Note(by, "worker resume"), worker)
        return True

    @operation("write")
    def note(self, action: str, subject: str, by: str, detail: str) -> Script[int]:
        at = yield from self._sql.turn_clock()
        ((line,),) = yield self._note(at, Note(by, action, detail), subject)
        return int(line)

    @operation("write")
    def amend(self, line: int, standing: str) -> Script[None]:
        yield self._sql("audit_amend", line, None, UNFINISHED, storable(standing))

    def _chosen(self, which: DeadSelection, limit: int) -> Script[Sequence[Row]]:
        """The lowest ``limit`` of them, by whichever index finds them."""
        rest = (which.topic, which.error, which.fingerprint, limit)
        raw = None if which.message_id is None else which.message_id.bytes
        if which.picked is not None:
            chosen = yield self._sql("dead_select_picked", *_flattened(which.picked), raw, which.group, *rest)
        elif raw is not None:
            chosen = yield self._sql("dead_select_message", raw, which.group, *rest)
        elif which.group is not None:
            chosen = yield self._sql("dead_select_group", which.group, *rest)
        else:
            chosen = yield self._sql("dead_select_all", *rest)
        return chosen

    def _batch(self, at: int, by: By, action: str, subject: str, count: int, detail: str) -> Statement:
        """A line of its own, or one that is there brought up to date."""
        if isinstance(by, str):
            return self._note(at, Note(by, action, detail), subject)
        return self._sql("audit_amend", by.id, by.after(count).detail, UNFINISHED, UNFINISHED)


def _flattened(picked: Picked) -> tuple[bytes, str]:
    """The messages end to end, 16 bytes each, and a list of their groups."""
    return b"".join(message_id.bytes for message_id, _ in picked), names(group for _, group in picked)
