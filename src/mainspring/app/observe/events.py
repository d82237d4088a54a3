"""``app.on(…)``: hooks for outcomes of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mainspring.app.options import nearest
from mainspring.model.errors import BadOption
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import EVENTS

E = TypeVar("E")
R = TypeVar("R")
Hook = Callable[[E], R]
"""Takes one event; plain or async. Its result is ignored."""


def check_event(event: object) -> None:
    """Raise BadOption unless this is the class of an event, and name the class that was meant."""
    if event in EVENTS:
        return
    names = {each.__name__.lower(): each.__name__ for each in EVENTS}
    meant = nearest(event, names) if isinstance(event, str) else None
    if meant is not None:
        raise BadOption(f"app.on({event!r}): write app.on(events.{names[meant]}), with `from mainspring import events`")
    raise BadOption(f"app.on({event!r}): name a class of mainspring.events, one of {', '.join(names.values())}")


def subscribe(bus: Bus, event: type[E], hook: Hook[E, R]) -> Hook[E, R]:
    """Call the hook with every event of this class."""
    check_event(event)
    if not callable(hook):
        raise BadOption(f"app.on(events.{event.__name__}) goes above a function, not {hook!r}")
    bus.subscribe(event, hook)
    return hook
