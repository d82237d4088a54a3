"""The command line as a user has it: real processes, in a directory with an application in it."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.forks import Running, Said, forks

COMMAND = [sys.executable, "-m", "mainspring"]
PATIENCE = 100.0
Started = Running | subprocess.Popen[str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read as one JSON document."""
        assert self.code in (0, 1), self.err
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line that says what is wrong."""
        assert self.code == 2, (self.code, self.out, self.err)
        lines = [line for line in self.err.splitlines() if " INFO " not in line]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: "), self.err
        return lines[0].removeprefix("error: ")


class Shell:
    """Runs commands in one directory."""

    def __init__(self, directory: Path, url: str | None = None) -> None:
        self.directory = directory
        self.environment = {name: value for name, value in os.environ.items() if name != "MAINSPRING_URL"}
        self.environment |= {"COLUMNS": "80", "TERM": "xterm-256color"}
        if url is not None:
            self.environment["MAINSPRING_URL"] = url

    def __call__(self, *arguments: object, stdin: str = "") -> Ended:
        """Run one command to its end."""
        return Ended(*self._forked([list(map(str, arguments))], stdin))

    def several(self, *commands: Sequence[object]) -> list[Ended]:
        """Run several commands to their ends, one after the other in one process."""
        if len(commands) == 1:
            return [self(*commands[0])]
        ended = self._forked([list(map(str, command)) for command in commands])
        assert ended.code == 0, ended.err
        return [Ended(*answer) for answer in json.loads(ended.out)]

    def anew(self, *arguments: object) -> Ended:
        """Run one command to its end, in a process that starts anew instead of being forked."""
        ran = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=self.directory,
            env=self.environment,
            input="",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ended(ran.returncode, ran.stdout, ran.stderr)

    def _forked(self, commands: list[list[str]], stdin: str = "") -> Said:
        return forks().run(
            *commands, directory=self.directory, environment=self.environment, stdin=stdin, patience=PATIENCE
        )

    def python(self, script: str) -> str:
        """Run a Python script of the directory and return what it printed."""
        ran = forks().run(
            [script], program="script", directory=self.directory, environment=self.environment, patience=PATIENCE
        )
        assert ran.code == 0, ran.err
        return ran.out

    @contextmanager
    def started(self, *arguments: object, anew: bool = False) -> Iterator[Started]:
        """A command that goes on, with its output to be read line by line; killed if the test forgets it."""
        words = list(map(str, arguments))
        process = self._started_anew(words) if anew else self._started_forked(words)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)

    def _started_forked(self, words: list[str]) -> Running:
        return forks().start_with_pipes(words, directory=self.directory, environment=self.environment)

    def _started_anew(self, words: list[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_terminal(self, *arguments: object, typed: str = "", interrupt_at: str = "", anew: bool = False) -> Ended:
        """Run one command on a terminal of its own; Ctrl-C is pressed once ``interrupt_at`` is on the screen."""
        start = self._terminal_anew if anew else self._terminal_forked
        wait, screen = start(list(map(str, arguments)))
        os.write(screen, typed.encode())
        seen = b""
        while chunk := _read(screen):
            seen += chunk
            if interrupt_at and interrupt_at.encode() in seen:
                os.write(screen, b"\x03")
                interrupt_at = ""
        os.close(screen)
        return Ended(wait(), seen.decode(errors="replace"), "")

    def _terminal_forked(self, words: list[str]) -> tuple[Callable[[], int], int]:
        process, screen = forks().start_on_terminal(words, directory=self.directory, environment=self.environment)
        return lambda: process.wait(PATIENCE), screen

    def _terminal_anew(self, words: list[str]) -> tuple[Callable[[], int], int]:
        pid, screen = pty.fork()
        if pid == 0:  # pragma: no cover - the child becomes the command
            os.chdir(self.directory)
            os.execve(sys.executable, [*COMMAND, *words], self.environment)
        return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen


def _read(screen: int) -> bytes:
    ready, _, _ = select.select([screen], [], [], PATIENCE)
    assert ready, "the command said nothing for too long"
    try:
        return os.read(screen, 65536)
    except OSError:  # the other end of a terminal is closed by an error, not by an end of file
        return b""


def line_with(process: Started, text: str) -> str:
    """The next line of its stdout that holds the text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}: {process.stderr and process.stderr.read()}")


def stop(process: Started, number: signal.Signals = signal.SIGTERM) -> Ended:
    """Send the signal and wait for the end."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return Ended(process.wait(PATIENCE), out, err)
