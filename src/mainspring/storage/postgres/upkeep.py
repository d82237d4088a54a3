"""The upkeep in SQL: declarations, beats, re-routing and pruning, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from mainspring.model.errors import Conflict
from mainspring.model.join import Recount
from mainspring.model.measures import SPANS, Measure, with_totals
from mainspring.model.message import Progress
from mainspring.model.unique import LEAST
from mainspring.model.views import Beat, Declaration, Kind, Orders, Pruned, Retention, RunView
from mainspring.storage.ages import STATUSES, Ages
from mainspring.storage.continuations import beyond
from mainspring.storage.postgres.columns import clean, columns, to_json
from mainspring.storage.postgres.measures import slot_of
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.routing import expression, is_wild
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql import Now

_RUNS = ("topics_ran", "prune_runs")
_BY_TOPIC: dict[Kind, tuple[str, str]] = {
    "done": _RUNS,
    "failures": _RUNS,
    "dead": ("topics_dead", "prune_dead"),
    "parked": ("topics_parked", "prune_parked"),
}
"""What tells the topics of each kind, and what prunes them."""

_MERGES = 10
_KEPT = (list(SPANS), [int(kept.total_seconds()) for kept in SPANS.values()])


class PostgresUpkeep:
    """``UpkeepScripts`` for PostgreSQL."""

    def __init__(self, names: Names) -> None:
        self._channel = names.channel
        self._sql = names.sql

    def declare(self, declarations: Sequence[Declaration], now: Now) -> Script[None]:
        """See ``Upkeep.declare``. Where nothing differs, which is nearly every start, it only reads."""
        wanted = {each.group: each for each in declarations}
        groups = sorted(wanted)
        known = yield Statement(self._sql("declared"), (groups,))
        _refuse_strangers(wanted, ((row[0], row[1]) for row in known))
        if {row[0]: tuple(row[2:]) for row in known} == {name: _stored(each) for name, each in wanted.items()}:
            return
        described = [(each.app, clean(each.handler), to_json(each.options)) for each in _by_name(wanted)]
        yield Opening(self._sql("declare_groups"), (groups, *columns(described, 3), now))
        owners = yield Statement(self._sql("declare_owners"), (groups,))
        _refuse_strangers(wanted, ((row[0], row[1]) for row in owners))
        subscriptions = [
            (pattern, each.group, is_wild(pattern), expression(pattern))
            for each in _by_name(wanted)
            for pattern in sorted(set(each.patterns))
        ]
        yield Statement(self._sql("declare_subscriptions"), (groups, *columns(subscriptions, 4)))

    def beat(self, beat: Beat, now: Now) -> Script[Orders]:
        """See ``Upkeep.beat``."""
        runs = list(beat.runs.values())
        told = yield Statement(
            self._sql("beat"),
            (
                beat.worker,
                beat.app,
                clean(beat.host),
                beat.pid,
                list(beat.groups),
                beat.in_hand,
                beat.bell,
                list(beat.runs),
                [each.handled for each in runs],
                [each.failed for each in runs],
                list(beat.tripped),
                now,
                *columns(map(_measured, with_totals(beat.measures)), 4),
                list(SPANS),
                slot_of(beat.worker),
                beat.start_id,
                beat.number,
                beat.draining,
            ),
        )
        return Orders(drain=told[0][0])

    def farewell(self, worker: str) -> Script[None]:
        """See ``Upkeep.farewell``."""
        yield Statement(self._sql("farewell"), ([worker],))

    def record(self, runs: Sequence[RunView]) -> Script[None]:
        """See ``Upkeep.record``."""
        if runs:
            yield Statement(self._sql("record"), columns(map(_recorded, runs), 15))

    def reroute(self, limit: int, now: Now) -> Script[int]:
        """See ``Upkeep.reroute``."""
        return _count((yield Statement(self._sql("reroute"), (limit, self._channel, now))))

    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        """See ``Upkeep.recount``."""
        ((gone, last),) = yield Statement(self._sql("joint_gone"), (beyond(after), limit))
        if not gone:
            return Recount(last=last)
        return Recount(_count((yield Statement(self._sql("joint_recount"), (gone, self._channel)))), last)

    def report(self, progress: Sequence[Progress], now: Now) -> Script[None]:
        """See ``Upkeep.report``."""
        latest = {each.claim: clean(each.text) for each in progress}
        told = sorted((*claim, text) for claim, text in latest.items())
        yield Statement(self._sql("report"), (*columns(told, 3), now))

    def prune(self, retention: Retention, limit: int, now: Now, topic: str | None = None) -> Script[Pruned]:
        """See ``Upkeep.prune``.

        Every statement is bounded (invariant 14). Each kind is a transaction by itself: they do not need each
        other, and locks are held for one of them only.
        """
        ages = Ages(retention, topic)
        messages = runs = 0
        if topic is None:
            messages = _count((yield Statement(self._sql("prune_messages"), (retention.repeats, limit, now))))
        for kind, statuses in STATUSES.items():
            runs += yield from self._prune_kind(kind, ages, limit - runs, now, list(statuses))
        dead = yield from self._prune_kind("dead", ages, limit, now)
        parked = yield from self._prune_kind("parked", ages, limit, now)
        if topic is not None:
            return Pruned(runs=runs, dead=dead, parked=parked)
        workers, audit, schedules = yield from self._prune_house(retention, limit, now)
        inbox = leases = cursors = 0
        if retention.inbox is not None:
            inbox = _count((yield Statement(self._sql("prune_inbox"), (retention.inbox, limit, now))))
        if retention.leases is not None:
            leases = _count((yield Statement(self._sql("prune_leases"), (retention.leases, limit, now))))
        if retention.cursors is not None:
            cursors = _count((yield Statement(self._sql("prune_cursors"), (retention.cursors, limit, now))))
        progress = _count((yield Statement(self._sql("prune_progress"), (limit,))))
        likenesses = _count((yield Statement(self._sql("likeness_prune"), (limit, LEAST, now))))
        yield from self._merge_measures(limit, now)
        measures = _count((yield Statement(self._sql("prune_measures"), (*_KEPT, limit, now))))
        told = (workers, audit, schedules, inbox, leases, progress, likenesses, cursors, measures)
        return Pruned(messages, runs, dead, parked, *told)

    def _merge_measures(self, limit: int, now: Now) -> Script[None]:
        """Nothing is lost by it, so that it does not count as pruned: a few batches, and the next janitor goes on."""
        for _ in range(_MERGES):
            if _count((yield Statement(self._sql("measure_merge"), (_KEPT[0], limit, now)))) < limit:
                return

    def _prune_kind(self, kind: Kind, ages: Ages, limit: int, now: Now, *of: list[str]) -> Script[int]:
        """What is of a topic: everything at once where all are kept alike, else topic by topic."""
        topics, prune = _BY_TOPIC[kind]
        meant = ages.known(kind)
        if meant is None:
            there = yield Statement(self._sql(topics), (*of, now))
            meant = ages.over(kind, ((row[0], row[1]) for row in there))
        removed = 0
        for topic, kept_for in meant:
            if removed < limit:
                rows = yield Statement(self._sql(prune), (*of, kept_for, limit - removed, now, topic))
                removed += _count(rows)
        return removed

    def _prune_house(self, retention: Retention, limit: int, now: Now) -> Script[tuple[int, int, int]]:
        """What is of no topic: workers, the audit, schedules, bells."""
        audit = schedules = 0
        silent = yield Statement(self._sql("prune_workers"), (retention.workers, limit, now))
        if silent:
            yield Statement(self._sql("farewell"), ([row[0] for row in silent],))
        if retention.audit is not None:
            audit = _count((yield Statement(self._sql("prune_audit"), (retention.audit, limit, now))))
        if retention.done is not None:
            schedules = _count((yield Statement(self._sql("prune_schedules"), (retention.done, limit, now))))
        yield Statement(self._sql("prune_bells"), (now,))
        yield Statement(self._sql("prune_spent"), (limit, now))
        return len(silent), audit, schedules


def _measured(measure: Measure) -> tuple[object, ...]:
    return measure.group, measure.what, measure.bin, measure.count


def _recorded(run: RunView) -> tuple[object, ...]:
    said = (None if text is None else clean(text) for text in (run.error, run.traceback, run.output))
    where = (run.message_id, run.group, run.topic, run.attempt, run.status, run.started_at, run.finished_at)
    return *where, run.node, run.kind, *said, run.source, run.schedule, run.scheduled_for


def _by_name(wanted: dict[str, Declaration]) -> Iterable[Declaration]:
    return (wanted[name] for name in sorted(wanted))


def _stored(each: Declaration) -> tuple[str, str, list[str]]:
    return clean(each.handler), to_json(each.options), sorted(set(each.patterns))


def _refuse_strangers(wanted: dict[str, Declaration], owners: Iterable[tuple[str, str]]) -> None:
    for name, app in owners:
        if wanted[name].app != app:
            raise Conflict(
                f"group {name!r} belongs to app {app!r}: choose another group=… "
                f"or run `mainspring groups retire {name}`"
            )


def _count(rows: Sequence[Row]) -> int:
    count: int = rows[0][0]
    return count
