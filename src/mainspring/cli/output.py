"""Output: tables, facts and JSON, and values as text that is safe to print on a terminal."""

from __future__ import annotations

import base64
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mainspring.app.page import Page
from mainspring.cli.capture import CAPTURE, DATABASE
from mainspring.model.views import DeliveryView, MessageView

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_GAP = 2
_LEAST, _READABLE = 8, 18
"""The minimum widths of an elastic column: the first always; the second while spare columns are shown."""
STATE_STYLES = {
    "scheduled": "cyan",
    "ready": "yellow",
    "running": "bold blue",
    "lapsed": "bold yellow",
    "done": "green",
    "failed": "red",
    "snoozed": "yellow",
    "dead": "bold red",
    "cancelled": "dim",
    "parked": "magenta",
    "seen": "yellow",
    "processing": "bold blue",
    "paused": "yellow",
    "active": "green",
    "frozen": "bold cyan",
    "finished": "dim",
    "retired": "dim",
    "held": "green",
    "expired": "yellow",
    "free": "dim",
    "broken": "bold red",
    "served": "green",
    "draining": "yellow",
    "drained": "bold cyan",
    "silent": "dim",
    "unserved": "yellow",
    "healthy": "bold green",
    "degraded": "bold yellow",
    "unhealthy": "bold red",
    "ok": "green",
    "note": "cyan",
    "warning": "bold yellow",
    "error": "bold red",
    "default": "dim",
}


def clean(text: str) -> str:
    """Return the text on one line, without control characters: a stored error must not control the terminal."""
    return _CONTROL.sub("", " ".join(text.split()))


def visible(text: str) -> str:
    """Return the text with its lines, without control characters."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").expandtabs(4))


def first_line(text: str | None) -> str:
    """Return the first line that is not empty."""
    return clean(next((line for line in (text or "").splitlines() if line.strip()), ""))


def when(instant: datetime | None, now: datetime | None = None) -> str:
    """Format the distance of an instant, in its largest unit: ``in 14m``, ``3s ago``, ``now``."""
    if instant is None:
        return ""
    # In UTC: two times in one zone would be compared by local time, ignoring offset changes.
    seconds = (instant.astimezone(UTC) - (now or datetime.now(UTC)).astimezone(UTC)) / timedelta(seconds=1)
    if abs(seconds) < 1:
        return "now"
    # Future times are rounded up by half a second, or a delay of 15m would at once be shown as 14m.
    distance = round(seconds + 0.49) if seconds > 0 else int(-seconds)
    unit, size = next((unit, size) for unit, size in _UNITS if distance >= size)
    return f"in {distance // size}{unit}" if seconds > 0 else f"{distance // size}{unit} ago"


def progress_of(delivery: DeliveryView) -> str:
    """Format the last progress report of its handler and its time; empty if there is none."""
    text = clean(delivery.progress or "")
    return f"{text} ({when(delivery.progress_at)})" if text else ""


def since(at: datetime | None, by: str | None, reason: str | None) -> str:
    """Format when an operator stopped something, and why: ``3m ago by ann: incident 7``; empty if it is not stopped."""
    return "" if at is None else f"{when(at)} by {by}" + (f": {reason}" if reason else "")


def many(count: int, one: str, more: str | None = None) -> str:
    """Format a count with its noun: ``1 delivery``, ``1,204 deliveries``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def payload_of(message: MessageView) -> tuple[Any, str]:
    """Return the payload as a value, and its encoding: ``json`` or ``base64``."""
    if message.content_type.partition(";")[0].strip().endswith("json"):
        try:
            return json.loads(message.payload), "json"
        except ValueError:
            pass
    return base64.b64encode(message.payload).decode(), "base64"


def plain(value: Any) -> Any:
    """Convert a view to JSON values: ISO instants in UTC, ids as text, durations in seconds."""
    if isinstance(value, MessageView):
        payload, encoding = payload_of(value)
        return {**_builtins(value), "payload": payload, "payload_encoding": encoding}
    return _builtins(value)


def _builtins(value: Any) -> Any:
    return _seconds(msgspec.to_builtins(value, builtin_types=(timedelta,)))


def _seconds(value: Any) -> Any:
    match value:
        case timedelta():
            return value / timedelta(seconds=1)
        case dict():
            return {name: _seconds(each) for name, each in value.items()}
        case list() | tuple():
            return [_seconds(each) for each in value]
        case _:
            return value


def to_json(value: Any) -> str:
    """Return one JSON document."""
    values = [plain(each) for each in value] if isinstance(value, list | tuple) else plain(value)
    return json.dumps(values, ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column, as wide as its contents unless elastic."""

    title: str
    cell: Callable[[T], object] | None = None
    """The value of a row in a list: numbers are grouped by thousands, and an instant is its distance from now."""
    right: bool = False
    elastic: bool = False
    """Truncated on a narrow terminal; pipes and files get the full text."""
    spare: bool = False
    """Omitted on a narrow terminal, from the first one on."""
    wraps: bool = False
    """Wrapped instead of truncated."""


Columns = Sequence[Column[T]]


def stdout() -> Console:
    """Return the console for output; it does not interpret markup."""
    return Console(highlight=False, markup=False, emoji=False)


def print_line(text: str, *, style: str = "") -> None:
    """Print one line: without markup, and without added line breaks."""
    stdout().print(Text(visible(text), style=style), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(to_json(value) + "\n")


def print_result(value: Any, *lines: str, json: bool) -> None:
    """Print the result of a command, as JSON or as lines of text."""
    if json:
        print_json(value)
    else:
        for line in lines:
            print_line(line)


def print_table(columns: Columns[Any], rows: Iterable[Sequence[str]]) -> None:
    """Print the rows; cells that name a state are coloured, and omitted columns are listed below."""
    console = stdout()
    cells = [[clean(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        _print_columns(columns, cells)
        return
    # The box takes one cell at each side and one between columns.
    widths, gap = fit(columns, cells, console.width - 2)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, gap - 1, 0, 0))
    for index, width in widths.items():
        column = columns[index]
        table.add_column(
            column.title,
            width=width,
            justify="right" if column.right else "left",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for row in cells:
        table.add_row(*(Text(row[index], style=STATE_STYLES.get(row[index], "")) for index in widths))
    console.print(table)
    left_out = [
        column.title for index, column in enumerate(columns) if index not in widths and any(row[index] for row in cells)
    ]
    if left_out:
        print_line(f"No room for {', '.join(left_out)}: widen the terminal, or add --json", style="dim")


def print_list(
    columns: Columns[T],
    found: Sequence[T],
    *,
    json: bool = False,
    empty: str = "",
    values: Callable[[T], Any] = plain,
) -> bool:
    """Print what a command has found: as JSON, as a table, or ``empty``. Return whether a table was printed.

    After a page that is not the last one, the option that gets the next: on stderr if stdout is JSON.
    """
    name = None if CAPTURE.get() is None else DATABASE.get()
    one = "" if name is None else f"--database {shlex.quote(name)} "
    more = f"There is more: add {one}--cursor {found.cursor}" if isinstance(found, Page) and found.cursor else ""
    if json:
        print_json([values(each) for each in found])
        if more:
            sys.stderr.write(f"{more}\n")
        return False
    if not found:
        print_line(empty)
        return False
    cells = [column.cell for column in columns if column.cell is not None]
    print_table(columns, [[_cell(cell(each)) for cell in cells] for each in found])
    if more:
        print_line(more, style="dim")
    return True


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case int():
            return f"{value:,}"
        case datetime():
            return when(value)
        case _:
            return str(value)


def fit(columns: Columns[Any], cells: Sequence[Sequence[str]], room: int) -> tuple[dict[int, int], int]:
    """Return which columns to show, their widths, and the gap between them.

    Spare columns are shown if they fit beside the others. If the others do not fit, first the gap goes, then elastic
    columns share the remaining width.
    """
    natural = [max(cell_len(line[index]) for line in [_titles(columns), *cells]) for index in range(len(columns))]
    elastic = [column.elastic for column in columns]
    readable, least = (
        [min(width, bound) if gives else width for width, gives in zip(natural, elastic, strict=True)]
        for bound in (_READABLE, _LEAST)
    )
    shown = [index for index, column in enumerate(columns) if not column.spare]
    for spare in [index for index, column in enumerate(columns) if column.spare]:
        if _together(readable, [*shown, spare], _GAP) <= room:
            shown = sorted([*shown, spare])
    gap = _GAP if _together(least, shown, _GAP) <= room else 1
    widths = {index: least[index] for index in shown}
    left = room - _together(least, shown, gap)
    while left > 0 and (short := [index for index in shown if widths[index] < natural[index]]):
        for index in short[:left]:
            widths[index] += 1
        left -= len(short)
    return widths, gap


def _together(widths: Sequence[int], shown: Sequence[int], gap: int) -> int:
    return sum(widths[index] for index in shown) + gap * (len(shown) - 1)


def _titles(columns: Columns[Any]) -> list[str]:
    return [column.title for column in columns]


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values below each other; empty values are omitted."""
    given = [(name, clean(value)) for name, value in facts if value]
    width = max((len(name) for name, _ in given), default=0)
    console = stdout()
    for name, value in given:
        line = Text(f"{name:<{width}}  ", style="dim").append(value, style=STATE_STYLES.get(value, "default"))
        console.print(line, soft_wrap=True)


def heading(text: str) -> None:
    """Print an empty line and a heading."""
    console = stdout()
    console.print()
    console.print(Text(text, style="bold"))


def _print_columns(columns: Columns[Any], cells: Sequence[Sequence[str]]) -> None:
    lines = [[title.upper() for title in _titles(columns)], *cells]
    widths = [max(cell_len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
