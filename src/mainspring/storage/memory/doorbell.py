"""The doorbell in memory: publishers and listeners share the process, so every ring is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from mainspring.storage.contract import BellMode
from mainspring.storage.memory.listening import Listener
from mainspring.storage.memory.state import State


class MemoryDoorbell:
    """``Doorbell`` over shared rows.

    Whoever publishes tells every listener directly, armed or not, on the listener's own loop. The mode is
    *watch*, never *notify*: there is no connection that could be lost, so nothing has to be proven alive.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: list[Listener] = []

    @property
    def mode(self) -> BellMode:
        """Always *watch*: nothing is sent, everything is seen."""
        return "watch"

    def listen(self, rung: Callable[[str], None]) -> None:
        """See ``Doorbell.listen``."""
        listener = Listener(rung, asyncio.get_running_loop())
        with self._state.lock:
            self._own.append(listener)
            self._state.listeners.append(listener)

    async def arm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.arm``. Nothing to do: telling costs too little to be asked for."""

    async def disarm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.disarm``. Nothing to do."""

    async def ring(self) -> None:
        """See ``Doorbell.ring``."""
        with self._state.lock:
            self._state.ring([""])

    async def rouse(self) -> None:
        """See ``Doorbell.rouse``. No transaction commits late here, but limits may have kept something waiting."""
        state = self._state
        with state.lock:
            now = state.now()
            state.ring(group for group, line in state.lines.items() if line.has_due(now))

    def hang_up(self) -> None:
        """Call nobody any more who listened here."""
        with self._state.lock:
            for listener in self._own:
                self._state.listeners.remove(listener)
            self._own.clear()
