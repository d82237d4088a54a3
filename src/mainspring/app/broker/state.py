"""The routes and intakes of a database: what workers report of their connections, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from mainspring.model.views import BrokerLink, Counts, GroupView, Roster, Tally, WorkerView

Direction = Literal["out", "in"]
Condition = Literal["connected", "down", "idle", "unserved"]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A route or an intake, as the code registers it."""

    name: str
    """The group of the route, or the source of the intake."""
    direction: Direction
    kind: str
    """As in "rabbitmq"."""
    url: str
    """The address of the broker, without a password."""
    topics: tuple[str, ...]
    """What a route sends; what an intake stores, if that is known before it is read."""
    group: str
    """The group whose backlog or dead letters are those of this route or intake."""


@dataclass(frozen=True, slots=True)
class BrokerState(BrokerView):
    """A route or an intake with what its live workers last reported, and what waits for it."""

    workers: int = 0
    """The live workers that have it."""
    connected: int = 0
    """How many of these are connected."""
    error: str | None = None
    """Why one of them cannot connect: the one that has been without a connection for the longest."""
    down_since: datetime | None = None
    """Since when that one could not connect."""
    lag: int | None = None
    """How many messages wait in the broker for an intake; None if that is unknown, and for a route."""
    ready: int = 0
    """How many deliveries of its group are due: for a route those to be sent, counted up to a limit."""
    oldest_ready_at: datetime | None = None
    """Since when the oldest of these has been due."""
    dead: int = 0
    """Its dead letters: what a broker has rejected for good, or could not be stored as it was received."""
    paused_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """What its live workers have counted since they started, by event."""
    waiting: int = 0
    """What a route has still to send: due, on its way, and put off while the broker is away, each up to the limit."""

    @property
    def condition(self) -> Condition:
        """Whether it is connected; *idle* connects with the next message."""
        if not self.workers:
            return "unserved"
        return "down" if self.error is not None else "connected" if self.connected else "idle"


def states(code: Iterable[BrokerView], roster: Roster, tally: Tally) -> list[BrokerState]:
    """Return those that are declared, and those of the code that are not yet, by name."""
    declared = {each.name: each for each in roster.groups}
    views = {each.group: each for each in code}
    views.update((each.name, view) for each in declared.values() if (view := view_of(each)) is not None)
    counts = {each.group: each for each in tally.groups}
    alive = roster.alive()
    return [
        _state(each, declared.get(each.group), counts.get(each.group, Counts(each.group)), alive)
        for each in sorted(views.values(), key=lambda each: (each.direction == "in", each.name))
    ]


def shown_route(kind: str, url: str, format: str) -> dict[str, str]:
    """Return the options of a route's declaration by which ``view_of`` knows it."""
    return {"to": url, "broker": kind, "format": format}


def shown_intake(kind: str, url: str, source: str, topics: Sequence[str]) -> dict[str, str]:
    """Return the options of an intake's declaration by which ``view_of`` knows it."""
    return {"from": url, "broker": kind, "source": source, "stores": ", ".join(topics) or "by type"}


def view_of(group: GroupView) -> BrokerView | None:
    """Return the route or intake that a declared group is; None for a consumer."""
    options = group.options
    direction: Direction = "out" if "to" in options else "in"
    url = options.get("to") or options.get("from")
    if url is None:
        return None
    kind = options.get("broker") or url.partition(":")[0]
    if direction == "out":
        return BrokerView(group.name, direction, kind, url, group.patterns, group.name)
    stores = options.get("stores", "by type")
    topics = () if stores == "by type" else tuple(stores.split(", "))
    return BrokerView(options.get("source", group.name), direction, kind, url, topics, group.name)


def _state(view: BrokerView, group: GroupView | None, counts: Counts, alive: Sequence[WorkerView]) -> BrokerState:
    app = None if group is None else group.app
    own = [each for each in alive if view.group in each.groups and app in (None, each.app)]
    links = [(each, link) for each in own for link in each.links if _is_of(link, view)]
    down = [
        (each.beat_at - timedelta(seconds=link.down_for), link) for each, link in links if link.down_for is not None
    ]
    since, worst = min(down, key=lambda each: each[0], default=(None, None))
    total: Counter[str] = Counter()
    for _, link in links:
        total.update(link.counts)
    return BrokerState(
        view.name,
        view.direction,
        view.kind,
        view.url,
        view.topics,
        view.group,
        len(own),
        sum(link.connected for _, link in links),
        None if worst is None else worst.error or "it cannot be reached",
        since,
        max((link.lag for _, link in links if link.lag is not None), default=None),
        counts.ready,
        counts.oldest_ready_at,
        counts.dead,
        None if group is None else group.paused_at,
        dict(total),
        counts.ready + counts.running + counts.lapsed + (0 if worst is None else counts.scheduled),
    )


def _is_of(link: BrokerLink, view: BrokerView) -> bool:
    return (link.name, link.direction) == (view.name, view.direction)
