"""What the demo saw with its own eyes, to be held against what the library says."""

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
    """One thing that happened; ``group`` is empty for what customers do."""

    at: float
    kind: Kind
    group: str
    text: str


class Journal:
    """Counts and recent events. Written by handlers, threads and customers alike, read by the view."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[Event] = deque(maxlen=_LINES)
        self._undone: set[int] = set()
        self._reached: set[int] = set()
        self.counts: Counter[Kind] = Counter()
        self.handled: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()

    def note(self, kind: Kind, group: str, text: str, order: int | None = None) -> None:
        """Write down that something happened, to which order."""
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
        """The last events, newest first."""
        with self._lock:
            return list(self._recent)[: -count - 1 : -1]

    @property
    def ghosts(self) -> int:
        """Rolled-back orders that reached a handler all the same. There must never be one."""
        with self._lock:
            return len(self._undone & self._reached)
