"""Deliveries as people see them, and how those that a filter means are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import assert_never
from uuid import UUID

from mainspring.model.browsing import Causes, CauseView, Chain, Filter, Link, Page, Sought, stands
from mainspring.model.holder import shown_or_none
from mainspring.model.message import Priority
from mainspring.model.views import DeliveryView, RunView
from mainspring.model.views import State as Stands
from mainspring.storage.memory.rows import DeadRow, DeliveryRow, MessageRow, ParkedRow
from mainspring.storage.memory.state import State

_LIVE = ("scheduled", "ready", "running", "lapsed")
_STANDING: tuple[Stands, ...] = ("lapsed", "running", "ready", "scheduled")
"""What is said of a message with several copies: the first of these that one of them is."""
Found = tuple[DeliveryView, MessageRow, str | None]
"""A delivery, its message, and what it died of."""


def browse(state: State, wanted: Filter) -> Page:
    """See ``Ledger.browse``."""
    if wanted.is_impossible:
        return Page()
    found: list[DeliveryView] = []
    scanned, weight, before = 0, 0, None
    for view, message, cause in _newest_first(state, wanted):
        weight += len(message.draft.payload) if wanted.text else 0
        if scanned and weight > wanted.weight:
            return Page(tuple(found), before, scanned)
        scanned, before = scanned + 1, view.seq
        if _matches(wanted, view, message, cause):
            if len(found) == wanted.limit:
                return Page(tuple(found), found[-1].seq, scanned)
            found.append(view)
        if scanned == wanted.scan:
            return Page(tuple(found), view.seq, scanned)
    return Page(tuple(found), None, scanned)


def _newest_first(state: State, wanted: Filter) -> Iterator[Found]:
    match wanted.state:
        case "done" | "cancelled":
            runs = (state.runs[id] for id in _below(state.runs, wanted))
            return (
                (ended_view(state, run), state.messages[run.message_id], None)
                for run in runs
                if run.status == wanted.state
            )
        case "dead":
            buried = (state.dead[seq] for seq in _below(state.dead, wanted))
            return ((dead_view(dead), dead.delivery.message, dead.fingerprint) for dead in buried)
        case "parked":
            unrouted = (state.parked[seq] for seq in _below(state.parked, wanted))
            return ((parked_view(parked), parked.message, None) for parked in unrouted)
        case "live" | "scheduled" | "ready" | "running" | "lapsed" | "retrying":
            now = state.now()
            rows = (state.deliveries[seq] for seq in _below(state.deliveries, wanted))
            return ((live_view(state, row, now), row.message, None) for row in rows)
        case _:
            assert_never(wanted.state)


def _below(seqs: Iterable[int], wanted: Filter) -> list[int]:
    # A revived delivery has its old seq, so the order of insertion will not do.
    return sorted((seq for seq in seqs if wanted.before is None or seq < wanted.before), reverse=True)


def _matches(wanted: Filter, view: DeliveryView, message: MessageRow, cause: str | None) -> bool:
    return (
        _stands(wanted.state, view)
        and (wanted.group is None or view.group == wanted.group)
        and (wanted.topic is None or view.topic == wanted.topic)
        and (wanted.key is None or view.key == wanted.key)
        and (wanted.error is None or wanted.error.lower() in (view.error or "").lower())
        and (wanted.since is None or view.published_at >= wanted.since)
        and (wanted.until is None or view.published_at < wanted.until)
        and (wanted.held_by is None or view.held_by == wanted.held_by)
        and (wanted.fingerprint is None or cause == wanted.fingerprint)
        and (not wanted.text or _contains(message.draft.payload, wanted.text))
    )


def _stands(sought: Sought, view: DeliveryView) -> bool:
    match sought:
        case "live":
            return view.state in _LIVE
        case "retrying":
            # What has an attempt behind it has failed: to snooze and to be handed back count none.
            return view.state in ("scheduled", "ready") and view.attempt > 0
        case _:
            return view.state == sought


def _contains(payload: bytes, text: str) -> bool:
    # Of bytes only the letters of ASCII have another case.
    return text.encode("utf-8", "backslashreplace").lower() in payload.lower()


def causes(state: State, group: str | None, cap: int, limit: int) -> Causes:
    """See ``Ledger.causes``. What is in memory is counted soon enough, however much it is."""
    buried: dict[tuple[str, str], list[DeadRow]] = {}
    for seq in sorted(state.dead, reverse=True):
        dead = state.dead[seq]
        name = dead.delivery.group
        if group is None or name == group:
            buried.setdefault((name, dead.fingerprint), []).append(dead)
    views = [
        CauseView(
            group=name,
            fingerprint=cause,
            kind=rows[0].kind,
            error=rows[0].error,
            count=min(len(rows), cap),
            first_at=min(row.buried_at for row in rows[:cap]),
            last_at=max(row.buried_at for row in rows[:cap]),
            more=len(rows) >= cap,
        )
        for (name, cause), rows in sorted(buried.items())
    ]
    views.sort(key=lambda view: (view.count, view.last_at), reverse=True)
    return Causes(tuple(views[:limit]), more=len(views) > limit)


def chain(state: State, message_id: UUID, limit: int) -> Chain:
    """See ``Ledger.chain``."""
    if message_id not in state.messages:
        return Chain()
    now = state.now()
    before = list(islice(_causes(state, message_id), limit + 1))
    after = list(islice(_caused(state, message_id), limit + 1))
    return Chain(
        tuple(_link(state, row, now) for row in reversed(before[:limit])),
        tuple(_link(state, row, now) for row in after[:limit]),
        more=len(before) > limit or len(after) > limit,
    )


def _causes(state: State, message_id: UUID) -> Iterator[MessageRow]:
    met = {message_id}
    cause = state.messages[message_id].draft.causation_id
    while cause is not None and cause not in met and cause in state.messages:
        met.add(cause)
        yield state.messages[cause]
        cause = state.messages[cause].draft.causation_id


def _caused(state: State, message_id: UUID) -> Iterator[MessageRow]:
    met, level = {message_id}, {message_id}
    while level:
        rows = [row for id, row in state.messages.items() if row.draft.causation_id in level and id not in met]
        rows.sort(key=lambda row: (row.published_at, row.draft.id))
        yield from rows
        level = {row.draft.id for row in rows}
        met |= level


def _link(state: State, message: MessageRow, now: datetime) -> Link:
    draft = message.draft
    return Link(
        draft.id, draft.topic, draft.key, draft.causation_id, message.published_at, _standing(state, draft.id, now)
    )


def _standing(state: State, message_id: UUID, now: datetime) -> Stands | None:
    if message_id in state.buried:
        return "dead"
    copies = {live_view(state, row, now).state for row in state.live.get(message_id, {}).values()}
    for each in _STANDING:
        if each in copies:
            return each
    if message_id in state.unrouted:
        return "parked"
    ends = {run.status for run in state.history.get(message_id, ())}
    return "cancelled" if "cancelled" in ends else "done" if "done" in ends else None


def live_view(state: State, row: DeliveryRow, now: datetime) -> DeliveryView:
    """What is scheduled, ready, running or lapsed at this time."""
    said = state.progress.of(row)
    return DeliveryView(
        seq=row.seq,
        message_id=row.message_id,
        group=row.group,
        topic=row.message.draft.topic,
        key=row.message.draft.key,
        state=stands(is_held=row.held_by is not None, is_due=row.due_at <= now),
        priority=row.priority,
        attempt=row.attempt,
        deaths=row.deaths,
        due_at=row.due_at,
        scheduled_for=row.scheduled_for,
        published_at=row.message.published_at,
        held_by=shown_or_none(row.held_by),
        cancel_asked=row.cancel_asked,
        progress=None if said is None else said.said,
        progress_at=None if said is None else said.at,
    )


def ended_view(state: State, run: RunView) -> DeliveryView:
    """What is done or cancelled, as a kept run tells of it."""
    message = state.messages[run.message_id]
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


def dead_view(dead: DeadRow) -> DeliveryView:
    """A dead letter."""
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


def parked_view(parked: ParkedRow) -> DeliveryView:
    """What no group has subscribed to yet."""
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
