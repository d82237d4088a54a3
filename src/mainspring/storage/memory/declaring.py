"""Declarations in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.model.standing import SEEN_EVERY, SILENT_AFTER, Standing, Subscription
from mainspring.model.views import Declaration, GroupView
from mainspring.storage.declaring import Known, Wishes
from mainspring.storage.memory.rows import DeclarationRow
from mainspring.storage.memory.state import State


def declare(state: State, wishes: Wishes) -> Standing:
    """See ``Upkeep.declare``; the lock is held."""
    if not wishes.groups:
        return Standing()
    now = state.now()
    known = _known(state, wishes)
    wishes.refuse_strangers(known)
    described = [
        each
        for each in wishes.ordered
        if wishes.describes(each.group, known.get(each.group), _described(each.handler, each.options))
    ]
    changes = described or wishes.missing(known) or _unwanted(state, wishes, known, now)
    if changes or not _seen_lately(state, wishes, now):
        _see(state, wishes, now)
    _describe(state, described, now)
    known = _known(state, wishes)
    added, removed = wishes.missing(known), _unwanted(state, wishes, known, now)
    for name, group in known.items():
        patterns = {*group.patterns, *(pattern for of, pattern in added if of == name)}
        patterns.difference_update(pattern for of, pattern in removed if of == name)
        state.groups[name] = replace(state.groups[name], patterns=tuple(sorted(patterns)))
    return wishes.standing(known, added, removed)


def _described(handler: str, options: Mapping[str, str]) -> tuple[str, str]:
    return handler, repr(sorted(options.items()))


def _known(state: State, wishes: Wishes) -> dict[str, Known]:
    rows = ((group, state.groups.get(group)) for group in wishes.groups)
    return {
        group: Known(row.app, _described(row.handler, row.options), state.versions.get(group, 0), row.patterns)
        for group, row in rows
        if row is not None
    }


def _seen_lately(state: State, wishes: Wishes, now: datetime) -> bool:
    row = state.declared.get((wishes.worker, wishes.start_id))
    return row is not None and row.subscriptions == tuple(wishes.subscriptions) and row.seen_at > now - SEEN_EVERY


def _see(state: State, wishes: Wishes, now: datetime) -> None:
    by = (wishes.worker, wishes.start_id)
    row = state.declared.setdefault(by, DeclarationRow(now, now, ()))
    since = now if row.seen_at < now - SILENT_AFTER / 5 else row.since
    state.declared[by] = DeclarationRow(since, now, tuple(wishes.subscriptions))


def _describe(state: State, described: Sequence[Declaration], now: datetime) -> None:
    for each in described:
        known = state.groups.get(each.group)
        fresh = known or GroupView(each.group, each.app, (), "", {}, now, served_at=None)
        state.groups[each.group] = replace(fresh, handler=each.handler, options=dict(each.options))
        state.versions[each.group] = each.version


def _unwanted(state: State, wishes: Wishes, known: Mapping[str, Known], now: datetime) -> list[Subscription]:
    kept = _kept(state, wishes, now)
    return [each for each in wishes.surplus(known) if each not in kept]


def _kept(state: State, wishes: Wishes, now: datetime) -> set[Subscription]:
    own = (wishes.worker, wishes.start_id)
    cutoff = now - SILENT_AFTER
    # Only a process that was there all the time can tell that another was silent: after an outage all were.
    judge = state.declared.get(own) if wishes.start_id else None
    judges = judge is not None and judge.since <= cutoff
    counted = (
        row.subscriptions
        for by, row in state.declared.items()
        if by != own and (not judges or not by[1] or row.seen_at >= cutoff)
    )
    return {each for subscriptions in counted for each in subscriptions}
