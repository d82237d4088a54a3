"""The ledger in memory: everything there is to read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import islice
from uuid import UUID

from mainspring.model.browsing import CAUSES_SCAN, Causes, Chain, Filter, Page
from mainspring.model.join import Follower, JoinView
from mainspring.model.message import Draft
from mainspring.model.views import AuditView, Counts, DeliveryView, MessageView, Roster, RunView, Tally
from mainspring.storage.memory.browsing import (
    browse,
    causes,
    chain,
    dead_view,
    live_view,
    parked_view,
)
from mainspring.storage.memory.rows import JointRow, Line, due
from mainspring.storage.memory.state import State


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

    async def browse(self, filter: Filter) -> Page:
        """See ``Ledger.browse``."""
        with self._state.lock:
            return browse(self._state, filter)

    async def causes(
        self,
        group: str | None,
        cap: int,
        limit: int,
        scan: int = CAUSES_SCAN,  # noqa: ARG002
    ) -> Causes:
        """See ``Ledger.causes``."""
        with self._state.lock:
            return causes(self._state, group, cap, limit)

    async def chain(self, message_id: UUID, limit: int) -> Chain:
        """See ``Ledger.chain``."""
        with self._state.lock:
            return chain(self._state, message_id, limit)

    async def find(self, message_id: UUID) -> MessageView | None:
        """See ``Ledger.find``."""
        state = self._state
        with state.lock:
            now = state.now()
            message = state.messages.get(message_id)
            if message is None:
                return None
            deliveries = [live_view(state, row, now) for row in state.live.get(message_id, {}).values()]
            deliveries += [dead_view(row) for row in state.buried.get(message_id, {}).values()]
            deliveries.sort(key=lambda view: view.seq)
            if message_id in state.unrouted:
                deliveries.append(parked_view(state.unrouted[message_id]))
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

    async def failures(self, limit: int) -> list[RunView]:
        """See ``Ledger.failures``."""
        with self._state.lock:
            failed = [run for run in self._state.runs.values() if run.status in ("failed", "dead")]
            return sorted(failed, key=lambda run: (run.finished_at, run.id), reverse=True)[:limit]

    async def recent(self, schedules: Collection[str], limit: int) -> dict[str, tuple[RunView, ...]]:
        """See ``Ledger.recent``."""
        found: dict[str, list[RunView]] = {}
        with self._state.lock:
            for run in reversed(self._state.runs.values()):
                if run.schedule is not None and run.schedule in schedules:
                    theirs = found.setdefault(run.schedule, [])
                    if len(theirs) < limit:
                        theirs.append(run)
        return {name: tuple(theirs) for name, theirs in found.items()}

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
        return [live_view(self._state, row, now) for row in sorted(found, key=lambda row: row.seq)[:limit]]

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


def _follower(draft: Draft | None) -> Follower | None:
    return None if draft is None else Follower(draft.topic, draft.group or "")
