"""The ledger and the measures: reading, which changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.model.join import Follower, JoinView
from mainspring.model.measures import SPANS, Sums, What
from mainspring.model.message import REPLACES_HEADER, Claim, Delivery, Held, Priority
from mainspring.model.search import CAUSES_SCAN, Causes, Chain, Filter, Link, Matches
from mainspring.model.views import (
    AuditView,
    DeliveryView,
    GroupView,
    Kind,
    MessageView,
    Roster,
    RunTimes,
    RunView,
    WorkerView,
    run_times,
)
from mainspring.model.worker import shown
from mainspring.storage.codec.formats import preview
from mainspring.storage.operation import operation
from mainspring.storage.portable.dialect import SqlOperations, read_links, read_mapping
from mainspring.storage.portable.search import Search, causes, handled, searched
from mainspring.storage.script import Row, Script

_LAST_ID = UUID(int=2**128 - 1)
"""No id is greater."""


class SqlLedger(SqlOperations):
    """The operations of ``Ledger`` on which dialects agree. The columns of a row are the fields of its view."""

    @operation("read")
    def browse(self, filter: Filter) -> Script[Matches]:
        at = yield from self._read_clock()
        return (yield from searched(self._search(at), filter))

    @operation("read")
    def causes(self, group: str | None, cap: int, limit: int, scan: int = CAUSES_SCAN) -> Script[Causes]:
        return causes(self._sql, self._values, group, cap, limit, scan)

    @operation("read")
    def buried(self, within: timedelta, cap: int) -> Script[dict[str, int]]:
        at = yield from self._read_clock()
        rows = yield self._sql("buried", self._values.span(within), cap, at)
        return dict(sorted((group, count) for group, count in rows))

    @operation("read")
    def chain(self, message_id: UUID, limit: int) -> Script[Chain]:
        at = yield from self._read_clock()
        rows = yield self._sql("chain", self._values.id(message_id), limit, at)
        # Up to one more than the limit on each side, nearest first.
        causes = [self._view(Link, row[2:]) for row in rows if row[0]]
        caused = [self._view(Link, row[2:]) for row in rows if not row[0]]
        more = len(causes) > limit or len(caused) > limit
        return Chain(tuple(reversed(causes[:limit])), tuple(caused[:limit]), more)

    @operation("read")
    def held(self, claim: Claim) -> Script[Held | None]:
        at = yield from self._read_clock()
        rows = yield self._sql("held", claim.id, claim.epoch, self._values.id(claim.message_id), at)
        if not rows:
            return None
        *columns, owner, now = rows[0]
        delivery = Delivery(*self._values.fields(Delivery, columns))
        headers: Any = delivery.headers
        if headers is not None:
            delivery = delivery._replace(headers=read_mapping(headers))
        return Held(delivery, owner, self._values.read_instant(now))

    @operation("read")
    def find(self, message_id: UUID) -> Script[MessageView | None]:
        key = self._values.id(message_id)
        at = yield from self._read_clock()
        found = yield self._sql("find_message", key)
        if not found:
            return None
        rows = yield self._sql("find_deliveries", key, at)
        deliveries = sorted(map(self._delivery, rows), key=lambda view: (view.state == "parked", view.seq))
        runs = [self._view(RunView, row) for row in (yield self._sql("find_runs", key))]
        listed = yield from handled(self._search(at), message_id, key)
        message = self._values.fields(MessageView, found[0])
        headers = {} if message[5] is None else read_mapping(message[5])
        replaces = message[7] if REPLACES_HEADER in headers else None
        rows = yield self._sql("find_replacements", key)
        replaced_by = tuple(self._values.fields(MessageView, row)[0] for row in rows)
        done = _done(message[2], message[8], listed, runs)
        ends = (tuple(deliveries), tuple(runs), replaces, replaced_by, done)
        return MessageView(*(*message[:5], headers, *message[6:], *ends))

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
        return [self._view(RunView, row) for row in rows]

    @operation("read")
    def run_times(self, schedule: str, limit: int) -> Script[RunTimes | None]:
        rows = yield self._sql("run_times", schedule, limit)
        read = self._values.read_instant
        return run_times([read(finished) - read(started) for started, finished in rows])

    @operation("read")
    def failures(self, limit: int, before: tuple[datetime, int] | None = None) -> Script[list[RunView]]:
        at, id = before or (None, None)
        rows = yield self._sql("runs_failed", limit, self._values.instant(at), id)
        return [self._view(RunView, row) for row in rows]

    @operation("read")
    def joins(self, after: UUID | None, limit: int) -> Script[list[JoinView]]:
        return self._joins(id_after(after), _LAST_ID, limit)

    @operation("read")
    def find_join(self, id: UUID) -> Script[JoinView | None]:
        found = yield from self._joins(id, id, 1)
        return found[0] if found else None

    def _joins(self, first: UUID, last: UUID, limit: int) -> Script[list[JoinView]]:
        at = yield from self._read_clock()
        rows = yield self._sql("joint_read", self._values.id(first), self._values.id(last), limit, at)
        return [self._join(row) for row in rows]

    @operation("read")
    def members(self, join_id: UUID, after: int | None, limit: int) -> Script[list[DeliveryView]]:
        at = yield from self._read_clock()
        rows = yield self._sql("joint_members", self._values.id(join_id), after or 0, limit, at)
        return [self._delivery(row) for row in rows]

    @operation("read")
    def roster(self) -> Script[Roster]:
        at = yield from self._read_clock()
        groups = yield self._sql("roster_groups", at)
        workers = yield self._sql("roster_workers")
        now = self._values.read_instant(groups[0][0])
        named = tuple(self._group(row[1:]) for row in groups if row[1] is not None)
        return Roster(now, named, tuple(self._worker(row) for row in workers))

    @operation("read")
    def audit(self, before: int | None, limit: int) -> Script[list[AuditView]]:
        rows = yield self._sql("audit", before, limit)
        return [self._view(AuditView, row) for row in rows]

    def _search(self, at: Any) -> Search:
        return Search(self._sql, self._values, self._found, at)

    def _delivery(self, row: Row) -> DeliveryView:
        """A delivery, its holder without the token of its start."""
        view = self._view(DeliveryView, row)
        if view.node is not None:
            return replace(view, node=shown(view.node))
        return view if view.held_by is None else replace(view, held_by=shown(view.held_by))

    def _found(self, row: Row) -> DeliveryView:
        """A delivery, and where payloads are shown the beginning of its payload."""
        *columns, content_type, size, head = row
        view = self._delivery(columns)
        return view if head is None else replace(view, preview=preview(bytes(head), content_type, size))

    def _join(self, row: Row) -> JoinView:
        id, opened_at = self._values.fields(JoinView, row[:2])
        members, ended, failed, then_topic, then_group, failed_topic, failed_group, key, correlation_id = row[2:11]
        then, otherwise = _follower(then_topic, then_group), _follower(failed_topic, failed_group)
        oldest = None if row[11] is None else self._delivery(row[11:])
        return JoinView(id, opened_at, members, ended, failed, then, otherwise, key, correlation_id, oldest)

    def _group(self, row: Row) -> GroupView:
        name, app, patterns, handler, options, *times = self._values.fields(GroupView, row)
        return GroupView(name, app, tuple(patterns), handler, read_mapping(options), *times)

    def _worker(self, row: Row) -> WorkerView:
        *columns, links = row
        name, app, host, pid, groups, in_hand, bell, started, beat, tripped, *drained = self._values.fields(
            WorkerView, columns
        )
        view = WorkerView(name, app, host, pid, tuple(groups), in_hand, bell, started, beat, tuple(tripped), *drained)
        return view if links is None else replace(view, links=read_links(links))


def _done(
    key: str | None, published_at: datetime, listed: Sequence[DeliveryView], runs: Sequence[RunView]
) -> tuple[DeliveryView, ...]:
    """All that is known to be done, by batches and by kept runs, each once, oldest first."""
    known = {(view.group, view.finished_at) for view in listed}
    kept = [
        DeliveryView(
            run.id, run.message_id, run.group, run.topic, key, "done", Priority.NORMAL, run.attempt, 0,
            published_at, published_at, published_at, schedule=run.schedule, kind=_kind(run, published_at),
            finished_at=run.finished_at, node=run.node,
        )
        for run in runs
        if run.status == "done" and (run.group, run.finished_at) not in known
    ]  # fmt: skip
    return tuple(sorted([*kept, *listed], key=lambda view: (view.finished_at or published_at, view.seq)))


def _kind(run: RunView, published_at: datetime) -> Kind:
    if run.schedule is not None:
        return "recurring"
    return "delayed" if run.scheduled_for is not None and run.scheduled_for > published_at else "immediate"


class SqlMeasures(SqlOperations):
    """``Measures``, for every SQL database."""

    @operation("read")
    def read(self, span: int, back: timedelta, group: str) -> Script[Sums[datetime]]:
        at = yield from self._read_clock()
        rows = yield self._sql("measure_read", span, self._values.span(back), group, at)
        return Sums(self._values.read_instant(rows[0][0]), _counts(rows, self._values.read_instant))

    @operation("read")
    def rates(self, back: timedelta) -> Script[Sums[str]]:
        at = yield from self._read_clock()
        rows = yield self._sql("measure_rates", min(SPANS), self._values.span(back), at)
        return Sums(self._values.read_instant(rows[0][0]), _counts(rows, str))


def _counts(rows: Sequence[Row], read: Callable[[Any], Any]) -> tuple[tuple[Any, What, int, int], ...]:
    # Added up, since PostgreSQL may not have moved some of a count out of its slots yet. Sorted here: the order of
    # names in a database depends on its locale.
    sums: Counter[tuple[Any, What, int]] = Counter()
    for _, of, what, bin, count in rows:
        if of is not None:
            sums[read(of), what, bin] += count
    return tuple((*key, count) for key, count in sorted(sums.items()))


def id_after(after: UUID | None) -> UUID:
    """Return the first id after this one; None: the first id there is."""
    return UUID(int=0 if after is None else min(after.int + 1, _LAST_ID.int))


def by_schedule(runs: Iterable[RunView]) -> dict[str, tuple[RunView, ...]]:
    """Group runs by schedule, in their order."""
    grouped: dict[str, list[RunView]] = {}
    for run in runs:
        if run.schedule is not None:
            grouped.setdefault(run.schedule, []).append(run)
    return {name: tuple(theirs) for name, theirs in grouped.items()}


def _follower(topic: str | None, group: str | None) -> Follower | None:
    return None if topic is None else Follower(topic, group or "")
