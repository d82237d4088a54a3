"""The ledger on SQLite: reading, which changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from mainspring.model.join import JoinView
from mainspring.model.search import CAUSES_SCAN, Causes, Chain, Filter, Link, Matches
from mainspring.model.views import (
    AuditView,
    Counts,
    DeliveryView,
    GroupView,
    MessageView,
    Roster,
    RunView,
    Tally,
    WorkerView,
)
from mainspring.model.worker import shown_or_none
from mainspring.storage.operation import operation
from mainspring.storage.portable.joins import LAST_ID, id_after, join_view
from mainspring.storage.portable.search import Cause, browse, by_schedule, causes, linked, source_of
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sqlite.dialect import Dialect, SqliteOperations
from mainspring.storage.sqlite.publish import pending
from mainspring.storage.sqlite.values import (
    instant,
    instant_or_none,
    micros_or_none,
    numbers,
    pairs,
    read_mapping,
    read_names,
    read_numbers,
    storable,
    uuid_or_none,
)


def of_delivery(row: Row) -> DeliveryView:
    """A row whose columns are the fields of a view."""
    (seq, raw, group, topic, key, state, priority, attempt, deaths, due, asked, published, *rest) = row
    held_by, cancel_asked, buried, error, *progress = rest
    said, said_at = progress or (None, None)
    return DeliveryView(
        seq=seq,
        message_id=UUID(bytes=raw),
        group=group,
        topic=topic,
        key=key,
        state=state,
        priority=priority,
        attempt=attempt,
        deaths=deaths,
        due_at=instant(due),
        scheduled_for=instant(asked),
        published_at=instant(published),
        held_by=shown_or_none(held_by),
        cancel_asked=bool(cancel_asked),
        buried_at=instant_or_none(buried),
        error=error,
        progress=said,
        progress_at=instant_or_none(said_at),
    )


@dataclass(frozen=True, slots=True)
class SqliteSearch:
    """See ``SearchDialect``."""

    sql: Dialect
    now: int

    def statement(self, name: str, *args: Any) -> Statement:
        """The statement of this name."""
        return self.sql(name, *args)

    def instant(self, at: datetime | None) -> int | None:
        """In microseconds."""
        return micros_or_none(at)

    def sought(self, text: str) -> bytes:
        """Text in small letters, as bytes."""
        return text.encode("utf-8", "backslashreplace").lower()

    def storable(self, text: str) -> str:
        """Text without half characters."""
        return storable(text) or ""

    def listed(self, seqs: list[int]) -> str:
        """A list for ``json_each``."""
        return numbers(seqs)

    def seqs(self, listed: str) -> list[int]:
        """A list that was gathered by ``json_group_array``."""
        return read_numbers(listed)

    def view(self, row: Row) -> DeliveryView:
        """The columns are in the order of the view."""
        return of_delivery(row)


@dataclass(frozen=True, slots=True)
class SqliteCauses:
    """See ``CauseDialect``."""

    sql: Dialect

    def known(self, group: str | None, steps: int) -> Statement:
        """From cause to cause."""
        return self.sql("causes_known", group, steps)

    def count(self, causes: Sequence[Cause], most: int) -> Statement:
        """So many of each."""
        return self.sql("causes_count", pairs(causes), most)

    def latest(self, causes: Sequence[Cause]) -> Statement:
        """The newest of each."""
        return self.sql("causes_latest", pairs(causes))

    def at(self, value: Any) -> datetime:
        """Microseconds as a datetime."""
        return instant(value)


class SqliteLedger(SqliteOperations):
    """``Ledger`` on SQLite."""

    @operation("read")
    def tally(self, cap: int = 100_000) -> Script[Tally]:
        sql = self._sql
        at = yield from sql.read_clock()
        groups_named = yield sql("tally_names")
        done = {group: (handled, failed) for group, handled, failed in (yield sql("tally_done"))}
        groups: list[Counts] = []
        for (name,) in groups_named:
            ((scheduled, ready, running, lapsed, dead, oldest),) = yield sql("tally_group", name, at, cap)
            handled, failed = done.get(name, (0, 0))
            groups.append(
                Counts(
                    group=name,
                    scheduled=scheduled,
                    ready=ready,
                    running=running,
                    lapsed=lapsed,
                    dead=dead,
                    oldest_ready_at=instant_or_none(oldest),
                    handled=handled,
                    failed=failed,
                )
            )
        ((parked, expired),) = yield sql("tally_parked", cap)
        return Tally(instant(at), tuple(groups), parked, expired)

    @operation("settle")
    def earlier(self) -> Script[frozenset[UUID]]:
        """What ``own`` has to know: which messages are there. It takes the write lock, so that no others come."""
        yield self._sql("settle_lock", -1, -1)
        return frozenset(UUID(bytes=row[0]) for row in (yield self._sql("earlier")))

    @operation("read")
    def own(self, ids: Sequence[UUID], earlier: object) -> Script[frozenset[UUID]]:
        """Which of these messages this transaction has published."""
        yield from ()
        return frozenset(ids).difference(cast("frozenset[UUID]", earlier))

    @operation("read")
    def browse(self, filter: Filter) -> Script[Matches]:
        at = yield from self._sql.read_clock()
        return (yield from browse(source_of(SqliteSearch(self._sql, at), filter), filter))

    @operation("read")
    def causes(self, group: str | None, cap: int, limit: int, scan: int = CAUSES_SCAN) -> Script[Causes]:
        return causes(SqliteCauses(self._sql), group, cap, limit, scan)

    @operation("read")
    def chain(self, message_id: UUID, limit: int) -> Script[Chain]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("chain", message_id.bytes, limit, at)
        return linked([(bool(row[0]), _link(row[2:])) for row in rows], limit)

    @operation("read")
    def find(self, message_id: UUID) -> Script[MessageView | None]:
        sql = self._sql
        raw = message_id.bytes
        at = yield from sql.read_clock()
        found = yield sql("find_message", raw)
        if not found:
            return None
        rows = yield sql("find_deliveries", raw, at)
        deliveries = sorted(map(of_delivery, rows), key=lambda view: (view.state == "parked", view.seq))
        runs = yield sql("find_runs", raw)
        ((_, topic, key, payload, content_type, headers, correlation, causation, published, expires),) = found
        return MessageView(
            id=message_id,
            topic=topic,
            key=key,
            payload=payload,
            content_type=content_type,
            headers={} if headers is None else read_mapping(headers),
            correlation_id=correlation,
            causation_id=uuid_or_none(causation),
            published_at=instant(published),
            expires_at=instant_or_none(expires),
            deliveries=tuple(deliveries),
            runs=tuple(_run(row) for row in runs),
        )

    @operation("read")
    def runs(
        self, group: str | None, before: int | None, limit: int, schedule: str | None = None
    ) -> Script[list[RunView]]:
        if schedule is not None:
            rows = yield self._sql("runs_schedule", schedule, group, before, limit)
        elif group is None:
            rows = yield self._sql("runs_all", before, limit)
        else:
            rows = yield self._sql("runs_group", group, before, limit)
        return [_run(row) for row in rows]

    @operation("read")
    def failures(self, limit: int, before: tuple[datetime, int] | None = None) -> Script[list[RunView]]:
        at, id = before or (None, None)
        return [_run(row) for row in (yield self._sql("runs_failed", limit, micros_or_none(at), id))]

    @operation("read")
    def recent(self, schedules: Collection[str], limit: int) -> Script[dict[str, tuple[RunView, ...]]]:
        found: list[RunView] = []
        for name in sorted(set(schedules)):
            found += [_run(row) for row in (yield self._sql("runs_schedule", name, None, None, limit))]
        return by_schedule(found)

    @operation("read")
    def joins(self, after: UUID | None, limit: int) -> Script[list[JoinView]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("joint_read", id_after(after).bytes, LAST_ID.bytes, limit, at)
        return [_join(row) for row in rows]

    @operation("read")
    def find_join(self, id: UUID) -> Script[JoinView | None]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("joint_read", id.bytes, id.bytes, 1, at)
        return _join(rows[0]) if rows else None

    @operation("read")
    def members(self, join_id: UUID, after: int | None, limit: int) -> Script[list[DeliveryView]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("joint_members", join_id.bytes, after or 0, limit, at)
        return [of_delivery(row) for row in rows]

    @operation("read")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        return pending(self._sql, limits)

    @operation("read")
    def roster(self) -> Script[Roster]:
        sql = self._sql
        at = yield from sql.read_clock()
        patterns: dict[str, list[str]] = {}
        for group, pattern in (yield sql("roster_patterns")):
            patterns.setdefault(group, []).append(pattern)
        groups = [_group(row, patterns.get(row[0], [])) for row in (yield sql("roster_groups"))]
        workers = [_worker(row) for row in (yield sql("roster_workers"))]
        return Roster(instant(at), tuple(groups), tuple(workers))

    @operation("read")
    def audit(self, before: int | None, limit: int) -> Script[list[AuditView]]:
        rows = yield self._sql("audit", before, limit)
        return [AuditView(id, instant(at), by, action, subject, detail) for id, at, by, action, subject, detail in rows]


def _run(row: Row) -> RunView:
    id, raw, group, topic, attempt, status, started, finished, node, *why, source, schedule, asked = row
    kind, error, traceback, output = why
    return RunView(
        id=id,
        message_id=UUID(bytes=raw),
        group=group,
        topic=topic,
        attempt=attempt,
        status=status,
        started_at=instant(started),
        finished_at=instant(finished),
        node=node,
        kind=kind,
        error=error,
        traceback=traceback,
        output=output,
        source=source,
        schedule=schedule,
        scheduled_for=instant_or_none(asked),
    )


def _link(row: Row) -> Link:
    raw, topic, key, cause, published, state = row
    return Link(UUID(bytes=raw), topic, key, uuid_or_none(cause), instant(published), state)


def _join(row: Row) -> JoinView:
    oldest = None if row[11] is None else of_delivery(row[11:])
    return join_view(UUID(bytes=row[0]), instant(row[1]), row[2:11], oldest)


def _group(row: Row, patterns: list[str]) -> GroupView:
    (name, app, handler, options, declared, served, paused, paused_by, reason) = row
    return GroupView(
        name=name,
        app=app,
        patterns=tuple(patterns),
        handler=handler,
        options=read_mapping(options),
        declared_at=instant(declared),
        served_at=instant_or_none(served),
        paused_at=instant_or_none(paused),
        paused_by=paused_by,
        pause_reason=reason,
    )


def _worker(row: Row) -> WorkerView:
    (name, app, host, pid, groups, in_hand, bell, started, beat, tripped, draining, drained_by, drains) = row
    seen = (read_names(groups), in_hand, bell, instant(started), instant(beat), read_names(tripped))
    return WorkerView(name, app, host, pid, *seen, instant_or_none(draining), drained_by, bool(drains))
