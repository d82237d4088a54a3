"""``mainspring purge``: remove what is over and older than it is to be kept."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from mainspring.app.config import FOREVER
from mainspring.app.options import length
from mainspring.cli.confirming import confirmed, progress
from mainspring.cli.dead import Yes
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.model.views import Pruned, Retention
from mainspring.timing.duration import spell

_KINDS = {
    "done": "runs that ended well",
    "failures": "failed runs",
    "dead": "dead letters",
    "parked": "parked messages",
    "audit": "the audit log",
}
_Kept = Annotated[str | None, Parameter(metavar="DURATION")]


async def purge(
    *,
    done: _Kept = None,
    failures: _Kept = None,
    dead: _Kept = None,
    parked: _Kept = None,
    audit: _Kept = None,
    topic: str | None = None,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Remove for good what is over and older than it is to be kept, in every namespace of the database.

    Workers do the same by themselves, by the retention of their app. What is not given here is kept as that says.

    Parameters
    ----------
    done
        Keep runs that succeeded, were snoozed or cancelled for this long, as in 7d; `forever` keeps them.
    failures
        Keep runs that failed for this long.
    dead
        Keep dead letters for this long.
    parked
        Keep messages that no group subscribes to for this long.
    audit
        Keep the audit log for this long.
    topic
        Only the runs, dead letters and parked messages of this topic.
    """
    given = {"done": done, "failures": failures, "dead": dead, "parked": parked, "audit": audit}
    chosen: dict[str, Any] = {name: _read(value, name) for name, value in given.items() if value is not None}
    app = target.find()
    retention = replace(app.options.retention, **chosen)
    ages = [(what, _age(getattr(retention, name))) for name, what in _KINDS.items()]
    older = ", ".join(f"{what} after {age}" for what, age in ages if age != FOREVER)
    of = "" if topic is None else f" of the topic {topic}"
    if not confirmed(f"Remove {older or 'what is over'}{of}?", yes=yes):
        say("Nothing was removed.")
        return 1
    async with app:
        with progress("Purge", None) as advance:
            removed = await app.prune(retention, topic=topic, progress=advance)
    if json:
        print_json({**{each.name: getattr(removed, each.name) for each in fields(Pruned)}, "total": removed.total})
        return 0
    print_table(
        (Column("removed", right=True), Column("what", elastic=True), Column("kept for")),
        [(f"{count:,}", what, age) for count, what, age in _counted(removed, retention)],
    )
    return 0


def _counted(removed: Pruned, kept: Retention) -> list[tuple[int, str, str]]:
    runs = f"{_age(kept.done)}, failed ones {_age(kept.failures)}"
    return [
        (removed.messages, "messages that are over", _age(kept.repeats)),
        (removed.runs, "runs", runs),
        (removed.dead, "dead letters", _age(kept.dead)),
        (removed.parked, "parked messages", _age(kept.parked)),
        (removed.workers, "workers that are gone", _age(kept.workers)),
        (removed.audit, "entries of the audit log", _age(kept.audit)),
        (removed.schedules, "schedules of one time that is over", _age(kept.done)),
    ]


def _age(kept: timedelta | None) -> str:
    return FOREVER if kept is None else spell(kept)


def _read(value: str, option: str) -> timedelta | None:
    return None if value == FOREVER else length(value, option)
