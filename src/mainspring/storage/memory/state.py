"""What every door to one memory storage shares: rows, clock, bells, and the one lock over them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import TypeVar
from uuid import UUID

from mainspring.model.holder import shown_or_none
from mainspring.model.inbox import InboxKey, InboxView
from mainspring.model.measures import What
from mainspring.model.schedule import Freeze, Schedule
from mainspring.model.views import AuditView, GroupView, RunStatus, RunView, WorkerView
from mainspring.storage.memory.fanout_rows import FanoutTable
from mainspring.storage.memory.lease_rows import LeaseTable
from mainspring.storage.memory.limits import LimitTable
from mainspring.storage.memory.listening import Listener
from mainspring.storage.memory.progress import ProgressTable
from mainspring.storage.memory.rows import (
    DeadRow,
    DeclarationRow,
    DeliveryRow,
    EndedRow,
    JointRow,
    LikenessRow,
    Line,
    MessageRow,
    ParkedRow,
)
from mainspring.storage.routing import matches
from mainspring.timing.clock import Clock

T = TypeVar("T")
Outer = TypeVar("Outer")
Inner = TypeVar("Inner")


class State:
    """The tables. Whoever reads or writes them holds ``lock``; the methods here expect it to be held."""

    def __init__(self, clock: Clock) -> None:
        self.lock: AbstractContextManager[bool] = threading.RLock()
        self.clock = clock
        self.hand_set: datetime | None = None
        self.version = 0
        self.messages: dict[UUID, MessageRow] = {}
        self.keyed: dict[tuple[str, str], set[UUID]] = {}
        self.deliveries: dict[int, DeliveryRow] = {}
        self.live: dict[UUID, dict[str, DeliveryRow]] = {}
        self.lines: dict[str, Line] = {}
        self.scheduled: dict[str, dict[int, DeliveryRow]] = {}
        self.dead: dict[int, DeadRow] = {}
        self.buried: dict[UUID, dict[str, DeadRow]] = {}
        self.parked: dict[int, ParkedRow] = {}
        self.unrouted: dict[UUID, ParkedRow] = {}
        self.runs: dict[int, RunView] = {}
        self.history: dict[UUID, list[RunView]] = {}
        self.progress: ProgressTable = ProgressTable()
        self.ended: list[EndedRow] = []
        self.groups: dict[str, GroupView] = {}
        self.versions: dict[str, int] = {}
        self.declared: dict[tuple[str, str], DeclarationRow] = {}
        self.workers: dict[str, WorkerView] = {}
        self.beats: dict[str, tuple[str, int]] = {}
        self.tallies: dict[str, dict[str, tuple[int, int]]] = {}
        self.joints: dict[UUID, JointRow] = {}
        self.schedules: dict[str, Schedule] = {}
        self.freezes: dict[str, Freeze] = {}
        self.inbox: dict[InboxKey, InboxView] = {}
        self.leases: LeaseTable = LeaseTable()
        self.limits: LimitTable = LimitTable()
        self.fanouts: FanoutTable = FanoutTable()
        self.measures: Counter[tuple[int, datetime, str, What, int]] = Counter()
        self.likenesses: dict[bytes, LikenessRow] = {}
        self.audit: list[AuditView] = []
        self.expired_parked = 0
        self.listeners: list[Listener] = []
        self.seqs: Iterator[int] = count(1)
        self.parked_seqs: Iterator[int] = count(1)
        self._run_ids, self._audit_ids = count(1), count(1)

    def now(self) -> datetime:
        """The storage's clock: the hand-set instant where there is one."""
        return self.clock.now() if self.hand_set is None else self.hand_set

    def ring(self, groups: Iterable[str]) -> None:
        """Tell every listener of these groups."""
        named = tuple(groups)
        for listener in tuple(self.listeners):
            listener.ring(named)

    # Deliveries and dead letters

    def add(self, row: DeliveryRow) -> None:
        """Put a delivery into its group's line."""
        self.deliveries[row.seq] = row
        self.live.setdefault(row.message_id, {})[row.group] = row
        self.lines.setdefault(row.group, Line()).add(row)
        self.limits.add(row)
        if (schedule := row.message.draft.schedule) is not None:
            self.scheduled.setdefault(schedule, {})[row.seq] = row

    def remove(self, row: DeliveryRow) -> None:
        """Take a delivery away."""
        del self.deliveries[row.seq]
        _forget(self.live, row.message_id, row.group)
        self.limits.remove(row)
        line = self.lines[row.group]
        line.remove(row)
        if not line.held and not any(line.unheld):
            del self.lines[row.group]
        if (schedule := row.message.draft.schedule) is not None:
            _forget(self.scheduled, schedule, row.seq)

    def end(self, row: DeliveryRow, *, done: bool = False) -> None:
        """Take a delivery away for good: its join counts it."""
        self.remove(row)
        joint = None if row.join_id is None else self.joints.get(row.join_id)
        if joint is not None:
            joint.pending -= 1
            joint.done += done
            joint.failed += not done

    def drop(self, row: DeliveryRow) -> None:
        """End a delivery without a verdict."""
        self.end(row)
        if row.join_id is not None:
            # No worker has ended it, so none would look by itself before its next poll.
            self.ring([""])

    def move(self, row: DeliveryRow, due_at: datetime, held_by: str | None) -> None:
        """Give a delivery another place in its line."""
        line = self.lines[row.group]
        line.remove(row)
        row.due_at, row.held_by = due_at, held_by
        line.add(row)

    def bury(self, dead: DeadRow) -> None:
        """Keep a delivery that was removed with the dead letters."""
        row = dead.delivery
        self.dead[row.seq] = dead
        self.buried.setdefault(row.message_id, {})[row.group] = dead

    def unbury(self, dead: DeadRow) -> None:
        """Take a dead letter away."""
        row = dead.delivery
        del self.dead[row.seq]
        _forget(self.buried, row.message_id, row.group)

    def unpark(self, parked: ParkedRow) -> None:
        """Take a parked message away."""
        del self.parked[parked.seq]
        del self.unrouted[parked.message.draft.id]

    # Messages and what refers to them

    def subscribers(self, topic: str) -> list[str]:
        """The groups with a subscription that matches, each once."""
        return sorted(
            group.name for group in self.groups.values() if any(matches(each, topic) for each in group.patterns)
        )

    def keep_message(self, row: MessageRow) -> None:
        """Store a message."""
        draft = row.draft
        self.messages[draft.id] = row
        if draft.key is not None:
            self.keyed.setdefault((draft.topic, draft.key), set()).add(draft.id)

    def forget_message(self, message_id: UUID) -> None:
        """Remove a message: from now on its id is unknown."""
        draft = self.messages.pop(message_id).draft
        if draft.key is not None:
            same = self.keyed[draft.topic, draft.key]
            same.discard(message_id)
            if not same:
                del self.keyed[draft.topic, draft.key]

    def refers_to(self, message_id: UUID) -> bool:
        """Whether a delivery, a dead letter, a parked row or a run still needs the message."""
        return any(message_id in rows for rows in (self.live, self.buried, self.unrouted, self.history))

    def enlist(self, message_ids: Iterable[UUID], at: datetime, *, second: bool = False) -> None:
        """Note that a reference to each of these messages has ended: the janitor looks at them later."""
        listed = list(dict.fromkeys(message_ids))
        if listed:
            self.ended.append(EndedRow(at, second, listed))

    # Runs, tallies, audit

    def record(
        self,
        row: DeliveryRow,
        status: RunStatus,
        now: datetime,
        *,
        took: timedelta = timedelta(),
        kind: str | None = None,
        error: str | None = None,
        traceback: str | None = None,
        output: str | None = None,
    ) -> None:
        """Keep one attempt at a delivery; the node is whoever holds it."""
        run = RunView(
            id=0,
            message_id=row.message_id,
            group=row.group,
            topic=row.message.draft.topic,
            attempt=row.attempt,
            status=status,
            started_at=now - took,
            finished_at=now,
            node=shown_or_none(row.held_by),
            kind=kind,
            error=error,
            traceback=traceback,
            output=output,
            source=row.message.source(row.scheduled_for),
            schedule=row.message.draft.schedule,
            scheduled_for=row.scheduled_for,
        )
        self.keep_run(run)

    def record_unrouted(self, parked: ParkedRow, error: str, now: datetime) -> None:
        """Keep the end of a parked message, which was no group's."""
        draft = parked.message.draft
        run = RunView(
            id=0,
            message_id=draft.id,
            group="",
            topic=draft.topic,
            attempt=0,
            status="cancelled",
            started_at=now,
            finished_at=now,
            node=None,
            error=error,
            source=parked.message.source(parked.scheduled_for),
            schedule=draft.schedule,
            scheduled_for=parked.scheduled_for,
        )
        self.keep_run(run)

    def keep_run(self, run: RunView) -> None:
        """Keep a run under an id of its own."""
        run = replace(run, id=next(self._run_ids))
        self.runs[run.id] = run
        self.history.setdefault(run.message_id, []).append(run)

    def forget_run(self, run: RunView) -> None:
        """Remove a kept run."""
        del self.runs[run.id]
        kept = self.history[run.message_id]
        kept.remove(run)
        if not kept:
            del self.history[run.message_id]

    def count(self, worker: str, group: str, handled: int, failed: int) -> None:
        """Add to what a worker has done for a group."""
        tally = self.tallies.setdefault(worker, {})
        was_handled, was_failed = tally.get(group, (0, 0))
        tally[group] = (was_handled + handled, was_failed + failed)

    def fold(self, worker: str) -> None:
        """Take a worker off the roster; what it has done stays counted, under nobody's name."""
        self.workers.pop(worker, None)
        self.beats.pop(worker, None)
        for group, (handled, failed) in self.tallies.pop(worker, {}).items():
            self.count("", group, handled, failed)

    def note(self, by: str, action: str, subject: str, detail: str, now: datetime) -> int:
        """Write down what an operator did: a line of this id."""
        line = next(self._audit_ids)
        self.audit.append(AuditView(line, now, by, action, subject, detail))
        return line

    def amend(self, line: int, how: Callable[[str], str]) -> None:
        """Let a line say something else, unless it has been pruned meanwhile."""
        self.audit = [replace(each, detail=how(each.detail)) if each.id == line else each for each in self.audit]


def _forget(rows: dict[Outer, dict[Inner, T]], outer: Outer, inner: Inner) -> None:
    there = rows[outer]
    del there[inner]
    if not there:
        del rows[outer]
