"""Converting an exception to one line on stderr and an exit code."""

from __future__ import annotations

import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from cyclopts import (
    Argument,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Token,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from mainspring.cli.output import clean, visible
from mainspring.model.errors import BadPayload, MainspringError
from mainspring.model.redaction import redacted
from mainspring.timing.cron import CronError
from mainspring.vocabulary import command_advice, flag_advice

FAILED = 2
"""The exit code of every rejected or failed command."""
DECLINED = 1
"""The exit code after a declined confirmation."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, by shell convention."""
_EXPECTED: dict[object, tuple[str, str]] = {
    int: ("a whole number", "4"),
    float: ("a number", "2.5"),
    UUID: ("an id, as shown in lists", "01890a5d-ac96-774b-bcce-b302099a8057"),
    datetime: ("a time", "2030-01-31T09:00:00+01:00"),
}
"""The names of values of these types, and an example."""
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Refused(MainspringError):
    """The command line is invalid; the message contains what to type."""


class Declined(MainspringError):
    """The user declined a confirmation; the message says what was not done."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt blocking code at once; asyncio would wait for the next await."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def report(error: BaseException, *, debug: bool, of: str | None = None) -> int:
    """Print the error on stderr, beside the database ``of`` which it is, and return the exit code."""
    if debug:
        sys.stderr.write(visible(redacted("".join(traceback.format_exception(error)))))
    from rich.console import Console
    from rich.text import Text

    sentence = redacted(_sentence(error))
    # The lines after the first show the expression, and a caret below the position.
    sentence, _, place = sentence.partition("\n") if isinstance(error, CronError) else (sentence, "", "")
    line = Text("error: ", style="bold red")
    line.append("" if of is None else f"{of}: ", style="bold").append(clean(sentence), style="default")
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(line)
    if place.strip(" ^\n"):
        console.print(Text(visible(place)))
    return FAILED


def warn(text: str) -> None:
    """Print a warning on stderr."""
    from rich.console import Console
    from rich.text import Text

    line = Text("warning: ", style="bold yellow").append(clean(redacted(text)), style="default")
    Console(stderr=True, soft_wrap=True, highlight=False).print(line)


def _sentence(error: BaseException) -> str:
    match error:
        case UnusedCliTokensError() | UnknownCommandError() | UnknownOptionError():
            return _unknown(error)
        case MissingArgumentError(argument=Argument() as argument):
            wanted = argument.parameter.metavar or argument.name
            wanted = (
                f"{argument.name} {wanted}" if argument.name.startswith("--") and wanted != argument.name else wanted
            )
            return f"{wanted} is missing. {_help(error)}"
        case CoercionError(token=Token() as token, target_type=kind) if kind in _EXPECTED:
            what, example = _EXPECTED[kind]
            name = token.keyword or (error.argument.name if error.argument else "this argument")
            write = f"{token.keyword} {example}" if token.keyword else example
            return f"{name} takes {what}, not {token.value!r}: for example {write}"
        case BadPayload():
            return error.advising("pass --no-validate")
        case CycloptsError() | MainspringError() | CronError():
            return str(error)
        case _:
            return f"{type(error).__qualname__}: {error} (unexpected: `--debug` shows where)"


def _unknown(error: UnusedCliTokensError | UnknownCommandError | UnknownOptionError) -> str:
    unused = list(error.unused_tokens or ())
    word = unused[0] if unused else ""
    if isinstance(error, UnknownOptionError):
        word = error.token.keyword or error.token.value
        advice = flag_advice(word, _options(error))
        return str(error) if advice is None else f"there is no option {word}: {advice}"
    if isinstance(error, UnknownCommandError):
        advice = command_advice(word)
        return str(error) if advice is None else f"there is no command {word!r}: {advice}"
    if len(unused) == 1 and _SPEC.fullmatch(word):
        return f"the application is an option of this command: write --app {word}"
    return f"unexpected: {' '.join(unused)}. {_help(error)}"


def _options(error: CycloptsError) -> set[str]:
    """Return the options of the command that was typed."""
    if error.app is None:
        return set()
    return {name for argument in error.app.assemble_argument_collection() for name in argument.names}


def _help(error: CycloptsError) -> str:
    return f"See `mainspring {' '.join(error.command_chain or ())} --help`"
