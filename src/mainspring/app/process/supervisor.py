"""The parent of several worker processes: it spawns them, replaces those that die, and forwards signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.runtime.processes import how_it_ended, interpreter
from mainspring.runtime.service import backoff

_logger = logging.getLogger("mainspring.parent")

MISTAKE = 2
"""The exit code of a child with invalid arguments: a new one would end the same way."""
STARTED = b"s"
"""A child sends it on its line once it has started: its arguments are valid."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOP = signal.SIGTERM
"""Sent to children for any signal to the parent: it also ends one without a handler yet. SIGINT would raise an
exception in whatever Python is doing then, and is lost if that is ignored."""
_SAME_SIGNAL = 0.1
"""Seconds within which a repeated signal is the same one."""
_HEALTHY = 60.0
"""Seconds after which a death is no early one."""
_LONGEST = 30.0
"""Seconds between two attempts, at most."""
_TRIES = 5
"""How many children in a row may die before any has ever started."""
_AGAIN = 1.0
"""Seconds after which an unstarted child is signalled again."""
_PATIENCE = 10.0
"""Seconds after the second signal until remaining children are killed."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The run's result."""

    well: bool
    reason: str | None = None
    """The error text; None if a child has logged it already."""


class Supervisor:
    """The parent of ``count`` children until it is stopped. It opens no database and imports no application.

    A child is this interpreter with ``arguments`` and the number of a socket between the two: there the child reports
    that it has started, and the socket's end means that its parent is gone.
    """

    def __init__(self, arguments: Sequence[str], count: int) -> None:
        self._command = [*interpreter(), *arguments]
        self._count = count
        self._children: dict[Process, int] = {}
        self._under_way: set[int] = set()
        self._mistaken: set[int] = set()
        self._proven = asyncio.Event()
        self._stopping = asyncio.Event()
        self._signals: list[signal.Signals] = []
        self._signalled_at = -_SAME_SIGNAL
        self._ended_badly: list[str] = []
        self._gave_up: Ending | None = None

    async def run(self) -> Ending:
        """Spawn the children, and return when all have ended for good."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        # One starts first: its errors are those of all, and are logged only once.
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
        """Run one child after another in this place, until stopped."""
        loop = asyncio.get_running_loop()
        deaths = 0
        while not self._stopping.is_set():
            started = loop.time()
            code, ending = await self._run_child(place)
            if self._stopping.is_set():
                self._record_end(place, code, ending)
                return
            deaths = 1 if loop.time() - started >= _HEALTHY else deaths + 1
            self._consider_giving_up(place, code, ending, deaths)
            if not self._stopping.is_set():
                pause = backoff(deaths, _LONGEST)
                _logger.warning("%s; another starts in %.1f s", ending, pause)
                await _first(self._stopping, within=pause)

    async def _run_child(self, place: int) -> tuple[int, str]:
        """Run a child to its end; return its exit code and a description."""
        line, theirs = socket.socketpair()
        line.setblocking(False)  # noqa: FBT003
        self._under_way.discard(place)
        with line:
            with theirs:
                # In its own group: Ctrl-C in a terminal reaches only the parent, which decides.
                child = await asyncio.create_subprocess_exec(
                    *self._command, str(theirs.fileno()), stdin=DEVNULL, pass_fds=[theirs.fileno()], process_group=0
                )
            self._children[child] = place
            if self._signals:
                _send(child, _STOP)  # it was starting when the others were signalled
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

    def _consider_giving_up(self, place: int, code: int, ending: str, deaths: int) -> None:
        if code == MISTAKE and place not in self._under_way:
            self._mistaken.add(place)
        if not self._proven.is_set():
            if self._mistaken:
                self._give_up(None)
            elif deaths >= _TRIES:
                self._give_up(f"none of {deaths} processes started; the last one, {ending}")
        elif len(self._mistaken) == self._count:
            # While one child works, a broken deployment only costs the others an attempt each, and loses no work.
            self._give_up("no process can start any more")

    def _give_up(self, reason: str | None) -> None:
        self._gave_up = Ending(well=False, reason=reason)
        self._stopping.set()

    def _record_end(self, place: int, code: int, ending: str) -> None:
        # A child signalled before it has started holds no work, however it ends. One that is signalled again after it
        # has finished ends by the signal.
        if code == 0 or place not in self._under_way or (len(self._signals) > 1 and -code == _STOP):
            return
        self._ended_badly.append(ending)

    def _on_signal(self, number: signal.Signals) -> None:
        loop = asyncio.get_running_loop()
        # Signals to the process and then to its group count once.
        before, self._signalled_at = self._signalled_at, loop.time()
        if self._signalled_at - before < _SAME_SIGNAL:
            return
        _logger.info("%s: %s", number.name, "stopping at once" if self._signals else "stopping all processes")
        self._signals.append(number)
        self._stopping.set()
        for child in self._children:
            _send(child, _STOP)
        if len(self._signals) > 1:
            loop.call_later(_PATIENCE, self._kill)
        else:
            loop.call_later(_AGAIN, self._remind)

    def _remind(self) -> None:
        """Signal children again that had not started: they may have had no handler yet."""
        unstarted = [child for child, place in self._children.items() if place not in self._under_way]
        for child in unstarted:
            _send(child, _STOP)
        if unstarted:
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
