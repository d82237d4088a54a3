"""Commands as forks of one process that has imported the package, since importing it takes longer than most commands.

    python -m tests.services.forks NUMBER     serves on the socket of that number until its other end is closed

Each command is a process of its own, with a directory, an environment, arguments, streams and an exit code, and runs
what `python -m mainspring` runs. tests/integration/cli/test_forks.py holds what it says against what a process says
that starts anew.
"""

import atexit
import gc
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, NoReturn

_ROOT = Path(__file__).parents[2]
_SIZE = struct.Struct("!i")
_DRIVERS = ("asyncpg", "uvloop")


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class Forks:
    """The process that is forked, seen from the tests."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.services.forks", str(theirs.fileno())],
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def run(
        self,
        *commands: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        stdin: str = "",
        patience: float,
    ) -> Said:
        """Run one command to its end; of several, the answers are written to stdout as one JSON document."""
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            request = json.dumps([commands, str(directory), dict(environment)]).encode()
            self._line.settimeout(patience)
            socket.send_fds(self._line, [b"!"], [each.fileno() for each in (given, out, err)])
            self._line.sendall(_SIZE.pack(len(request)) + request)
            (pid,) = _SIZE.unpack(_exactly(self._line, _SIZE.size))
            try:
                (code,) = _SIZE.unpack(_exactly(self._line, _SIZE.size))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return Said(code, _text(out), _text(err))

    def close(self) -> None:
        self._line.close()
        self._process.wait()


@cache
def forks() -> Forks:
    """The one of this process, made when it is first asked for."""
    made = Forks()
    atexit.register(made.close)
    return made


def _text(file: Any) -> str:
    file.seek(0)
    read: bytes = file.read()
    return read.decode()


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
        mark, streams, _, _ = socket.recv_fds(line, 1, 3)
        if not mark:
            return
        commands, directory, environment = json.loads(_exactly(line, *_SIZE.unpack(_exactly(line, _SIZE.size))))
        if (pid := os.fork()) == 0:
            line.close()
            _become(commands, streams, directory, environment)
        for stream in streams:
            os.close(stream)
        line.sendall(_SIZE.pack(pid))
        _, status = os.waitpid(pid, 0)
        line.sendall(_SIZE.pack(os.waitstatus_to_exitcode(status)))


def _become(
    commands: list[list[str]], streams: Sequence[int], directory: str, environment: Mapping[str, str]
) -> NoReturn:
    """Be the process of these commands, up to its end in good order."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = directory  # as -m has it
    import mainspring.cli

    if len(commands) == 1:
        sys.argv = [str(Path(mainspring.cli.__file__).with_name("__main__.py")), *commands[0]]
        mainspring.cli.main()
    json.dump([_answer(command) for command in commands], sys.stdout)
    sys.exit()


def _answer(command: list[str]) -> Said:
    from mainspring.cli.commands import run

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(command)
    return Said(code, out.getvalue(), err.getvalue())


def _import() -> None:
    """Import what nearly every command imports, whichever database it is for."""
    for name in ("mainspring.cli.commands", "mainspring.storage.postgres", "mainspring.storage.sqlite", *_DRIVERS):
        import_module(name)
    if "coverage" in sys.modules:
        # What was measured up to here is written once, and not by every fork.
        from coverage import Coverage

        if (measuring := Coverage.current()) is not None:
            measuring.save()
    gc.freeze()  # no fork need look at what all of them have


if __name__ == "__main__":
    _import()
    with socket.socket(fileno=int(sys.argv[1])) as line:
        _serve(line)
