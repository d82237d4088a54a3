"""Processes for ``cpu=True`` handlers: spawned, reused, and killed when their result is no longer wanted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec

from mainspring.model.errors import ProcessDied
from mainspring.runtime import wire
from mainspring.runtime.handler import Handler, Program, Run
from mainspring.runtime.verdicts import Reported
from mainspring.telemetry.logs import JsonLines
from mainspring.telemetry.tracing import carried

STARTUP = 60.0
"""Seconds for a new process to import its handler. They do not count against the handler's timeout."""
_ENDING = 0.5
"""Seconds for an idle process to end by itself, running its exit handlers."""
_KILLING = 2.0
"""Seconds to wait for a killed process: longer only if the kernel itself is stuck with it."""
_CHECK_EVERY = 1.0
"""Seconds between checks of a busy process: its forked children may keep the channel open after its death."""

OnProgress = Callable[[str], None]
"""Called with the progress that a handler reports."""


class Process:
    """One process, with one request at a time. It leads a process group: what it starts is killed with it."""

    def __init__(self, program: Program) -> None:
        self.ready: bool = False
        self._channel, theirs = socket.socketpair()
        watched, self._lifeline = os.pipe()
        self._channel.setblocking(False)  # noqa: FBT003
        self._open = True
        self._checking: asyncio.TimerHandle | None = None
        given = (theirs.fileno(), watched)
        # The path comes first: without it the package might not be found.
        code = f"import sys; sys.path[:] = {sys.path!r}; from {program.entry} import main; main{given}"
        try:
            self._child = subprocess.Popen(  # noqa: S603 - the entry of this package
                [*interpreter(), "-c", code], stdin=subprocess.DEVNULL, pass_fds=given, process_group=0
            )
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
            os.close(watched)

    async def request(
        self, sent: wire.Setup | wire.Request | None = None, *, during: str = "", on_progress: OnProgress | None = None
    ) -> wire.Response:
        """Send a request and wait for the response; raises ProcessDied, with the cause, if none will come.

        ``on_progress`` is called with the progress that the handler reports before that.
        """
        loop = asyncio.get_running_loop()
        self._checking = loop.call_later(_CHECK_EVERY, self._check, loop)
        try:
            if sent is not None:
                await loop.sock_sendall(self._channel, wire.framed(sent))
            return await self._response(loop, on_progress)
        except (OSError, EOFError):
            # It is dying, which a signal does not change; but processes it has started may live.
            self.kill()
            await self.gone()
            raise ProcessDied(self._child.returncode, f"{_ended(self._child.returncode)}{during}") from None
        except msgspec.MsgspecError as error:
            raise ProcessDied(None, f"the process sent an invalid response, and was killed: {error}") from None
        finally:
            self._checking.cancel()

    def hang_up(self) -> None:
        """Let it end by itself, when it is idle."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Kill it and everything it has started."""
        if self._child.returncode is None:  # until it is waited for, its pid is not reused
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)

    async def gone(self, patience: float = _KILLING) -> bool:
        """Wait until it has ended. Returns False if it has not, within the given time."""
        until, pause = time.monotonic() + patience, 0.001
        while self._child.poll() is None:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)
        self.close()
        return True

    async def _response(self, loop: asyncio.AbstractEventLoop, on_progress: OnProgress | None) -> wire.Response:
        while True:
            header = await self._receive(loop, wire.HEADER)
            frame = wire.FRAMES.decode(await self._receive(loop, wire.length(header)))
            if not isinstance(frame, wire.Progress):
                return frame
            if on_progress is not None:
                on_progress(frame.text)

    async def _receive(self, loop: asyncio.AbstractEventLoop, count: int) -> bytes:
        body = bytearray()
        while len(body) < count:
            chunk = await loop.sock_recv(self._channel, count - len(body))
            if not chunk:
                raise EOFError
            body += chunk
        return bytes(body)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        # Checked without reaping: its group is killed under its pid, which must not be reused before.
        if os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            self._checking = loop.call_later(_CHECK_EVERY, self._check, loop)
        else:
            self.hang_up()  # ends the waiting in ``request``

    def close(self) -> None:
        """Close the channel and the lifeline."""
        if self._open:
            self._open = False
            self._channel.close()
            os.close(self._lifeline)


class Processes:
    """The processes of one consumer: as many as its executor uses at once, started on demand.

    One process runs one message at a time, so a message that kills its process affects no other (invariant 15). A
    process is killed when its run is cancelled.
    """

    def __init__(self, handler: Handler, program: Program, overrun: Callable[[Run], None]) -> None:
        self._handler = handler
        self._program = program
        self._overrun = overrun
        self._idle: list[Process] = []
        self._all: set[Process] = set()

    async def perform(self, run: Run) -> object:
        """Handle it in a process, within the limit. Raises ProcessDied, or Reported for what the handler raised."""
        while (response := await self._serve(self._take(), run)) is None:
            pass
        match response:
            case wire.Outcome():
                return wire.verdict(response)
            case wire.Failed(failure, kinds):
                raise Reported(failure, kinds)
            case wire.Ready():
                raise ProcessDied(None, "the process sent a response out of turn")

    def close(self) -> None:
        """Do nothing: every wait for a process can be cancelled."""

    async def ended(self) -> None:
        """End all processes; those that are busy, or do not end by themselves, are killed."""
        for process in self._all:
            if process in self._idle:
                process.hang_up()
            else:
                process.kill()
        self._idle.clear()
        await asyncio.gather(*(self._end(process) for process in list(self._all)))

    def _take(self) -> Process:
        if self._idle:
            return self._idle.pop()
        process = Process(self._program)
        self._all.add(process)
        return process

    async def _serve(self, process: Process, run: Run) -> wire.Response | None:
        """Return the response; None if the process had died while idle, which is charged to no message."""
        reused, begun, timer = process.ready, False, None
        timeout = self._handler.timeout_of(run.delivery)
        limit = None if timeout is None else timeout.total_seconds()
        try:
            if not reused:
                await self._prepare(process)
            if limit is not None:
                # Not earlier: starting a process and importing libraries is not the handler's time.
                timer = asyncio.get_running_loop().call_later(limit, self._overrun, run)
            await process.request(wire.Request(run.delivery, limit, carried()))
            begun = True
            response = await process.request(on_progress=run.report)
        except BaseException as error:
            process.kill()
            await self._forget(process)
            if reused and not begun and isinstance(error, ProcessDied):
                return None
            raise
        finally:
            if timer is not None:
                timer.cancel()
        self._idle.append(process)
        return response

    async def _prepare(self, process: Process) -> None:
        source = self._program.source
        root = logging.getLogger()
        written = next((each.formatter for each in root.handlers if isinstance(each.formatter, JsonLines)), None)
        setup = wire.Setup(
            self._program,
            [os.fsencode(each) for each in sys.argv],
            root.level if root.handlers else None,
            "text" if written is None else "json",
            None if written is None else written.worker,
        )
        try:
            async with asyncio.timeout(STARTUP):
                response = await process.request(setup, during=f" while it imported {source}")
        except TimeoutError:
            raise ProcessDied(
                None, f"the process was killed: it had not imported {source} after {STARTUP:g} s"
            ) from None
        if isinstance(response, wire.Failed):
            raise Reported(response.failure, response.kinds)
        process.ready = True

    async def _end(self, process: Process) -> None:
        if not await process.gone(_ENDING):
            process.kill()
        await self._forget(process)

    async def _forget(self, process: Process) -> None:
        if await process.gone():
            self._all.discard(process)


def _ended(code: int | None) -> str:
    if code is None:
        return "the process closed its channel, and cannot be killed"
    hint = ", as the system does when it runs out of memory" if code == -signal.SIGKILL else ""
    return f"the process {how_it_ended(code)}{hint}"


def interpreter() -> list[str]:
    """Return this interpreter with the options it was started with: ``-O``, ``-W``, ``-X`` and the like."""
    # Undocumented, but the standard library uses it wherever it starts another interpreter.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return [sys.executable, *flags]


def how_it_ended(code: int) -> str:
    """Describe an exit code; negative ones are signals."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
