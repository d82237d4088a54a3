"""``app.on(…)``: being told what became of messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

from mainspring.app.names import Namespace
from mainspring.app.options import choice
from mainspring.model.errors import BadOption
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import EVENTS

EventName = Literal["completed", "failed", "dead", "snoozed", "cancelled", "tripped", "recovered", "mismatched"]
F = TypeVar("F", bound=Callable[[Any], Any])


def kind_of(event: str) -> type[Any]:
    """The event of this name; raises BadOption, naming the one that was meant."""
    return EVENTS[choice(event, EVENTS, "event")]


def subscribe(bus: Bus, names: Namespace, event: str, hook: F) -> F:
    """Tell the hook of every event of this name, with the names of groups and topics as the user wrote them."""
    kind = kind_of(event)
    if not callable(hook):
        raise BadOption(f"app.on({event!r}) goes above a function, not {hook!r}")
    bus.subscribe(kind, _named(hook, names) if names.prefix else hook)
    return hook


def _named(hook: Callable[[Any], Any], names: Namespace) -> Callable[[Any], Any]:
    @functools.wraps(hook)
    def tell(event: Any) -> Any:
        shown = {each.name: names.shown(getattr(event, each.name)) for each in fields(event) if each.name in _NAMED}
        return hook(replace(event, **shown))

    return tell


_NAMED = ("group", "topic")
