"""Worker processes as forks of one that has imported the package: hundreds are started, and importing it is most of it.

    python -m tests.faults.nursery NUMBER     serves on the socket of that number until its other end is closed

Each is a process of its own, in a session of its own, with arguments, an environment and a log, and runs what
`python -m MODULE` runs. It can be signalled, killed and waited for as if the test had started it.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

from tests.services.introspection import ask_once
from tests.services.unmeasured import unmeasured

_ROOT = Path(__file__).parents[2]
_NUMBERS = struct.Struct("!ii")
_START, _LOOK = b"+", b"?"
_STEP = 0.005
_IMPORTED = (
    "tests.faults.worker",
    "mainspring.model.fingerprint",
    "mainspring.runtime.worker",
    "mainspring.storage.postgres",
    "mainspring.storage.sqlite",
    "asyncpg",
    "psycopg",
    "uvloop",
)


class Nursery:
    """The process that is forked, seen from the tests."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        self._turn = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.nursery", str(theirs.fileno())],
                cwd=_ROOT,
                env=_environment(),
                pass_fds=[theirs.fileno()],
                # Ctrl-C is for the tests, which then end what they have started.
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )

    def start(self, module: str, argument: str, log: IO[bytes] | socket.socket) -> "Born":
        """Start a process that writes to this log; a socket is also what it reads."""
        request = json.dumps([module, argument, _environment()]).encode()
        with self._turn:
            socket.send_fds(self._line, [_START], [log.fileno()])
            self._line.sendall(_NUMBERS.pack(len(request), 0) + request)
            pid, _ = _numbers(self._line)
        return Born(pid, self)

    def look(self, pid: int) -> int | None:
        """The exit code of a process that has ended; from then on nobody knows it any more."""
        with self._turn:
            self._line.sendall(_LOOK + _NUMBERS.pack(pid, 0))
            ended, code = _numbers(self._line)
        return code if ended else None

    def close(self) -> None:
        self._line.close()
        self._process.wait()


class Born:
    """One process, with the part of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, nursery: Nursery) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.look(self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} has not ended")
            time.sleep(_STEP)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:  # its number is not another's before somebody has looked
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def nursery() -> Nursery:
    """The one of this process, made when it is first asked for."""
    made = Nursery()
    atexit.register(made.close)
    return made


def _environment() -> dict[str, str]:
    return {**unmeasured(), "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}


def _numbers(line: socket.socket) -> tuple[int, int]:
    first, second = _NUMBERS.unpack(_exactly(line, _NUMBERS.size))
    return first, second


def _exactly(line: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = line.recv(size - len(got))
        if not more:
            raise EOFError("the other side has ended")
        got += more
    return got


def _serve(line: socket.socket) -> None:
    while True:
        mark, files, _, _ = socket.recv_fds(line, 1, 1)
        if not mark:
            return
        number, _ = _numbers(line)
        if mark == _LOOK:
            pid, status = os.waitpid(number, os.WNOHANG)
            line.sendall(_NUMBERS.pack(pid, os.waitstatus_to_exitcode(status) if pid else 0))
            continue
        module, argument, environment = json.loads(_exactly(line, number))
        if (pid := os.fork()) == 0:
            line.close()
            _become(module, argument, environment, *files)
            return
        for file in files:
            os.close(file)
        line.sendall(_NUMBERS.pack(pid, 0))


def _become(module: str, argument: str, environment: Mapping[str, str], log: int) -> None:
    """Be the process of this module, up to its end."""
    os.setsid()
    for stream in (0, 1, 2) if stat.S_ISSOCK(os.fstat(log).st_mode) else (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, argument]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in _IMPORTED:
        import_module(name)
    ask_once()
    gc.freeze()  # no fork need look at what all of them have
    with socket.socket(fileno=int(sys.argv[1])) as line:
        _serve(line)
