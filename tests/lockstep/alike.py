"""Answers without what may differ between storages: the numbers a database gives out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mainspring.model.message import Delivery
from mainspring.model.views import AuditView, DeliveryView, MessageView, Roster, RunView

Alike = Any
"""Equal on both storages, or they are out of step."""


def delivery(one: Delivery) -> Alike:
    """A delivery without its seq."""
    return one._replace(id=0)


def listing(views: Sequence[DeliveryView]) -> Alike:
    """A list without seqs. Its order is compared within a group; the order of groups is nobody's promise."""
    seqs = [view.seq for view in views]
    assert seqs == sorted(seqs, reverse=True), "newest first"
    plain = [_view(view) for view in views]
    if views and views[0].state in ("done", "cancelled"):
        # One settle writes its runs in an order of its own.
        return sorted(plain, key=repr)
    return sorted(plain, key=lambda view: view.group)


def message(found: MessageView | None) -> Alike:
    """A message, its copies by group, and its runs by group, oldest first."""
    if found is None:
        return None
    ids = [run.id for run in found.runs]
    assert ids == sorted(ids), "oldest first"
    return replace(
        found,
        headers=dict(found.headers),
        deliveries=tuple(sorted((_view(view) for view in found.deliveries), key=lambda view: view.group)),
        runs=tuple(sorted((_run(run) for run in found.runs), key=lambda run: run.group)),
        done=tuple(sorted((_view(view) for view in found.done), key=repr)),
    )


def roster(seen: Roster) -> Alike:
    """The groups and workers by name, patterns as a set."""
    groups = {each.name: replace(each, patterns=tuple(sorted(each.patterns))) for each in seen.groups}
    return seen.now, groups, {each.name: each for each in seen.workers}


def audit(notes: Sequence[AuditView]) -> Alike:
    """Who did what and when; the words are each storage's own."""
    return [(note.at, note.by, note.action) for note in notes]


def runs(kept: Sequence[RunView]) -> Alike:
    """The runs of a schedule. One settle writes its runs in an order of its own."""
    ids = [run.id for run in kept]
    assert ids == sorted(ids, reverse=True), "newest first"
    return sorted((_run(run) for run in kept), key=repr)


def failures(kept: Sequence[RunView]) -> Alike:
    """Runs by their end; of those that ended together any may be the first."""
    ends = [run.finished_at for run in kept]
    assert ends == sorted(ends, reverse=True), "the last to end first"
    return sorted((_run(run) for run in kept), key=repr)


def _view(view: DeliveryView) -> DeliveryView:
    match view.state:
        case "done" | "cancelled":  # a run does not remember these of its delivery
            return replace(view, seq=0, priority=0, deaths=0)
        case "dead":
            return replace(view, seq=0, due_at=view.scheduled_for)
        case _:
            return replace(view, seq=0)


def _run(run: RunView) -> RunView:
    return replace(run, id=0)
