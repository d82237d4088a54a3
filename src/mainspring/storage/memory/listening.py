"""Who is told that work may be due, on whatever loop."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable


class Listener:
    """One ``rung`` callback and the loop it belongs to. What rings before it is called is said once."""

    def __init__(self, rung: Callable[[str], None], loop: AbstractEventLoop) -> None:
        self._rung = rung
        self._loop = loop
        self._groups: dict[str, None] = {}
        self._lock = threading.Lock()

    def ring(self, groups: Iterable[str]) -> None:
        """Have the callback called on its loop, from whatever thread."""
        with self._lock:
            waiting = bool(self._groups)
            self._groups.update(dict.fromkeys(groups))
            if waiting or not self._groups or self._loop.is_closed():
                return
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:  # closed just now: nobody is left to be told
                self._groups.clear()

    def _tell(self) -> None:
        with self._lock:
            groups = list(self._groups)
            self._groups.clear()
        for group in groups:
            self._rung(group)
