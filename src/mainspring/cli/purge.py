"""``mainspring purge``: delete finished records older than their retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from mainspring.app.options import length
from mainspring.app.retaining import FOREVER, KINDS, write_age
from mainspring.cli.confirming import confirmed, progress
from mainspring.cli.dead import Yes
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.measures import SPANS
from mainspring.model.retention import Pruned, Retention

_KINDS = {
    "done": "successful runs",
    "failures": "failed runs",
    "dead": "dead letters",
    "parked": "parked messages",
    "audit": "the audit log",
    "inbox": "inbox messages",
}
_Kept = Annotated[str | None, Parameter(metavar="DURATION")]


async def purge(
    *,
    done: _Kept = None,
    failures: _Kept = None,
    dead: _Kept = None,
    parked: _Kept = None,
    audit: _Kept = None,
    inbox: _Kept = None,
    topic: str | None = None,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Permanently delete finished records older than their retention, in this namespace.

    Workers do the same periodically, by the retention of their app, which also applies to kinds not given here.

    Values given here apply to every topic. The deletion is recorded in the audit log.

    Parameters
    ----------
    done
        Keep successful, snoozed and cancelled runs for this long, such as 7d; `forever` keeps them.
    failures
        Keep failed runs for this long.
    dead
        Keep dead letters for this long.
    parked
        Keep messages that no group subscribes to for this long.
    audit
        Keep the audit log for this long.
    inbox
        Keep finished inbox messages for this long.
    topic
        Only runs, dead letters and parked messages of this topic or pattern of topics, such as 'orders.*'.
    """
    given = {"done": done, "failures": failures, "dead": dead, "parked": parked, "audit": audit, "inbox": inbox}
    chosen: dict[str, Any] = {name: _read(value, name) for name, value in given.items() if value is not None}
    app = target.find()
    retention = _with(app.options.retention, chosen)
    older = _older({name: getattr(retention, name) for name in _KINDS}) or "finished records"
    of = "" if topic is None else f" of the topic {topic}"
    apart = "".join(f"; of {pattern} {_older(ages, every=True)}" for pattern, ages in retention.topics.items())
    if not confirmed(f"Remove {older}{of}{apart}?", yes=yes):
        say("Nothing removed.")
        return 1
    async with app:
        with progress("Purge", None) as advance:
            removed = await app.prune(retention, topic=topic, by=operator(), progress=advance)
    if json:
        print_json({**{each.name: getattr(removed, each.name) for each in fields(Pruned)}, "total": removed.total})
        return 0
    print_table(
        (Column("removed", right=True), Column("what", elastic=True), Column("kept for")),
        [(f"{count:,}", what, age) for count, what, age in _counted(removed, retention)],
    )
    return 0


def _counted(removed: Pruned, kept: Retention) -> list[tuple[int, str, str]]:
    runs = f"{write_age(kept.done)}, failed ones {write_age(kept.failures)}"
    return [
        (removed.messages, "finished messages", write_age(kept.repeats)),
        (removed.runs, "runs", runs),
        (removed.dead, "dead letters", write_age(kept.dead)),
        (removed.parked, "parked messages", write_age(kept.parked)),
        (removed.workers, "stopped workers", write_age(kept.workers)),
        (removed.audit, "audit log entries", write_age(kept.audit)),
        (removed.schedules, "finished one-time schedules", write_age(kept.done)),
        (removed.inbox, "inbox messages", write_age(kept.inbox)),
        (removed.leases, "leases not held", write_age(kept.leases)),
        (removed.cursors, "cursors of removed shards", write_age(kept.cursors)),
        (removed.progress, "progress reports", "while they run"),
        (removed.likenesses, "unique keys", "1h, or their window"),
        (removed.measures, "delivery statistics", ", ".join(map(write_age, SPANS.values()))),
    ]


def _with(kept: Retention, chosen: Mapping[str, Any]) -> Retention:
    """Apply the given ages to every topic."""
    rest = {
        pattern: {kind: ages[kind] for kind in KINDS if kind in ages and kind not in chosen}
        for pattern, ages in kept.topics.items()
    }
    return replace(kept, **chosen, topics={pattern: ages for pattern, ages in rest.items() if ages})


def _older(ages: Mapping[Any, timedelta | None], *, every: bool = False) -> str:
    meant = [(_KINDS[name], age) for name, age in ages.items() if every or age is not None]
    return ", ".join(f"{what} after {write_age(age)}" if age is not None else f"{what} never" for what, age in meant)


def _read(value: str, option: str) -> timedelta | None:
    return None if value == FOREVER else length(value, option)
