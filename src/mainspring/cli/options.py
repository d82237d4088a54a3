"""Options that several commands share, confirmation prompts, and progress bars."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

from cyclopts import Parameter

from mainspring.cli.capture import CAPTURE
from mainspring.cli.errors import Declined, Refused, interruptible
from mainspring.model.redaction import redacted
from mainspring.vocabulary import flag_advice

Advance = Callable[[int], object]
NO_MATCH = "No matches. Remove a filter to see more."
_SHOWN = 20
MessageId = Annotated[UUID, Parameter(help="The message's id, as shown in lists.")]
OfGroup = Annotated[str | None, Parameter(name=["--group", "-g"], help="Only of this group.")]
OfTopic = Annotated[str | None, Parameter(name=["--topic", "-t"], help="Only on this topic.")]
Cursor = Annotated[str | None, Parameter(metavar="TEXT", help="The next page, as the end of the last one names it.")]
Reason = Annotated[str, Parameter(show_default=False, help="Stored in the audit log.")]
Validate = Annotated[
    bool,
    Parameter(
        name="--validate",
        show_default=False,
        help="Reject a payload that does not fit the type of its topic, as --app knows it [yes].",
    ),
]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", show_default=False, help="Skip the confirmation.")]


def _not_empty(_type: Any, limit: int) -> None:
    if limit < 1:
        raise Refused(f"--limit {limit} must be 1 or more")


def json_text(*options: str) -> Parameter:
    """Return how a parameter that is JSON, or `-` for stdin, is parsed, in a command with these options."""

    def not_an_option(_type: Any, value: str | None) -> None:
        # A lone hyphen and negative numbers are payloads; anything else that begins with a hyphen is a misspelt option.
        if value is not None and value.startswith("-") and not value[1:2].isdigit() and value != "-":
            advice = flag_advice(value, ("--app", "--url", *options))
            raise Refused(f"there is no option {value}: {advice or 'see `--help`'}")

    return Parameter(metavar="JSON", allow_leading_hyphen=True, validator=not_an_option)


JsonText: Parameter = json_text()
Limit = Annotated[int, Parameter(name=["--limit", "-n"], help="The maximum number of rows.", validator=_not_empty)]


def confirm(question: str, declined: str, *, yes: bool) -> None:
    """Raise Declined with this text unless ``--yes`` was given, or the user confirms at the terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"this asks for confirmation, and there is no terminal: pass --yes. It would ask: {question}")
    with interruptible():
        # Inside the context, because Ctrl-C may be pressed at the prompt.
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Declined(declined)


@contextmanager
def progress(doing: str, total: int | None) -> Iterator[Advance]:
    """Show a bar on stderr if that is a terminal; call the yielded function with the number done so far."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or CAPTURE.get() is not None:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)


def read_json(text: str) -> Any:
    """Parse a JSON argument; ``-`` reads stdin. Raises Refused with the position of the error."""
    if text == "-":
        text = _stdin()
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        near = f", near {text[max(0, error.pos - _SHOWN) : error.pos + _SHOWN]!r}"
        place = f"line {error.lineno}, column {error.colno}"
        # An excerpt could hold part of a password, which redaction would not recognise.
        raise Refused(
            f"the payload is not JSON: {error.msg} at {place}{near if redacted(text) == text else ''}"
        ) from error
    except RecursionError as error:
        raise Refused("the payload is nested too deeply") from error


@functools.cache  # a command on several databases reads it for each
def _stdin() -> str:
    try:
        with interruptible():
            text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Refused(f"stdin is not UTF-8: {error.reason} at byte {error.start}") from error
    if not text.strip():
        raise Refused("the payload is `-`, and stdin was empty: pipe JSON into the command")
    return text


def _no_number(name: str) -> Any:
    raise Refused(f"the payload is not JSON: {name} is not allowed, write null or a number")
