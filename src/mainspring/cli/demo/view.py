"""The demo as it is drawn: tiles, one line per group, and what just happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.align import Align
from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mainspring.cli.demo.journal import Event, Kind

_BARS = "▁▂▃▄▅▆▇█"
_FRAME = "grey37"
_EVENTS: dict[Kind, tuple[str, str]] = {
    "placed": ("published", "cyan"),
    "undone": ("rolled back", "yellow"),
    "handled": ("handled", "green"),
    "retry": ("retry", "yellow"),
    "paid": ("cancelled", "magenta"),
    "expired": ("handled", "green"),
    "dead": ("dead letter", "bold red"),
}
_GROUP_COLOURS = ("sky_blue2", "sea_green2", "plum2")


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group in numbers."""

    name: str
    topic: str
    published: int
    handled: int
    retried: int
    cancelled: int
    dead: int
    waiting: int
    """Everything not settled yet: ready, running, to be retried or scheduled."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one frame shows."""

    elapsed: float
    limit: float
    placed: int
    undone: int
    paid: int
    expired: int
    pace: Sequence[int]
    """Deliveries handled in each of the last seconds."""
    groups: Sequence[GroupLine]
    events: Sequence[Event]

    @property
    def totals(self) -> GroupLine:
        """All groups together."""
        return total_of(self.groups)


def total_of(groups: Sequence[GroupLine]) -> GroupLine:
    """All groups together."""
    numbers = ("published", "handled", "retried", "cancelled", "dead", "waiting")
    sums = {name: sum(getattr(each, name) for each in groups) for name in numbers}
    return GroupLine("all", "", **sums)


def draw(scene: Scene, width: int, height: int) -> RenderableType:
    """One frame, made to fit."""
    layout = Layout()
    rows = height - 1 - 5 - (len(scene.groups) + 4) - 3
    layout.split_column(
        Layout(_heading(scene), size=1),
        Layout(_tiles(scene), size=5),
        Layout(_groups(scene, width), size=len(scene.groups) + 4),
        Layout(_log(scene.events[: max(rows, 1)], scene.groups)),
        Layout(_legend(), size=1),
    )
    return layout


def _heading(scene: Scene) -> RenderableType:
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    left = max(0, round(scene.limit - scene.elapsed))
    name = Text(" mainspring ", style="bold black on sky_blue2").append(
        "  a small shop, one process, one SQLite file", style="default on default"
    )
    line.add_row(name, Text(f"{left} s left · Ctrl-C ends ", style="dim"))
    return line


def _tiles(scene: Scene) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 0))
    totals = scene.totals
    tiles = [
        ("orders placed", f"{scene.placed}", "cyan", f"{scene.undone} rolled back"),
        ("handled", f"{totals.handled}", "green", _sparkline(scene.pace)),
        ("retried", f"{totals.retried}", "yellow", "the mail server is busy"),
        ("timeouts cancelled", f"{totals.cancelled}", "magenta", f"{scene.expired} ran out"),
        ("dead letters", f"{totals.dead}", "red" if totals.dead else "dim", "unreadable orders"),
    ]
    for _ in tiles:
        grid.add_column(ratio=1)
    grid.add_row(*(_tile(*tile) for tile in tiles))
    return grid


def _tile(title: str, number: str, colour: str, note: str) -> Panel:
    body = Group(
        Align.center(Text(number, style=f"bold {colour}")),
        Align.center(Text(title, no_wrap=True, overflow="ellipsis")),
        Align.center(Text(note, style="dim", no_wrap=True, overflow="ellipsis")),
    )
    return Panel(body, box=box.ROUNDED, border_style=_FRAME, padding=(0, 0))


def _groups(scene: Scene, width: int) -> RenderableType:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("group", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True)
    for title in ("published", "handled", "retries", "cancelled", "dead", "waiting"):
        table.add_column(title, justify="right", no_wrap=True)
    room = max(8, width - 78)
    for index, each in enumerate(scene.groups):
        table.add_row(
            Text(each.name, style=_GROUP_COLOURS[index % len(_GROUP_COLOURS)]),
            _bar(each, room),
            Text(f"{each.published}", style="cyan"),
            Text(f"{each.handled}", style="green"),
            _number(each.retried, "yellow"),
            _number(each.cancelled, "magenta"),
            _number(each.dead, "bold red"),
            _number(each.waiting, "default"),
        )
    return Panel(
        table, title="deliveries, one copy per group", title_align="left", box=box.ROUNDED, border_style=_FRAME, padding=(0, 1)
    )


def _number(count: int, style: str) -> Text:
    return Text(f"{count}" if count else "·", style=style if count else "grey37")


def _bar(each: GroupLine, room: int) -> Text:
    """The share of every outcome; each that occurs has at least one cell."""
    shares = [(each.handled, "green"), (each.cancelled, "magenta"), (each.dead, "red"), (each.waiting, "grey50")]
    whole = max(1, sum(count for count, _ in shares))
    cells = [max(1, round(room * count / whole)) if count else 0 for count, _ in shares]
    largest = cells.index(max(cells))
    cells[largest] += room - sum(cells) if any(cells) else 0
    bar = Text(no_wrap=True)
    for count, (_, colour) in zip(cells, shares, strict=True):
        bar.append("━" * max(0, count), style=colour)
    return bar if any(cells) else Text("━" * room, style="grey23")


def _log(events: Sequence[Event], groups: Sequence[GroupLine]) -> RenderableType:
    colours = {each.name: _GROUP_COLOURS[index % len(_GROUP_COLOURS)] for index, each in enumerate(groups)}
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(no_wrap=True, style="grey50")
    table.add_column(no_wrap=True, min_width=11)
    table.add_column(no_wrap=True, min_width=13)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for event in events:
        word, style = _EVENTS[event.kind]
        clock = f"{time.strftime('%H:%M:%S', time.localtime(event.at))}.{int(event.at * 10) % 10}"
        group = Text(event.group or "customer", style=colours.get(event.group, "default"))
        table.add_row(clock, Text(word, style=style), group, event.text)
    return Panel(table, title="what just happened", title_align="left", box=box.ROUNDED, border_style=_FRAME, padding=(0, 1))


def _legend() -> RenderableType:
    line = Text(" ", no_wrap=True, overflow="ellipsis")
    for word, colour in (("handled", "green"), ("cancelled", "magenta"), ("dead", "red"), ("waiting", "grey50")):
        line.append("━━ ", style=colour).append(f"{word}   ", style="dim")
    return line


def _sparkline(values: Sequence[int]) -> str:
    top = max(values, default=0) or 1
    return "".join(_BARS[round((len(_BARS) - 1) * value / top)] for value in values)
