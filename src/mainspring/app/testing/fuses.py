"""The breakers of a test's groups, by the hand-turned clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from mainspring.app.testing.values import Outcome
from mainspring.runtime.handler import Handler
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Recovered, Tripped
from mainspring.timing.breaker import Circuit
from mainspring.timing.clock import Clock


class Fuses:
    """Keeps a group that fails too often from running, as a worker does: for a while, then one at a time."""

    def __init__(self, clock: Clock, bus: Bus) -> None:
        self._clock = clock
        self._bus = bus
        self._circuits: dict[str, Circuit] = {}

    def add(self, handlers: Mapping[str, Handler]) -> None:
        """Begin with these groups, where they have a breaker."""
        for group, handler in handlers.items():
            self._circuits.pop(group, None)
            if handler.breaker is not None:
                self._circuits[group] = Circuit(handler.breaker)

    def room(self, group: str, most: int) -> int:
        """How many more of this group may run now, ``most`` at the most."""
        circuit = self._circuits.get(group)
        return most if circuit is None else circuit.allows(self._clock.monotonic(), most)

    def note(self, group: str, outcome: Outcome) -> None:
        """Count an attempt."""
        circuit = self._circuits.get(group)
        if circuit is None or outcome not in ("done", "failed", "dead"):
            return
        match circuit.record(self._clock.monotonic(), failed=outcome != "done"):
            case "open":
                self._bus.emit(Tripped(group, circuit.policy.failures, circuit.pause))
            case "closed":
                self._bus.emit(Recovered(group))

    def next(self) -> timedelta | None:
        """How long until a group may go on; None: none pauses."""
        now = self._clock.monotonic()
        ends = [each.until for each in self._circuits.values() if each.state == "open"]
        # Never nothing: seconds are rounded, and a clock that stands still would stand for ever.
        return max(timedelta(seconds=min(ends) - now), timedelta(microseconds=1)) if ends else None
