"""Listings: a coloured table on a terminal, plain columns elsewhere, JSON on request."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mainspring.cli.words import clean, to_json, visible

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


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as wide as its contents unless elastic."""

    title: str
    right: bool = False
    elastic: bool = False
    """Truncated on a narrow terminal; pipes and files get the full text."""
    spare: bool = False
    """Omitted on a narrow terminal, from the first one on."""
    wraps: bool = False
    """Wrapped instead of truncated."""


def stdout() -> Console:
    """Return the console for output; it does not interpret markup."""
    return Console(highlight=False, markup=False, emoji=False)


def say(text: str, *, style: str = "") -> None:
    """Print one line: without markup, and without added line breaks."""
    stdout().print(Text(visible(text), style=style), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(to_json(value) + "\n")


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
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
        say(f"No room for {', '.join(left_out)}: widen the terminal, or add --json", style="dim")


def fit(columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int) -> tuple[dict[int, int], int]:
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


def _titles(columns: Sequence[Column]) -> list[str]:
    return [column.title for column in columns]


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values below each other; empty values are omitted."""
    given = [(name, clean(value)) for name, value in facts if value]
    width = max((len(name) for name, _ in given), default=0)
    console = stdout()
    for name, value in given:
        line = Text(f"{name:<{width}}  ", style="dim").append(value, style=STATE_STYLES.get(value, "default"))
        console.print(line, soft_wrap=True)


def _print_columns(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    lines = [[title.upper() for title in _titles(columns)], *cells]
    widths = [max(cell_len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
