"""The controls in memory: what an operator may do, audited."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import islice
from uuid import UUID

from mainspring.model.browsing import GOES_ON, By, DeadSelection, Picked, spelled
from mainspring.model.message import Cancelled, Draft
from mainspring.model.schedule import NEVER
from mainspring.storage.memory.publishing import store, withdraw
from mainspring.storage.memory.rows import DeadRow, DeliveryRow
from mainspring.storage.memory.state import State


class MemoryControls:
    """``Controls`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """See ``Controls.pause``."""
        state = self._state
        with state.lock:
            if group not in state.groups:
                return False
            now = state.now()
            state.groups[group] = replace(state.groups[group], paused_at=now, paused_by=by, pause_reason=reason)
            state.note(by, "pause", group, reason, now)
            return True

    async def resume(self, group: str, by: str) -> bool:
        """See ``Controls.resume``."""
        state = self._state
        with state.lock:
            if group not in state.groups:
                return False
            state.groups[group] = replace(state.groups[group], paused_at=None, paused_by=None, pause_reason=None)
            state.note(by, "resume", group, "", state.now())
            # Whether anything is due is found out by whoever is woken: a bell may be spurious.
            state.ring([group])
            return True

    async def revive(self, which: DeadSelection, by: By, limit: int) -> int:
        """See ``Controls.revive``."""
        state = self._state
        with state.lock:
            now = state.now()
            chosen = self._choose(which, limit)
            for dead in chosen:
                state.unbury(dead)
                # epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does.
                fresh = replace(
                    dead.delivery,
                    due_at=now,
                    epoch=dead.delivery.epoch + 1,
                    attempt=0,
                    deaths=0,
                    suspect=False,
                    held_by=None,
                    cancel_asked=False,
                    join_id=None,  # it has ended once, and that was counted
                )
                state.add(fresh)
            if chosen:
                self._batch(by, "revive", which.described, len(chosen), f"{len(chosen)} revived", now)
                state.ring({dead.delivery.group for dead in chosen})
            return len(chosen)

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """See ``Controls.replace``."""
        state = self._state
        with state.lock:
            now = state.now()
            dead = state.buried.get(message_id, {}).get(group)
            if dead is None:
                return False
            state.unbury(dead)
            store(state, [draft], now)
            state.enlist([message_id], now)
            state.note(by, "replace", str(message_id), f"replaced in {group} by {draft.id}", now)
            return True

    async def discard(self, which: DeadSelection, by: By, limit: int) -> int:
        """See ``Controls.discard``."""
        state = self._state
        with state.lock:
            now = state.now()
            chosen = self._choose(which, limit)
            for dead in chosen:
                state.unbury(dead)
            state.enlist([dead.delivery.message_id for dead in chosen], now)
            if chosen:
                self._batch(by, "discard", which.described, len(chosen), f"{len(chosen)} discarded", now)
            return len(chosen)

    async def hasten(self, picked: Picked, by: By) -> int:
        """See ``Controls.hasten``."""
        state = self._state
        with state.lock:
            now = state.now()
            rows = [row for row in self._copies(picked) if row.held_by is None and now < row.due_at < NEVER]
            for row in rows:
                state.move(row, now, None)
            if rows:
                self._batch(by, "hasten", spelled(picked), len(rows), f"{len(rows)} due now", now)
                state.ring({row.group for row in rows})
            return len(rows)

    async def withdraw(self, picked: Picked, by: By, reason: str) -> Cancelled:
        """See ``Controls.withdraw``."""
        state = self._state
        with state.lock:
            now = state.now()
            nobodys = dict.fromkeys(message_id for message_id, group in picked if not group)
            parked = [state.unrouted[message_id] for message_id in nobodys if message_id in state.unrouted]
            copies = self._copies(picked)
            answer = withdraw(state, copies, parked, reason, now)
            if copies or parked:
                told = f"{answer.cancelled} cancelled, {answer.asked} asked to stop: {reason}"
                self._batch(by, "cancel", spelled(picked), answer.cancelled + answer.asked, told, now)
            return answer

    def _copies(self, picked: Picked) -> list[DeliveryRow]:
        found = (self._state.live.get(message_id, {}).get(group) for message_id, group in dict.fromkeys(picked))
        return [row for row in found if row is not None]

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """See ``Controls.retire``."""
        state = self._state
        with state.lock:
            if group not in state.groups:
                return None
            now = state.now()
            # First of all nothing more may come in, or the last delivery would never have gone.
            state.groups[group] = replace(state.groups[group], patterns=())
            dropped = sorted(seq for seq, row in state.deliveries.items() if row.group == group)[:limit]
            rows = [state.deliveries[seq] for seq in dropped]
            for row in rows:
                state.record(row, "cancelled", now, error="group retired")
                state.drop(row)
            state.enlist([row.message_id for row in rows], now)
            if not dropped:
                del state.groups[group]
                state.limits.forget(group, None)
                for tally in state.tallies.values():
                    tally.pop(group, None)
            state.note(by, "retire", group, f"{len(dropped)} dropped", now)
            return len(dropped)

    async def drain(self, worker: str, by: str, reason: str) -> bool:
        """See ``Controls.drain``."""
        state = self._state
        with state.lock:
            known = state.workers.get(worker)
            if known is None:
                return False
            now = state.now()
            state.workers[worker] = replace(known, draining_at=known.draining_at or now, drained_by=by)
            state.note(by, "drain", worker, reason, now)
            return True

    async def undrain(self, worker: str, by: str) -> bool:
        """See ``Controls.undrain``."""
        state = self._state
        with state.lock:
            known = state.workers.get(worker)
            if known is None:
                return False
            state.workers[worker] = replace(known, draining_at=None, drained_by=None)
            state.note(by, "undrain", worker, "", state.now())
            return True

    async def noted(self, action: str, subject: str, by: str, detail: str) -> int:
        """See ``Controls.noted``."""
        with self._state.lock:
            return self._state.note(by, action, subject, detail, self._state.now())

    async def amend(self, line: int, standing: str) -> None:
        """See ``Controls.amend``."""
        with self._state.lock:
            self._state.amend(line, lambda detail: detail.replace(GOES_ON, standing))

    def _batch(self, by: By, action: str, subject: str, count: int, detail: str, now: datetime) -> None:
        """A line of its own, or one that is there brought up to date."""
        if isinstance(by, str):
            self._state.note(by, action, subject, detail, now)
        else:
            self._state.amend(by.id, lambda _: by.after(count).told)

    def _choose(self, which: DeadSelection, limit: int) -> list[DeadRow]:
        state = self._state
        if which.picked is None:
            seqs = sorted(state.dead)
        else:
            named = (state.buried.get(message_id, {}).get(group) for message_id, group in set(which.picked))
            seqs = sorted(dead.delivery.seq for dead in named if dead is not None)
        return list(islice((state.dead[seq] for seq in seqs if _chosen(state.dead[seq], which)), limit))


def _chosen(dead: DeadRow, which: DeadSelection) -> bool:
    row = dead.delivery
    return (
        (which.message_id is None or row.message_id == which.message_id)
        and (which.group is None or row.group == which.group)
        and (which.topic is None or row.message.draft.topic == which.topic)
        and (which.error is None or which.error.lower() in dead.error.lower())
        and (which.fingerprint is None or dead.fingerprint == which.fingerprint)
    )
