"""The parent of one worker in development: it restarts the worker when a Python file changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import Iterator, Sequence
from pathlib import Path

from mainspring.runtime.processes import how_it_ended, interpreter

_logger = logging.getLogger("mainspring.parent")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL = 0.5
"""Seconds between two looks at the files."""
_PATIENCE = 3.0
"""Seconds that running handlers get to finish before a restart; a second signal then releases their messages."""
_LONGEST = 10.0
"""Seconds after the second signal until the worker is killed."""
_STARTS = 2
"""At how many starts in a row a change of one file is a reason to restart."""
_ELSEWHERE = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Directories without code of the application. Hidden ones and environments are not searched either."""

Files = dict[str, int]
"""When each watched file was last changed."""


class Reloader:
    """A worker that runs until this process is stopped, replaced whenever a watched file is changed, added or removed.

    A worker that ends by itself, as with a syntax error, starts again at the next change. The worker is this
    interpreter with ``arguments`` and the number of a socket, whose end means that its parent is gone.
    """

    def __init__(self, arguments: Sequence[str], *folders: Path) -> None:
        self._command = [*interpreter(), *arguments]
        self._folders = folders
        self._rewritten: dict[str, int] = {}
        """Files that changed while a worker started, and at how many starts in a row."""
        self._signals = 0
        self._stopping = asyncio.Event()
        self._worker: Process | None = None

    async def run(self) -> bool:
        """Return, once stopped, whether the last worker ended well."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        while True:
            seen, started = watched(*self._folders), asyncio.Event()
            code, changed = await self._run_worker(seen, started)
            if self._stopping.is_set():
                return code in (0, -signal.SIGTERM, -signal.SIGINT)
            changed = changed or await self._until_changed(seen, started)
            if changed is None:
                return False
            _logger.info("%s changed: the worker restarts", changed)

    async def _run_worker(self, seen: Files, started: asyncio.Event) -> tuple[int, str | None]:
        """Run a worker until it ends: by itself, by a signal to this process, or because of the returned file."""
        line, theirs = socket.socketpair()
        line.setblocking(False)  # noqa: FBT003
        with line:
            with theirs:
                # In this process's group, on its terminal: a debugger in a handler reads what is typed.
                worker = await asyncio.create_subprocess_exec(
                    *self._command, str(theirs.fileno()), pass_fds=[theirs.fileno()]
                )
            self._worker = worker
            ended = asyncio.ensure_future(worker.wait())
            if self._signals:
                self._send(signal.SIGTERM)  # it was starting when the signal came
            starting = asyncio.ensure_future(_until_started(line, started))
            changing = asyncio.ensure_future(self._until_changed(seen, started))
            await asyncio.wait([ended, changing], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done() and not self._stopping.is_set():
                await self._end(ended)
            code = await ended
            changing.cancel()
            starting.cancel()
            await asyncio.wait([changing, starting])
            self._worker = None
        if changing.cancelled() and not self._stopping.is_set():
            _logger.warning("process %d %s; it starts again when a file changes", worker.pid, how_it_ended(code))
        return code, None if changing.cancelled() else changing.result()

    async def _end(self, ended: asyncio.Future[int]) -> None:
        for number, seconds in ((signal.SIGTERM, _PATIENCE), (signal.SIGTERM, _LONGEST), (signal.SIGKILL, None)):
            self._send(number)
            await asyncio.wait([ended], timeout=seconds)
            if ended.done():
                return

    async def _until_changed(self, seen: Files, started: asyncio.Event) -> str | None:
        """Return the first file that differs from what was seen; None once this process is stopped.

        What an application writes when it is imported is no change: its worker would restart for ever. It is told from
        what a user writes by changing at every start.
        """
        is_starting, own = True, dict[str, int]()
        while not self._stopping.is_set():
            is_last = started.is_set()
            now = await asyncio.to_thread(watched, *self._folders)
            changed = {path for path in now.keys() | seen.keys() if now.get(path) != seen.get(path)}
            if is_starting:
                own |= {path: self._rewritten.get(path, 0) + 1 for path in changed}
            if any(own.get(path, 0) <= _STARTS for path in changed):
                self._rewritten = own
                return min(changed)
            for path in changed:
                _logger.warning("%s changes whenever the worker starts: no restart for that", path)
            seen.clear()
            seen.update(now)
            if is_starting and is_last:
                is_starting, self._rewritten = False, own
                own = {}
            await self._pause(None if not is_starting else started)
        return None

    async def _pause(self, started: asyncio.Event | None) -> None:
        """Wait until the next look at the files: at the end of a start there is one at once."""
        waits = [asyncio.ensure_future(each.wait()) for each in (self._stopping, started) if each is not None]
        await asyncio.wait(waits, timeout=_POLL, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    def _on_signal(self) -> None:
        self._signals += 1
        self._stopping.set()
        # Ctrl-C reaches the worker too, which counts both as one.
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        if self._worker is not None:
            with contextlib.suppress(ProcessLookupError):
                self._worker.send_signal(number)


async def _until_started(line: socket.socket, started: asyncio.Event) -> None:
    """Set the event when the worker reports that it has started, or ends."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_recv(line, 1)
    started.set()


def watched(*folders: Path) -> Files:
    """Return the Python files in these folders and below, and their configuration, each with its time of change."""
    return {path: changed for folder in folders for path, changed in _files(str(folder))}


def _files(folder: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # it was removed, or may not be read
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _ELSEWHERE:
                    yield from _files(entry.path)
            elif entry.name.endswith(".py") or entry.name == "mainspring.toml":
                yield entry.path, entry.stat().st_mtime_ns
