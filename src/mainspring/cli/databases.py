"""A command on the databases of a fleet: on one as if that were named alone, or on several at a time."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from mainspring.app.fleet.report import AT_ONCE
from mainspring.cli.capture import CAPTURE, DATABASE, Capture, apart
from mainspring.cli.errors import Refused, report, warn
from mainspring.cli.output import many, print_line, stdout
from mainspring.cli.target import OverFleet, typed, typed_name

SOME_FAILED = 1
"""The exit code of a command that failed for some of several databases."""
_ONE = "\0"
"""Stands for the option that names the database, in the commands that a text proposes."""
_WIDEST = 30
"""How wide a column of names is at most."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as typed and parsed."""

    call: Callable[..., Any]
    bound: inspect.BoundArguments
    tokens: Sequence[str]
    debug: bool = False
    for_one: bool = False
    """Whether it makes sense for one database at a time only."""

    def __call__(self) -> Any:
        """Call it; an asynchronous one returns a coroutine."""
        return self.call(*self.bound.args, **self.bound.kwargs)

    def given(self, option: str) -> bool:
        """Return whether an option of this name was given."""
        return bool(self.bound.arguments.get(option))

    def again(self, names: Sequence[str] | None) -> str:
        """Return the command to type for these databases alone; None: for the same."""
        if names is None:
            return f"{typed_name()} {shlex.join(self.tokens)}"
        words = iter(self.tokens)
        rest: list[str] = []
        for word in words:
            if word == "--database":
                next(words, None)
            elif not word.startswith("--database="):
                rest.append(word)
        end = rest.index("--") if "--" in rest else len(rest)
        rest[end:end] = [word for name in names for word in ("--database", name)]
        return f"{typed_name()} {shlex.join(rest)}"


@dataclass(slots=True)
class _Outcome:
    """What came of the command on one database."""

    code: int = 0
    error: Exception | None = None
    capture: Capture = field(default_factory=Capture)


def run(command: Command, over: OverFleet) -> Any:
    """Run the command on each chosen database of the fleet, and return its exit code."""
    names = asyncio.run(over.target.names(over.fleet))
    is_for_one = command.for_one or not inspect.iscoroutinefunction(command.call)
    if over.target.names_one or (is_for_one and len(names) == 1):
        return contextvars.copy_context().run(_alone, command, names[0])
    chosen = many(len(names), "database")
    if is_for_one:
        raise Refused(f"this command is for one database, and {chosen} are chosen: add --database NAME{_such(names)}")
    if command.given("cursor"):
        raise Refused("--cursor continues the list of one database: add the --database beside which it was printed")
    if "yes" in inspect.signature(command.call).parameters and not command.given("yes"):
        raise Refused(f"this asks for confirmation, and is for {chosen}: pass --yes, or one --database NAME")
    for each in over.fleet._databases.rejected.values():  # noqa: SLF001 - health() reports them as checks
        warn(each)
    return asyncio.run(_Each(command, names, typed(over.target.database)).run())


def _such(names: Sequence[str]) -> str:
    return f", such as{typed(names[:1])}" if names else ""


def _alone(command: Command, name: str) -> Any:
    DATABASE.set(name)
    result = command()
    return asyncio.run(result) if inspect.iscoroutine(result) else result


class _Each:
    """The command on several databases: some at a time, printed in their order, and no failure stops another."""

    def __init__(self, command: Command, names: Sequence[str], chosen: str) -> None:
        self._command = command
        self._chosen = chosen
        self._names = names
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._progress = _Progress(len(names))

    async def run(self) -> int:
        """Run it, and return the worst exit code."""
        with apart():
            tasks = {name: asyncio.create_task(self._one(name)) for name in self._names}
            await (self._print_values(tasks) if self._command.given("json") else self._print_blocks(tasks))
        outcomes = {name: task.result() for name, task in tasks.items()}
        code = max((each.code for each in outcomes.values()), default=0)
        failed = [name for name, each in outcomes.items() if each.error is not None]
        if not failed:
            return code
        sys.stdout.flush()
        all_failed = len(failed) == len(self._names)
        which = "all" if all_failed else "these" if len(failed) > 1 else "it"
        again = f"To repeat for {which}: {self._command.again(None if all_failed else failed)}"
        sys.stderr.write(f"{len(failed):,} of {many(len(self._names), 'database')} failed. {again}\n")
        return max(code, SOME_FAILED)

    async def _one(self, name: str) -> _Outcome:
        outcome = _Outcome()
        async with self._turns:
            DATABASE.set(name)
            CAPTURE.set(outcome.capture)
            try:
                code = await self._command()
                outcome.code = code if isinstance(code, int) else 0
            except Exception as error:  # noqa: BLE001 - it is reported, and the others go on
                outcome.error = error
        self._progress.add_one()
        return outcome

    async def _print_values(self, tasks: Mapping[str, asyncio.Task[_Outcome]]) -> None:
        printed = {}
        for name, task in tasks.items():
            outcome = await self._progress.wait(task)
            self._report(name, outcome)
            if outcome.error is None:
                printed[name] = json.loads(outcome.capture.out.getvalue())
        sys.stdout.write(json.dumps(printed, ensure_ascii=False, indent=2) + "\n")

    async def _print_blocks(self, tasks: Mapping[str, asyncio.Task[_Outcome]]) -> None:
        blocks = _Blocks(self._names, self._chosen)
        for name, task in tasks.items():
            outcome = await self._progress.wait(task)
            blocks.add(name, outcome.capture.out.getvalue().strip("\n"))
            if outcome.error is not None or outcome.capture.err.getvalue():
                blocks.end()
                self._report(name, outcome)
        blocks.end()
        if not tasks:
            print_line("The fleet has no databases.")

    def _report(self, name: str, outcome: _Outcome) -> None:
        sys.stdout.flush()
        for line in outcome.capture.err.getvalue().splitlines():
            sys.stderr.write(f"{name}: {line}\n")
        if outcome.error is not None:
            report(outcome.error, debug=self._command.debug, of=name)


class _Blocks:
    """Prints what the command has printed for each database: a line beside its name, or lines below it.

    What it has printed alike for several in a row is printed once, and commands that it proposes are for all of these.
    """

    def __init__(self, known: Sequence[str], chosen: str) -> None:
        self._known = known
        self._chosen = chosen
        self._width = min(max(map(cell_len, known), default=0), _WIDEST)
        self._names: list[str] = []
        self._text = ""
        self._has_lines: bool | None = None
        """Whether the last block had lines below its names; None before the first."""

    def add(self, name: str, text: str) -> None:
        """Print this, once something else or the end follows."""
        text = text.replace(typed([name]), _ONE)
        if text != self._text:
            self.end()
        self._names.append(name)
        self._text = text

    def end(self) -> None:
        """Print what is left."""
        names, self._names = self._names, []
        if not names or not self._text:
            return
        has_lines = len(names) > 1 or "\n" in self._text
        gap = "\n" if self._has_lines or (has_lines and self._has_lines is not None) else ""
        title = ", ".join(names)
        title += "\n" if has_lines else " " * (self._width - cell_len(title) + 2)
        stdout().print(Text(gap + title, style="bold"), soft_wrap=True, end="")
        options = self._chosen if len(names) == len(self._known) else typed(names)
        sys.stdout.write(f"{self._text.replace(_ONE, options)}\n")
        self._has_lines = has_lines


class _Progress:
    """How many databases are done, on stderr if that is a terminal."""

    def __init__(self, total: int) -> None:
        self._of = many(total, "database")
        self._done = 0
        self._stream = sys.stderr
        self._is_shown = False

    async def wait(self, task: asyncio.Task[_Outcome]) -> _Outcome:
        """Wait for one of them, and clear the line."""
        self._is_shown = not task.done() and self._stream.isatty()
        self._show()
        await asyncio.wait([task])  # Ctrl-C ends this wait at once, whatever the task makes of it
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_shown = False
        return task.result()

    def add_one(self) -> None:
        """Count one."""
        self._done += 1
        self._show()

    def _show(self) -> None:
        if self._is_shown:
            self._stream.write(f"\r\x1b[K{self._done:,} of {self._of}")
            self._stream.flush()
