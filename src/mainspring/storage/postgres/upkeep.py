"""The upkeep in SQL: declarations, beats, re-routing and pruning, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mainspring.model.errors import Conflict
from mainspring.model.views import Beat, Declaration, Pruned, Retention, RunView
from mainspring.storage.postgres.columns import clean, columns, to_json
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.routing import expression, is_wild
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql import Now

_SUCCESSES = ["done", "snoozed", "cancelled"]
_FAILURES = ["failed", "dead"]


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

    def beat(self, beat: Beat, now: Now) -> Script[None]:
        """See ``Upkeep.beat``."""
        runs = list(beat.runs.values())
        yield Statement(
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
            ),
        )

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

    def prune(self, retention: Retention, limit: int, now: Now, topic: str | None = None) -> Script[Pruned]:
        """See ``Upkeep.prune``.

        Every statement is bounded (invariant 14). Each kind is a transaction by itself: they do not need each
        other, and locks are held for one of them only.
        """
        messages = 0
        if topic is None:
            messages = _count((yield Statement(self._sql("prune_messages"), (retention.repeats, limit, now))))
        runs = dead = parked = 0
        for statuses, kept_for in ((_SUCCESSES, retention.done), (_FAILURES, retention.failures)):
            if kept_for is not None and runs < limit:
                rows = yield Statement(self._sql("prune_runs"), (statuses, kept_for, limit - runs, now, topic))
                runs += _count(rows)
        if retention.dead is not None:
            dead = _count((yield Statement(self._sql("prune_dead"), (retention.dead, limit, now, topic))))
        if retention.parked is not None:
            parked = _count((yield Statement(self._sql("prune_parked"), (retention.parked, limit, now, topic))))
        if topic is not None:
            return Pruned(runs=runs, dead=dead, parked=parked)
        workers, audit, schedules = yield from self._prune_house(retention, limit, now)
        return Pruned(messages, runs, dead, parked, workers, audit, schedules)

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
        return len(silent), audit, schedules


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
