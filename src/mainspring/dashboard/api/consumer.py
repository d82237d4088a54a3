"""One consumer: its measures over time, its failures, and its options."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.api.consumers import Consumer, declared
from mainspring.dashboard.api.dead import Cause, cause
from mainspring.dashboard.api.measuring import MeasuresShown, measures
from mainspring.dashboard.api.overview import CAP
from mainspring.dashboard.api.shapes import Run, run
from mainspring.dashboard.reading import Name
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.measures import Window
from mainspring.model.views import RunView

_CAUSES, _FAILURES = 5, 8
_LOOKED_AT = 50
"""Its failures are searched among this many of its kept runs, and as many failures of all consumers."""


class ConsumerQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The consumer, and the window of its measures."""

    group: Name
    window: Window = "15m"


class ConsumerDetails(Struct, frozen=True):
    """A consumer, its ended deliveries by time, and its failures. Its states are counted up to ``cap``."""

    now: datetime
    window: Window
    cap: int
    consumer: Consumer
    measures: MeasuresShown
    causes: list[Cause]
    """The causes of its dead letters, most frequent first."""
    more_causes: bool
    failures: list[Run]
    """Its latest failed attempts, newest first."""


async def consumer(visit: Visit, asked: ConsumerQuery) -> ConsumerDetails:
    """Return one consumer with its measures and failures."""
    found = await declared(visit, asked.group)
    if not found:
        raise Problem(404, "not_found", f"no consumer {asked.group!r} is declared")
    causes = await visit.app.dead.causes(group=asked.group, limit=_CAUSES)
    return ConsumerDetails(
        datetime.now(UTC),
        asked.window,
        CAP,
        found[0],
        measures(await visit.house.pulse.measures(asked.window, asked.group)),
        [cause(each, visit) for each in causes.rows],
        causes.more,
        [run(each, visit.redaction) for each in await _failures(visit, asked.group)],
    )


async def _failures(visit: Visit, group: str) -> list[RunView]:
    """Return its latest failures; if it also keeps successes, search the failures of all consumers too."""
    kept = await visit.app.messages.runs(group, limit=_LOOKED_AT)
    failed = await visit.app.messages.failures(limit=_LOOKED_AT)
    own = {each.id: each for each in (*kept, *failed) if each.group == group and each.status in ("failed", "dead")}
    return sorted(own.values(), key=lambda each: (each.finished_at, each.id), reverse=True)[:_FAILURES]


ROUTES = (
    viewing("/api/consumer", consumer, "One consumer, its measures and failures", ConsumerDetails, ConsumerQuery),
)
