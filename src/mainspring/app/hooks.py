"""``app.on(…)``: being told what became of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from mainspring.app.options import choice
from mainspring.model.errors import BadOption
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import EVENTS

EventName = Literal["completed", "failed", "dead", "snoozed", "cancelled", "tripped", "recovered", "mismatched"]
F = TypeVar("F", bound=Callable[[Any], Any])


def kind_of(event: str) -> type[Any]:
    """The event of this name; raises BadOption, naming the one that was meant."""
    return EVENTS[choice(event, EVENTS, "event")]


def subscribe(bus: Bus, event: str, hook: F) -> F:
    """Tell the hook of every event of this name."""
    kind = kind_of(event)
    if not callable(hook):
        raise BadOption(f"app.on({event!r}) goes above a function, not {hook!r}")
    bus.subscribe(kind, hook)
    return hook
