"""The ledger on PostgreSQL: reading, which changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
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
from mainspring.storage.operation import Now, operation
from mainspring.storage.portable.joins import LAST_ID, id_after, join_view
from mainspring.storage.portable.search import Cause, browse, by_schedule, causes, linked, source_of
from mainspring.storage.postgres.columns import clean, columns, from_json, of_delivery
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.script import Row, Script, Statement


@dataclass(frozen=True, slots=True)
class PostgresSearch:
    """See ``SearchDialect``."""

    names: Names
    now: Now

    def statement(self, name: str, *args: Any) -> Statement:
        """The statement of this name."""
        return Statement(self.names.sql(name), args)

    def instant(self, at: datetime | None) -> datetime | None:
        """As it is: the driver writes it."""
        return at

    def sought(self, text: str) -> str:
        """Text as ``searchable()`` would have it."""
        return text.encode("utf-8", "backslashreplace").lower().replace(b"\0", b"\1").decode("latin-1")

    def storable(self, text: str) -> str:
        """Text without NUL and half characters."""
        return clean(text)

    def listed(self, seqs: list[int]) -> list[int]:
        """An array."""
        return seqs

    def seqs(self, listed: list[int]) -> list[int]:
        """An array."""
        return listed

    def view(self, row: Row) -> DeliveryView:
        """The columns are in the order of the view."""
        return of_delivery(row)


@dataclass(frozen=True, slots=True)
class PostgresCauses:
    """See ``CauseDialect``."""

    names: Names

    def known(self, group: str | None, steps: int) -> Statement:
        """From cause to cause."""
        return Statement(self.names.sql("causes_known"), (group, steps))

    def count(self, causes: Sequence[Cause], most: int) -> Statement:
        """So many of each."""
        return Statement(self.names.sql("causes_count"), (*columns(causes, 2), most))

    def latest(self, causes: Sequence[Cause]) -> Statement:
        """The newest of each."""
        return Statement(self.names.sql("causes_latest"), columns(causes, 2))

    def at(self, value: Any) -> datetime:
        """The driver has read it."""
        instant: datetime = value
        return instant


class PostgresLedger(PostgresOperations):
    """``Ledger`` on PostgreSQL. Rows become views by position."""

    @operation("read")
    def tally(self, cap: int = 100_000) -> Script[Tally]:
        rows = yield Statement(self._sql("tally"), (cap, self.now))
        moment, parked, expired_parked = rows[0][:3]
        groups = tuple(Counts(*row[3:]) for row in rows if row[3] is not None)
        return Tally(moment, groups, parked, expired_parked)

    @operation("settle")
    def earlier(self) -> Script[None]:
        """What ``own`` needs: nothing, since a row knows the transaction that inserted it."""
        yield from ()

    @operation("read")
    def own(self, ids: Sequence[UUID], earlier: object) -> Script[frozenset[UUID]]:  # noqa: ARG002 - one for every dialect
        """Which of these messages this transaction has published."""
        return frozenset(row[0] for row in (yield Statement(self._sql("own"), (list(ids),))))

    @operation("read")
    def browse(self, filter: Filter) -> Script[Matches]:
        return browse(source_of(PostgresSearch(self._names, self.now), filter), filter)

    @operation("read")
    def causes(self, group: str | None, cap: int, limit: int, scan: int = CAUSES_SCAN) -> Script[Causes]:
        return causes(PostgresCauses(self._names), group, cap, limit, scan)

    @operation("read")
    def chain(self, message_id: UUID, limit: int) -> Script[Chain]:
        rows = yield Statement(self._sql("chain"), (message_id, limit, self.now))
        return linked([(row[0], Link(*row[2:])) for row in rows], limit)

    @operation("read")
    def find(self, message_id: UUID) -> Script[MessageView | None]:
        found = yield Statement(self._sql("find_message"), (message_id,))
        if not found:
            return None
        deliveries = yield Statement(self._sql("find_deliveries"), (message_id, self.now))
        runs = yield Statement(self._sql("find_runs"), (message_id,))
        views = sorted((of_delivery(row) for row in deliveries), key=lambda view: (view.state == "parked", view.seq))
        return _message(found[0], tuple(views), tuple(RunView(*row) for row in runs))

    @operation("read")
    def runs(
        self, group: str | None, before: int | None, limit: int, schedule: str | None = None
    ) -> Script[list[RunView]]:
        if schedule is not None:
            rows = yield Statement(self._sql("runs_schedule"), (schedule, group, before, limit))
        elif group is None:
            rows = yield Statement(self._sql("runs_all"), (before, limit))
        else:
            rows = yield Statement(self._sql("runs_group"), (group, before, limit))
        return [RunView(*row) for row in rows]

    @operation("read")
    def failures(self, limit: int, before: tuple[datetime, int] | None = None) -> Script[list[RunView]]:
        at, id = before or (None, None)
        return [RunView(*row) for row in (yield Statement(self._sql("runs_failed"), (limit, at, id)))]

    @operation("read")
    def recent(self, schedules: Collection[str], limit: int) -> Script[dict[str, tuple[RunView, ...]]]:
        rows = yield Statement(self._sql("runs_recent"), (sorted(set(schedules)), limit))
        return by_schedule(RunView(*row) for row in rows)

    @operation("read")
    def joins(self, after: UUID | None, limit: int) -> Script[list[JoinView]]:
        pages = (id_after(after), LAST_ID, limit, self.now)
        return [_join(row) for row in (yield Statement(self._sql("joint_read"), pages))]

    @operation("read")
    def find_join(self, id: UUID) -> Script[JoinView | None]:
        rows = yield Statement(self._sql("joint_read"), (id, id, 1, self.now))
        return _join(rows[0]) if rows else None

    @operation("read")
    def members(self, join_id: UUID, after: int | None, limit: int) -> Script[list[DeliveryView]]:
        rows = yield Statement(self._sql("joint_members"), (join_id, after or 0, limit, self.now))
        return [of_delivery(row) for row in rows]

    @operation("read")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        rows = yield Statement(self._sql("pending"), (list(limits), list(limits.values())))
        return {group: count for group, count in rows}  # noqa: C416 - a row is no pair to a type checker

    @operation("read")
    def roster(self) -> Script[Roster]:
        groups = yield Statement(self._sql("roster_groups"), (self.now,))
        workers = yield Statement(self._sql("roster_workers"))
        return Roster(
            groups[0][0],
            tuple(_group(row) for row in groups if row[1] is not None),
            tuple(_worker(row) for row in workers),
        )

    @operation("read")
    def audit(self, before: int | None, limit: int) -> Script[list[AuditView]]:
        rows = yield Statement(self._sql("audit"), (before, limit))
        return [AuditView(*row) for row in rows]


def _message(row: Row, deliveries: tuple[DeliveryView, ...], runs: tuple[RunView, ...]) -> MessageView:
    id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at = row
    return MessageView(
        id=id,
        topic=topic,
        key=key,
        payload=payload,
        content_type=content_type,
        headers={} if headers is None else from_json(headers),
        correlation_id=correlation_id,
        causation_id=causation_id,
        published_at=published_at,
        expires_at=expires_at,
        deliveries=deliveries,
        runs=runs,
    )


def _join(row: Row) -> JoinView:
    oldest = row[11:]
    return join_view(row[0], row[1], row[2:11], None if oldest[0] is None else of_delivery(oldest))


def _group(row: Row) -> GroupView:
    _now, name, app, patterns, handler, options, *rest = row
    return GroupView(name, app, tuple(patterns), handler, from_json(options), *rest)


def _worker(row: Row) -> WorkerView:
    name, app, host, pid, groups, in_hand, bell, started, beat, tripped, *drained = row
    return WorkerView(name, app, host, pid, tuple(groups), in_hand, bell, started, beat, tuple(tripped), *drained)
