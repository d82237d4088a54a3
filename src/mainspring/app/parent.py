"""The small parent of several worker processes: it spawns them, replaces those that die, and passes signals on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.runtime.interpreters import how_it_ended, interpreter
from mainspring.runtime.service import backoff

_logger = logging.getLogger("mainspring.parent")

MISTAKE = 2
"""The exit code of a child that was asked for what cannot be: another one would end the same way."""
STARTED = b"s"
"""What a child says on its line once it is under way: nothing was wrong with what it was told."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOP = signal.SIGTERM
"""What a child is told by, whatever the parent heard: it ends one that cannot listen yet. SIGINT would become an
exception in whatever Python is doing then, and is lost where exceptions are ignored."""
_SAME_SIGNAL = 0.1
"""Seconds within which a repeated signal is the same one."""
_HEALTHY = 60.0
"""Seconds after which a child that dies has not died young."""
_LONGEST = 30.0
"""Seconds between two tries, at the most."""
_TRIES = 5
"""How many children in a row may die before any has ever been under way."""
_AGAIN = 1.0
"""Seconds after which a child that was not under way is told again."""
_PATIENCE = 10.0
"""Seconds after the second signal until children that are still there are killed."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How it all ended."""

    well: bool
    reason: str | None = None
    """What there is to say about it; None where a child has said it already."""


class Parent:
    """Keeps ``count`` children running until it is told to stop. It opens no database and imports no application.

    A child is this interpreter with ``arguments`` and the number of a line between the two: there the child says that
    it is under way, and learns from the line's end that its parent is gone.
    """

    def __init__(self, arguments: Sequence[str], count: int) -> None:
        self._command = [*interpreter(), *arguments]
        self._count = count
        self._children: dict[Process, int] = {}
        self._under_way: set[int] = set()
        self._mistaken: set[int] = set()
        self._proven = asyncio.Event()
        self._stopping = asyncio.Event()
        self._told: list[signal.Signals] = []
        self._told_at = -_SAME_SIGNAL
        self._ended_badly: list[str] = []
        self._gave_up: Ending | None = None

    async def run(self) -> Ending:
        """Spawn the children, and return when all of them have ended for good."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._hear, number)
        # One goes ahead: what is wrong for it is wrong for all, and need be said only once.
        places = [asyncio.create_task(self._keep(0))]
        await _first(self._proven, self._stopping)
        places += [asyncio.create_task(self._keep(place)) for place in range(1, self._count)]
        await asyncio.gather(*places)
        if self._gave_up is not None:
            return self._gave_up
        if self._ended_badly:
            return Ending(well=False, reason=f"not every process ended well: {'; '.join(self._ended_badly)}")
        return Ending(well=True)

    async def _keep(self, place: int) -> None:
        """One child after another in this place, until told to stop."""
        loop = asyncio.get_running_loop()
        deaths = 0
        while not self._stopping.is_set():
            born = loop.time()
            code, said = await self._raise(place)
            if self._stopping.is_set():
                self._take_leave(place, code, said)
                return
            deaths = 1 if loop.time() - born >= _HEALTHY else deaths + 1
            self._consider_giving_up(place, code, said, deaths)
            if not self._stopping.is_set():
                pause = backoff(deaths, _LONGEST)
                _logger.warning("%s; another starts in %.1f s", said, pause)
                await _first(self._stopping, within=pause)

    async def _raise(self, place: int) -> tuple[int, str]:
        """A child's whole life: its exit code, and how it ended in words."""
        line, theirs = socket.socketpair()
        line.setblocking(False)  # noqa: FBT003
        self._under_way.discard(place)
        with line:
            with theirs:
                # In a group of its own: Ctrl-C in a terminal reaches the parent alone, and it decides.
                child = await asyncio.create_subprocess_exec(
                    *self._command, str(theirs.fileno()), stdin=DEVNULL, pass_fds=[theirs.fileno()], process_group=0
                )
            self._children[child] = place
            if self._told:
                _send(child, _STOP)  # it was on its way when the others were told
            listening = asyncio.create_task(self._listen(line, place))
            code = await child.wait()
            del self._children[child]
            listening.cancel()
            await asyncio.wait([listening])
        return code, f"process {child.pid} {how_it_ended(code)}"

    async def _listen(self, line: socket.socket, place: int) -> None:
        if await asyncio.get_running_loop().sock_recv(line, 1) == STARTED:
            self._under_way.add(place)
            self._mistaken.discard(place)
            self._proven.set()

    def _consider_giving_up(self, place: int, code: int, said: str, deaths: int) -> None:
        if code == MISTAKE and place not in self._under_way:
            self._mistaken.add(place)
        if not self._proven.is_set():
            if self._mistaken:
                self._give_up(None)
            elif deaths >= _TRIES:
                self._give_up(f"none of {deaths} processes got under way; the last one, {said}")
        elif len(self._mistaken) == self._count:
            # While one child works, a broken deployment costs the others a try now and then, and nobody their work.
            self._give_up("no process can start any more")

    def _give_up(self, reason: str | None) -> None:
        self._gave_up = Ending(well=False, reason=reason)
        self._stopping.set()

    def _take_leave(self, place: int, code: int, said: str) -> None:
        # Whoever is told before it is under way has nothing in hand, however it ends. Whoever is told again when it has
        # finished ends by the signal itself.
        if code == 0 or place not in self._under_way or (len(self._told) > 1 and -code == _STOP):
            return
        self._ended_badly.append(said)

    def _hear(self, number: signal.Signals) -> None:
        loop = asyncio.get_running_loop()
        # A supervisor that signals the process and then its group means it once.
        before, self._told_at = self._told_at, loop.time()
        if self._told_at - before < _SAME_SIGNAL:
            return
        _logger.info("%s: %s", number.name, "stopping at once" if self._told else "stopping all processes")
        self._told.append(number)
        self._stopping.set()
        for child in self._children:
            _send(child, _STOP)
        if len(self._told) > 1:
            loop.call_later(_PATIENCE, self._kill)
        else:
            loop.call_later(_AGAIN, self._remind)

    def _remind(self) -> None:
        """Tell those again that were not under way when they were told: they may not have been able to listen."""
        deaf = [child for child, place in self._children.items() if place not in self._under_way]
        for child in deaf:
            _send(child, _STOP)
        if deaf:
            asyncio.get_running_loop().call_later(_AGAIN, self._remind)

    def _kill(self) -> None:
        for child in self._children:
            _send(child, signal.SIGKILL)


def _send(child: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)


async def _first(*events: asyncio.Event, within: float | None = None) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
