"""Commands as forks of one process that has imported the package, since importing it takes longer than most commands.

    python -m tests.services.forks NUMBER     serves on the socket of that number until its other end is closed

Each command is a process of its own, with a directory, an environment, arguments, streams and an exit code, and runs
what `python -m mainspring` runs, or the blocks of a page. tests/integration/cli/test_forks.py holds what it says
against what a process says that starts anew.
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
from typing import Any, Literal, NamedTuple, NoReturn

_ROOT = Path(__file__).parents[2]
_SIZE = struct.Struct("!i")
_DRIVERS = ("asyncpg", "uvloop")
Program = Literal["mainspring", "page"]


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class Forks:
    """The process that is forked, seen from the tests."""

    def __init__(self, line: socket.socket, process: int) -> None:
        self._line = line
        self._process = process

    @classmethod
    def started(cls, environment: Mapping[str, str]) -> "Forks":
        """One that starts anew."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.services.forks", str(theirs.fileno())]
            process = subprocess.Popen(
                command, cwd=_ROOT, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        process.returncode = 0  # `close` waits for it
        return cls(ours, process.pid)

    @classmethod
    def forked(cls) -> "Forks":
        """One that has imported what this process has by now."""
        ours, theirs = socket.socketpair()
        if (pid := os.fork()) == 0:
            ours.close()
            _serve(theirs)
            os._exit(0)
        theirs.close()
        return cls(ours, pid)

    def run(
        self,
        *commands: Sequence[str],
        program: Program = "mainspring",
        directory: Path,
        environment: Mapping[str, str],
        stdin: str = "",
        patience: float,
    ) -> Said:
        """Run one command to its end; of several, the answers are written to stdout as one JSON document."""
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            streams = [each.fileno() for each in (given, out, err)]
            pid = self.start(*commands, program=program, directory=directory, environment=environment, streams=streams)
            try:
                code = self.ended(patience)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return Said(code, _text(out), _text(err))

    def start(
        self,
        *commands: Sequence[str],
        program: Program = "mainspring",
        directory: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
    ) -> int:
        """Start one and return its process id; the next may start when this one has ended."""
        request = json.dumps([program, commands, str(directory), dict(environment)]).encode()
        socket.send_fds(self._line, [b"!"], streams)
        self._line.sendall(_SIZE.pack(len(request)) + request)
        (pid,) = _SIZE.unpack(_exactly(self._line, _SIZE.size))
        return int(pid)

    def ended(self, patience: float) -> int:
        """Wait for the end of the one that was started, and return its exit code."""
        self._line.settimeout(patience)
        try:
            (code,) = _SIZE.unpack(_exactly(self._line, _SIZE.size))
        finally:
            self._line.settimeout(None)
        return int(code)

    def close(self) -> None:
        self._line.close()
        os.waitpid(self._process, 0)


@cache
def forks(*, measured: bool = True) -> Forks:
    """The one of this process, made when it is first asked for."""
    from tests.services.unmeasured import unmeasured  # imports pytest, which a newcomer need not have

    made = Forks.started(os.environ if measured else unmeasured())
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
        request = json.loads(_exactly(line, *_SIZE.unpack(_exactly(line, _SIZE.size))))
        if (pid := os.fork()) == 0:
            line.close()
            _become(streams, *request)
        for stream in streams:
            os.close(stream)
        line.sendall(_SIZE.pack(pid))
        _, status = os.waitpid(pid, 0)
        line.sendall(_SIZE.pack(os.waitstatus_to_exitcode(status)))


def _become(
    streams: Sequence[int],
    program: Program,
    commands: list[list[str]],
    directory: str,
    environment: Mapping[str, str],
) -> NoReturn:
    """Be the process of these commands, up to its end in good order."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = directory  # as -m has it
    if "PYTHONUNBUFFERED" in environment:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    import mainspring.cli

    if program == "page":
        from tests.house.run_page import main

        main(Path(commands[0][0]))
        sys.exit()
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
    storages = ("mainspring.storage.postgres", "mainspring.storage.sqlite")
    for name in ("mainspring.cli.commands", *storages, *_DRIVERS, "tests.house.run_page"):
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
