"""Listings: a table with colour on a terminal, plain columns elsewhere, JSON when asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mainspring.cli.words import clean, to_json, visible

_NARROW = 110
"""Below this many columns a terminal shows only what matters most."""

STATE_STYLES = {
    "scheduled": "cyan",
    "ready": "yellow",
    "running": "bold blue",
    "done": "green",
    "dead": "bold red",
    "cancelled": "dim",
    "parked": "magenta",
    "paused": "yellow",
    "served": "green",
    "unserved": "yellow",
    "healthy": "bold green",
    "degraded": "bold yellow",
    "unhealthy": "bold red",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``whole`` is never cut; ``spare`` is left out where the terminal is narrow."""

    title: str
    style: str = ""
    right: bool = False
    whole: bool = False
    spare: bool = False


def stdout() -> Console:
    """The console that answers go to; it never reads markup in what it prints."""
    return Console(highlight=False, markup=False, emoji=False)


def say(text: str, *, style: str = "") -> None:
    """One line for people: nothing in it is interpreted, and what is copied from it has no line breaks of ours."""
    stdout().print(Text(visible(text), style=style), soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(to_json(value) + "\n")


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Draw the rows; cells that name a state are coloured by it."""
    console = stdout()
    cells = [[clean(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        _print_columns(columns, cells)
        return
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title or None,
        title_style="bold",
        title_justify="left",
        header_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    shown = [index for index, column in enumerate(columns) if not (column.spare and console.width < _NARROW)]
    for index in shown:
        column = columns[index]
        table.add_column(
            column.title,
            style=column.style,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="fold" if column.whole else "ellipsis",
            min_width=max((len(row[index]) for row in cells), default=0) if column.whole else None,
        )
    for row in cells:
        table.add_row(*(Text(row[index], style=STATE_STYLES.get(row[index], "")) for index in shown))
    console.print(table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other; empty values are left out."""
    given = [(name, clean(value)) for name, value in facts if value]
    width = max((len(name) for name, _ in given), default=0)
    console = stdout()
    for name, value in given:
        line = Text(f"{name:<{width}}  ", style="dim").append(value, style=STATE_STYLES.get(value, "default"))
        console.print(line, soft_wrap=True)


def _print_columns(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    lines = [[column.title.upper() for column in columns], *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
