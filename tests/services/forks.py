"""Commands as forks of one process that has imported the package, since importing it takes longer than most commands.

    python -m tests.services.forks NUMBER [MODULE …]

serves on the socket of that number until its other end is closed, and has imported these modules too.

Each command is a process of its own, with a directory, an environment, arguments, streams and an exit code, and runs
what `python -m mainspring`, `django` or `pytest` runs, a script, or the blocks of a page.
tests/integration/cli/test_forks.py holds what it says against what a process says that starts anew.
"""

import atexit
import fcntl
import gc
import io
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryFile
from typing import IO, Any, Literal, NamedTuple, NoReturn

from tests.services.unmeasured import unmeasured

_ROOT = Path(__file__).parents[2]
_SIZE = struct.Struct("!i")
_DRIVERS = ("asyncpg", "uvloop")
_LATE = (
    "cyclopts.config",
    "docstring_parser",
    "mainspring.app.schedule.schedules",
    "mainspring.app.sync",
    "mainspring.model.fingerprint",
    "rich.panel",
    "rich.table",
)
"""What commands import when they get there."""
_exit_code: list[int] = []
"""Of this process, once it is a command and over."""
Program = Literal["mainspring", "page", "django", "pytest", "script"]


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class Fork:
    """A command that was forked, with the part of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, report: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report

    def wait(self, timeout: float) -> int:
        """Wait for its end and return its exit code."""
        if self.returncode is None:
            ready, _, _ = select.select([self._report], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            with self._report:
                (self.returncode,) = _SIZE.unpack(_exactly(self._report, _SIZE.size))
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Running(Fork):
    """A command whose output is read while it goes on."""

    def __init__(self, fork: Fork, stdout: IO[str], stderr: IO[str]) -> None:
        super().__init__(fork.pid, fork._report)
        self.stdout = stdout
        self.stderr = stderr

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Read both streams to their ends and wait for the end of the command, which is killed if it takes longer."""
        if self.stdout.closed:
            self.wait(timeout)
            return "", ""
        errors: list[str] = []
        beside = threading.Thread(target=lambda: errors.append(self.stderr.read()), daemon=True)
        beside.start()
        watchdog = threading.Timer(timeout, self.kill)
        watchdog.start()
        with self.stdout, self.stderr:
            out = self.stdout.read()
            beside.join()
        watchdog.cancel()
        self.wait(timeout)
        return out, "".join(errors)


class Forks:
    """The process that is forked, seen from the tests."""

    def __init__(self, line: socket.socket, process: int) -> None:
        self._line = line
        self._process = process

    @classmethod
    def started(cls, environment: Mapping[str, str], *modules: str) -> "Forks":
        """One that starts anew, and imports these modules too."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.services.forks", str(theirs.fileno()), *modules]
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
            fork = self.start(*commands, program=program, directory=directory, environment=environment, streams=streams)
            try:
                code = fork.wait(patience)
            except subprocess.TimeoutExpired:
                fork.kill()
                fork.wait(patience)
                raise
            return Said(code, _text(out), _text(err))

    def start(
        self,
        *commands: Sequence[str],
        program: Program = "mainspring",
        directory: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
    ) -> Fork:
        """Start one beside those that run. Streams that are a terminal become the terminal of its own session."""
        request = json.dumps([program, commands, str(directory), dict(environment)]).encode()
        report, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._line, [b"!"], [*streams, theirs.fileno()])
        self._line.sendall(_SIZE.pack(len(request)) + request)
        (pid,) = _SIZE.unpack(_exactly(report, _SIZE.size))
        return Fork(pid, report)

    def start_with_pipes(self, command: Sequence[str], *, directory: Path, environment: Mapping[str, str]) -> Running:
        """Start one that is read while it goes on."""
        (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), their_out, their_err]
            fork = self.start(command, directory=directory, environment=environment, streams=streams)
        os.close(their_out)
        os.close(their_err)
        return Running(fork, os.fdopen(out), os.fdopen(err))

    def start_on_terminal(
        self, command: Sequence[str], *, directory: Path, environment: Mapping[str, str]
    ) -> tuple[Fork, int]:
        """Start one on a terminal of its own, and return it with the other end of the terminal."""
        screen, terminal = pty.openpty()
        try:
            return self.start(command, directory=directory, environment=environment, streams=[terminal] * 3), screen
        finally:
            os.close(terminal)

    def close(self) -> None:
        self._line.close()
        os.waitpid(self._process, 0)


@cache
def forks(*, measured: bool = True) -> Forks:
    """The one of this process, made when it is first asked for."""
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
    """Fork at every request, and report the process id and the exit code on the socket that came with it."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that can be read once it has ended
    while True:
        ready, _, _ = select.select([line.fileno(), *running], [], [])
        for ended in running.keys() & ready:
            pid, report = running.pop(ended)
            os.close(ended)
            with report:
                report.sendall(_SIZE.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        if line.fileno() not in ready:
            continue
        mark, handed, _, _ = socket.recv_fds(line, 1, 4)
        if not mark:
            return
        *streams, last = handed
        report = socket.socket(fileno=last)
        request = json.loads(_exactly(line, *_SIZE.unpack(_exactly(line, _SIZE.size))))
        if (pid := os.fork()) == 0:
            for each in (line, report, *(other for _, other in running.values())):
                each.close()
            for number in running:
                os.close(number)
            _become(streams, *request)
        for stream in streams:
            os.close(stream)
        report.sendall(_SIZE.pack(pid))
        running[os.pidfd_open(pid)] = pid, report


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
    if os.isatty(0):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = directory  # as -m has it
    try:
        _do(program, commands, environment)
    except SystemExit as end:
        # Django's commands turn what is left open at the very end into errors.
        if program in ("mainspring", "page") and (end.code is None or isinstance(end.code, int)):
            _exit_code.append(end.code or 0)
        raise


def _do(program: Program, commands: list[list[str]], environment: Mapping[str, str]) -> NoReturn:
    unbuffered = "PYTHONUNBUFFERED" in environment
    sys.stdout.reconfigure(write_through=unbuffered, line_buffering=os.isatty(1))  # type: ignore[union-attr]
    if program == "django":
        from django.core import management

        first = sys.modules["__main__"]  # what processes of its own start from
        first.__spec__ = find_spec("django.__main__")
        first.__file__ = str(Path(management.__file__).parents[2] / "__main__.py")
        sys.argv = [first.__file__, *commands[0]]
        management.execute_from_command_line()
        sys.exit()
    if program == "pytest":
        import pytest

        sys.argv = [str(Path(pytest.__file__).with_name("__main__.py")), *commands[0]]
        sys.exit(pytest.console_main())
    if program == "script":
        sys.argv = commands[0]
        run_path(sys.argv[0], run_name="__main__")
        sys.exit()
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


def _leave() -> None:
    """End a command that is over, its threads and all other functions of `atexit` too, with the code it has given.

    Python would now take down every module that all forks have in common, which takes as long as most commands.
    """
    if _exit_code:
        gc.collect()  # what complains when it is lost does so now
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_exit_code[0])


def _import(*modules: str) -> None:
    """Import what nearly every command imports, whichever database it is for, and these."""
    from tests.services.introspection import ask_once  # imports asyncpg, which a page need not have

    storages = ("mainspring.storage.postgres", "mainspring.storage.sqlite")
    for name in ("mainspring.cli.commands", *storages, *_DRIVERS, *_LATE, "tests.house.run_page", *modules):
        import_module(name)
    ask_once()
    _answer(["--version"])  # reads the annotations of every command
    if "coverage" in sys.modules:
        # What was measured up to here is written once, and not by every fork.
        from coverage import Coverage

        if (measuring := Coverage.current()) is not None:
            measuring.save()
    gc.freeze()  # no fork need look at what all of them have


def _main(number: int, modules: Sequence[str]) -> None:
    atexit.register(_leave)  # first, so that it is called last
    _import(*modules)
    with socket.socket(fileno=number) as line:
        _serve(line)


if __name__ == "__main__":
    # Pages import this module: what it keeps, it keeps in one place.
    from tests.services import forks as ours

    ours._main(int(sys.argv[1]), sys.argv[2:])
