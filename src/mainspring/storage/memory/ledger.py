"""The ledger in memory: everything there is to read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Literal
from uuid import UUID

from mainspring.model.join import Follower, JoinView
from mainspring.model.message import Draft, Priority
from mainspring.model.views import (
    AuditView,
    Counts,
    DeliveryView,
    Filter,
    MessageView,
    Roster,
    RunView,
    Tally,
)
from mainspring.model.views import State as Stands
from mainspring.storage.memory.rows import DeadRow, DeliveryRow, JointRow, Line, ParkedRow, due
from mainspring.storage.memory.state import State

_LIVE = ("scheduled", "ready", "running")


class MemoryLedger:
    """``Ledger`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def tally(self, cap: int = 100_000) -> Tally:
        """See ``Ledger.tally``."""
        state = self._state
        with state.lock:
            now = state.now()
            dead: dict[str, int] = {}
            for row in state.dead.values():
                dead[row.delivery.group] = dead.get(row.delivery.group, 0) + 1
            names = sorted({*state.groups, *state.lines, *dead})
            groups = tuple(self._counts(name, dead.get(name, 0), cap, now) for name in names)
            return Tally(now, groups, parked=min(len(state.parked), cap), expired_parked=state.expired_parked)

    def _counts(self, group: str, dead: int, cap: int, now: datetime) -> Counts:
        line = self._state.lines.get(group, Line())
        ready = sum(due(places, now) for places in line.unheld)
        scheduled = sum(map(len, line.unheld)) - ready
        lapsed = due(line.held, now)
        done = [tally[group] for tally in self._state.tallies.values() if group in tally]
        return Counts(
            group=group,
            scheduled=min(scheduled, cap),
            ready=min(ready, cap),
            running=min(len(line.held) - lapsed, cap),
            lapsed=min(lapsed, cap),
            dead=min(dead, cap),
            oldest_ready_at=min((places[0][0] for places in line.unheld if due(places, now)), default=None),
            handled=sum(handled for handled, _ in done),
            failed=sum(failed for _, failed in done),
        )

    async def browse(self, filter: Filter) -> list[DeliveryView]:
        """See ``Ledger.browse``."""
        with self._state.lock:
            now = self._state.now()
            found = (view for view in self._newest_first(filter.state, now) if _shown(view, filter))
            return list(islice(found, filter.limit))

    def _newest_first(self, wanted: Stands | Literal["live"], now: datetime) -> Iterable[DeliveryView]:
        state = self._state
        match wanted:
            case "done" | "cancelled":
                for run in reversed(state.runs.values()):
                    if run.status == wanted:
                        yield self._ended(run)
            case "dead":
                for seq in sorted(state.dead, reverse=True):
                    yield _dead(state.dead[seq])
            case "parked":
                for seq in sorted(state.parked, reverse=True):
                    yield _parked(state.parked[seq])
            case "live" | "scheduled" | "ready" | "running":
                # A revived delivery has its old seq, so the order of insertion will not do.
                for seq in sorted(state.deliveries, reverse=True):
                    yield self._live(state.deliveries[seq], now)

    def _live(self, row: DeliveryRow, now: datetime) -> DeliveryView:
        said = self._state.progress.of(row)
        stands: Stands = "running" if row.held_by is not None else "ready" if row.due_at <= now else "scheduled"
        return DeliveryView(
            seq=row.seq,
            message_id=row.message_id,
            group=row.group,
            topic=row.message.draft.topic,
            key=row.message.draft.key,
            state=stands,
            priority=row.priority,
            attempt=row.attempt,
            deaths=row.deaths,
            due_at=row.due_at,
            scheduled_for=row.scheduled_for,
            published_at=row.message.published_at,
            held_by=row.held_by,
            lapsed=row.held_by is not None and row.due_at <= now,
            cancel_asked=row.cancel_asked,
            progress=None if said is None else said.said,
            progress_at=None if said is None else said.at,
        )

    def _ended(self, run: RunView) -> DeliveryView:
        message = self._state.messages[run.message_id]
        return DeliveryView(
            seq=run.id,
            message_id=run.message_id,
            group=run.group,
            topic=run.topic,
            key=message.draft.key,
            state="done" if run.status == "done" else "cancelled",
            priority=Priority.NORMAL,  # a run does not remember its delivery's
            attempt=run.attempt,
            deaths=0,
            due_at=message.published_at,
            scheduled_for=message.published_at,
            published_at=message.published_at,
            error=run.error,
        )

    async def find(self, message_id: UUID) -> MessageView | None:
        """See ``Ledger.find``."""
        state = self._state
        with state.lock:
            now = state.now()
            message = state.messages.get(message_id)
            if message is None:
                return None
            deliveries = [self._live(row, now) for row in state.live.get(message_id, {}).values()]
            deliveries += [_dead(row) for row in state.buried.get(message_id, {}).values()]
            deliveries.sort(key=lambda view: view.seq)
            if message_id in state.unrouted:
                deliveries.append(_parked(state.unrouted[message_id]))
            draft = message.draft
            return MessageView(
                id=message_id,
                topic=draft.topic,
                key=draft.key,
                payload=draft.payload,
                content_type=draft.content_type,
                headers={} if draft.headers is None else draft.headers,
                correlation_id=draft.correlation_id,
                causation_id=draft.causation_id,
                published_at=message.published_at,
                expires_at=message.expires_at,
                deliveries=tuple(deliveries),
                runs=tuple(state.history.get(message_id, ())),
            )

    async def runs(
        self, group: str | None, before: int | None, limit: int, schedule: str | None = None
    ) -> list[RunView]:
        """See ``Ledger.runs``."""
        with self._state.lock:
            newest_first = (
                run
                for run in reversed(self._state.runs.values())
                if (group is None or run.group == group)
                and (before is None or run.id < before)
                and (schedule is None or run.schedule == schedule)
            )
            return list(islice(newest_first, limit))

    async def latest(self, schedules: Collection[str]) -> dict[str, RunView]:
        """See ``Ledger.latest``."""
        with self._state.lock:
            # By id, so that of several the latest stays.
            return {
                run.schedule: run
                for run in self._state.runs.values()
                if run.schedule is not None and run.schedule in schedules
            }

    async def joins(self, after: UUID | None, limit: int) -> list[JoinView]:
        """See ``Ledger.joins``."""
        with self._state.lock:
            ids = sorted(id for id in self._state.joints if after is None or id > after)[:limit]
            return [self._join(self._state.joints[id]) for id in ids]

    async def find_join(self, id: UUID) -> JoinView | None:
        """See ``Ledger.find_join``."""
        with self._state.lock:
            row = self._state.joints.get(id)
            return None if row is None else self._join(row)

    async def members(self, join_id: UUID, after: int | None, limit: int) -> list[DeliveryView]:
        """See ``Ledger.members``."""
        with self._state.lock:
            return self._members(join_id, after, limit)

    def _members(self, join_id: UUID, after: int | None, limit: int) -> list[DeliveryView]:
        now = self._state.now()
        rows = self._state.deliveries.values()
        found = (row for row in rows if row.join_id == join_id and (after is None or row.seq > after))
        return [self._live(row, now) for row in sorted(found, key=lambda row: row.seq)[:limit]]

    def _join(self, row: JointRow) -> JoinView:
        join, ended = row.join, row.done + row.failed
        first = join.then or join.failed
        return JoinView(
            id=join.id,
            opened_at=row.opened_at,
            members=row.pending + ended,
            ended=ended,
            failed=row.failed,
            then=_follower(join.then),
            otherwise=_follower(join.failed),
            key=None if first is None else first.key,
            correlation_id=None if first is None else first.correlation_id,
            oldest=next(iter(self._members(join.id, None, 1)), None),
        )

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        """See ``Ledger.pending``."""
        with self._state.lock:
            lines = {group: self._state.lines.get(group, Line()) for group in limits}
            return {group: min(sum(map(len, line.unheld)), limits[group]) for group, line in lines.items()}

    async def roster(self) -> Roster:
        """See ``Ledger.roster``."""
        state = self._state
        with state.lock:
            groups = tuple(state.groups[name] for name in sorted(state.groups))
            workers = tuple(state.workers[name] for name in sorted(state.workers))
            return Roster(state.now(), groups, workers)

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """See ``Ledger.audit``."""
        with self._state.lock:
            newest_first = (each for each in reversed(self._state.audit) if before is None or each.id < before)
            return list(islice(newest_first, limit))


def _shown(view: DeliveryView, wanted: Filter) -> bool:
    return (
        (view.state in _LIVE if wanted.state == "live" else view.state == wanted.state)
        and (wanted.group is None or view.group == wanted.group)
        and (wanted.topic is None or view.topic == wanted.topic)
        and (wanted.key is None or view.key == wanted.key)
        and (wanted.error is None or wanted.error.lower() in (view.error or "").lower())
        and (wanted.before is None or view.seq < wanted.before)
    )


def _follower(draft: Draft | None) -> Follower | None:
    return None if draft is None else Follower(draft.topic, draft.group or "")


def _dead(dead: DeadRow) -> DeliveryView:
    row = dead.delivery
    return DeliveryView(
        seq=row.seq,
        message_id=row.message_id,
        group=row.group,
        topic=row.message.draft.topic,
        key=row.message.draft.key,
        state="dead",
        priority=row.priority,
        attempt=row.attempt,
        deaths=row.deaths,
        due_at=row.scheduled_for,
        scheduled_for=row.scheduled_for,
        published_at=row.message.published_at,
        buried_at=dead.buried_at,
        error=dead.error,
    )


def _parked(parked: ParkedRow) -> DeliveryView:
    draft = parked.message.draft
    return DeliveryView(
        seq=parked.seq,
        message_id=draft.id,
        group="",
        topic=draft.topic,
        key=draft.key,
        state="parked",
        priority=int(draft.priority),
        attempt=0,
        deaths=0,
        due_at=parked.due_at,
        scheduled_for=parked.scheduled_for,
        published_at=parked.message.published_at,
    )
