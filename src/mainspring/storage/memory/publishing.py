"""Storing messages in memory, routing them to their groups, and taking them back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from mainspring.model.message import Cancelled, Draft, Published, repeated
from mainspring.storage.memory.rows import DeliveryRow, MessageRow, ParkedRow
from mainspring.storage.memory.state import State


def store(state: State, drafts: Sequence[Draft], now: datetime) -> frozenset[UUID]:
    """Store and route what is new of the drafts, ring for what is due, and say which were new."""
    rung: set[str] = set()
    stored: set[UUID] = set()
    # Every instant is reckoned before anything is written: one that cannot be refuses the whole batch.
    timed = [(draft, _asked_for(draft, now), _expiry(draft, now)) for draft in drafts]
    for draft, asked, expires_at in timed:
        # The message row is the guard: it stays for as long as its id counts as a repetition.
        if draft.id in state.messages:
            continue
        stored.add(draft.id)
        due_at = max(asked, now)
        groups = state.subscribers(draft.topic) if draft.group is None else [draft.group]
        message = MessageRow(_frozen(draft), now, expires_at, copies=len(groups))
        state.keep_message(message)
        for group in groups:
            row = DeliveryRow(next(state.seqs), message, group, int(draft.priority), due_at, asked)
            row.join_id = draft.join_id
            state.add(row)
        if not groups:
            parked = ParkedRow(next(state.parked_seqs), message, due_at, asked, parked_at=now)
            state.parked[parked.seq] = state.unrouted[draft.id] = parked
        elif due_at <= now:
            rung.update(groups)
    state.ring(rung)
    return frozenset(stored)


def publish(state: State, drafts: Sequence[Draft], now: datetime) -> Published:
    """Store the drafts, and tell those apart whose ids are known as other messages."""
    stored = store(state, drafts, now)
    return Published(stored, conflicts(state, drafts, stored))


def conflicts(state: State, drafts: Sequence[Draft], stored: Collection[UUID]) -> dict[int, str]:
    """See ``Published.conflicts``."""
    known = ((place, draft, state.messages[draft.id].draft) for place, draft in repeated(drafts, stored))
    return {place: was.topic for place, draft, was in known if (was.topic, was.payload) != (draft.topic, draft.payload)}


def stop(state: State, message_ids: Iterable[UUID], reason: str, now: datetime) -> Cancelled:
    """Remove the copies of these messages that nobody holds, and ask the holders of the others to stop."""
    named = list(dict.fromkeys(message_ids))
    copies = [row for message_id in named for row in state.live.get(message_id, {}).values()]
    unrouted = [state.unrouted[message_id] for message_id in named if message_id in state.unrouted]
    return withdraw(state, copies, unrouted, reason, now)


def withdraw(
    state: State, copies: Iterable[DeliveryRow], unrouted: Iterable[ParkedRow], reason: str, now: datetime
) -> Cancelled:
    """Remove these copies, or ask their holders to stop; and what is nobody's yet."""
    ended: list[UUID] = []
    asked = 0
    for row in copies:
        if row.held_by is not None:
            row.cancel_asked = True
            asked += 1
            continue
        state.record(row, "cancelled", now, error=reason)
        state.drop(row)
        ended.append(row.message_id)
    for parked in unrouted:
        state.record_unrouted(parked, reason, now)
        state.unpark(parked)
        ended.append(parked.message.draft.id)
    state.enlist(ended, now)
    return Cancelled(cancelled=len(ended), asked=asked)


def _asked_for(draft: Draft, now: datetime) -> datetime:
    return now + draft.delay if draft.at is None else draft.at.astimezone(UTC)


def _expiry(draft: Draft, now: datetime) -> datetime | None:
    if draft.expires_at is not None:
        return draft.expires_at.astimezone(UTC)
    return None if draft.expires_in is None else now + draft.expires_in


def _frozen(draft: Draft) -> Draft:
    # The caller keeps its own mapping, and may change it after it has published.
    return draft if draft.headers is None else replace(draft, headers=dict(draft.headers))
