"""What the demo's own code observed, to compare with the library's records."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal

Kind = Literal["placed", "undone", "handled", "retry", "paid", "expired", "report", "dead"]
_LINES = 100


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``group`` is empty for actions of customers."""

    at: float
    kind: Kind
    group: str
    text: str


class Journal:
    """Counts and recent events. Written by handlers, threads and customers, read by the view."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[Event] = deque(maxlen=_LINES)
        self._undone: set[int] = set()
        self._reached: set[int] = set()
        self.counts: Counter[Kind] = Counter()
        self.handled: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()

    def note(self, kind: Kind, group: str, text: str, order: int | None = None) -> None:
        """Record an event, and the order it concerns."""
        with self._lock:
            self.counts[kind] += 1
            if kind in ("handled", "expired", "report"):
                self.handled[group] += 1
            elif kind == "retry":
                self.retried[group] += 1
            if order is not None:
                (self._undone if kind == "undone" else self._reached).add(order)
            self._recent.append(Event(time.time(), kind, group, text))

    def recent(self, count: int) -> list[Event]:
        """Return the last events, newest first."""
        with self._lock:
            return list(self._recent)[: -count - 1 : -1]

    @property
    def ghosts(self) -> int:
        """The number of rolled-back orders that reached a handler. It must be 0."""
        with self._lock:
            return len(self._undone & self._reached)
