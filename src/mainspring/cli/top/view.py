"""Drawing ``mainspring top`` for terminals of any size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mainspring.cli.groups import NO_GROUPS, parked_in_words
from mainspring.cli.output import Column, Columns, clean, fit, many, when
from mainspring.cli.top.picture import Failing, GroupLine, Picture, Upcoming

_BARS = " ▁▂▃▄▅▆▇█"
_FRAME = "grey37"
_BESIDE = 110
"""From this width on, schedules and failures are side by side."""
_NARROW = 50
"""Below this width, only the most important columns of schedules and failures are shown."""
_FEW = 3
_LEFT_OUT = ((), ("done/s",), ("done/s", "state"), ("done/s", "state", "ready"))
"""The columns to drop from a table that is too wide, step by step."""
# Shades that are legible on dark and on light backgrounds.
_NAME, _GOOD, _BAD, _WAITING = "dodger_blue1", "green3", "red1", "gold3"
_WORDS = {
    "healthy": f"bold {_GOOD}",
    "degraded": f"bold {_WAITING}",
    "unhealthy": f"bold {_BAD}",
    "failed": _BAD,
    "dead": f"bold {_BAD}",
    "paused": _WAITING,
    "tripped": f"bold {_BAD}",
    "unserved": _WAITING,
}
_STYLES = {
    "group": _NAME,
    "ready": _WAITING,
    "oldest": _WAITING,
    "running": "bold",
    "lapsed": _WAITING,
    "done/s": _GOOD,
    "fail/s": _BAD,
    "dead": _BAD,
    "last 5 minutes": _GOOD,
}
COLUMNS: Columns[Any] = (
    Column("group", elastic=True),
    Column("state"),
    Column("ready", right=True),
    Column("running", right=True, spare=True),
    Column("done/s", right=True),
    Column("fail/s", right=True, spare=True),
    Column("oldest", right=True, spare=True),
    Column("dead", right=True, spare=True),
    Column("p95", right=True, spare=True),
    Column("lapsed", right=True, spare=True),
    Column("last 5 minutes", spare=True),
)


def rate(per_second: float) -> str:
    """Format a rate per second in few digits."""
    if per_second <= 0:
        return "·"
    if per_second >= 10_000:  # noqa: PLR2004
        return f"{per_second / 1000:.0f}k"
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.1f}" if per_second >= 0.1 else "<0.1"  # noqa: PLR2004


def span(length: timedelta) -> str:
    """Format a duration briefly: ``3 ms``, ``1.2 s``, ``4m 05s``, ``3h 12m``, ``2d 4h``."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004
        return f"{hours}h {minutes:02d}m"
    return f"{hours // 24}d {hours % 24}h"


def sparkline(values: Sequence[int]) -> str:
    """Draw a bar for each value, relative to the highest; every value above 0 is visible."""
    top = max(values, default=0)
    if not top:
        return ""
    return "".join(_BARS[max(1, round((len(_BARS) - 1) * value / top))] if value else " " for value in values)


def draw(picture: Picture, width: int, height: int, *, held: bool = False, trouble: str = "") -> RenderableType:
    """Draw one frame; ``held``: the view is paused; ``trouble``: why the data is stale."""
    below = _below(picture, width, height)
    room = height - 2 - bool(trouble) - below - 3
    shown, hidden = _chosen(picture.groups, max(room, 1))
    rows = [Layout(_heading(picture, width), size=1)]
    if trouble:
        rows.append(
            Layout(Text(f" {clean(trouble)}", style="bold white on red", no_wrap=True, overflow="ellipsis"), size=1)
        )
    rows.append(Layout(_groups(picture, shown, hidden, width), size=max(len(shown), 1) + 3))
    if below:
        rows.append(_foot(picture, width, below))
    if (left := height - 2 - bool(trouble) - max(len(shown), 1) - 3 - below) > 0:
        rows.append(Layout(Text(" "), size=left))
    rows.append(Layout(_keys(held=held), size=1))
    layout = Layout()
    layout.split_column(*rows)
    return layout


def cells(line: GroupLine, cap: int) -> list[str]:
    """Return a group as a row of ``COLUMNS``."""
    return [
        clean(line.name),
        "" if line.state == "served" else line.state,
        _counted(line.ready, cap),
        _counted(line.running, cap),
        rate(line.rate),
        rate(line.failing),
        "·" if line.oldest is None else span(line.oldest),
        _counted(line.dead, cap),
        "·" if line.p95 is None else span(timedelta(seconds=line.p95)),
        _counted(line.lapsed, cap),
        sparkline(line.pace),
    ]


def countdown(upcoming: Upcoming, picture: Picture) -> str:
    """Format the time until it is due."""
    left = upcoming.next_at - picture.now
    return "now" if left <= timedelta(seconds=1) else f"in {span(timedelta(seconds=round(left.total_seconds())))}"


def heading(picture: Picture) -> list[tuple[str, str]]:
    """Return the parts of the heading, each with its style."""
    draining = f", {picture.draining} draining" if picture.draining else ""
    return [
        (clean(picture.app), "bold"),
        (clean(picture.database), "grey62"),
        (picture.health, _WORDS[picture.health]),
        (f"{many(picture.workers, 'worker')}{draining}", "default" if picture.workers else _WAITING),
        (f"{picture.in_hand:,} in hand", "default"),
    ]


def _heading(picture: Picture, width: int) -> RenderableType:
    clock = f"{picture.now.astimezone(UTC):%H:%M:%S} UTC "
    name, database, *rest = heading(picture)
    line = Text.assemble((" mainspring top ", "bold black on sky_blue2"), "  ", name, no_wrap=True)
    if width < _NARROW:  # the status matters more than the name
        health, *rest = rest
        line = Text.assemble(("mainspring", "bold black on sky_blue2"), " ", health, "  ", name, no_wrap=True)
    tail = Text("  ").join(Text(text, style=style) for text, style in rest)
    room = width - line.cell_len - tail.cell_len - len(clock) - 5
    if room >= _FEW:
        shown = Text(database[0], style=database[1])
        shown.truncate(room, overflow="ellipsis")
        line.append("  ").append_text(shown)
    line.append("  ").append_text(tail)
    if line.cell_len + len(clock) + 1 <= width:
        line.append(" " * (width - line.cell_len - len(clock))).append(clock, style="dim")
    line.overflow = "ellipsis"
    return line


def _groups(picture: Picture, shown: Sequence[GroupLine], hidden: int, width: int) -> RenderableType:
    title = "groups" if not hidden else f"groups ({hidden:,} quieter not shown)"
    if not picture.groups:
        return _panel(Text(NO_GROUPS, style="dim"), title=title)
    rows = [cells(each, picture.cap) for each in shown]
    # The column is omitted while every group is served.
    kept = [index for index, column in enumerate(COLUMNS) if column.title != "state" or any(row[index] for row in rows)]
    widths, gap = _fitting(kept, rows, width - 4)
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for index in widths:
        column = COLUMNS[index]
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            ratio=1 if index == 0 else None,
            no_wrap=True,
            overflow="ellipsis",
        )
    for each, row in zip(shown, rows, strict=True):
        table.add_row(*(Text(row[index], style=_style(index, row[index], each)) for index in widths))
    return _panel(table, title=title, footer=parked_in_words(picture.parked) if picture.parked else "")


def _fitting(kept: list[int], rows: Sequence[Sequence[str]], room: int) -> tuple[list[int], int]:
    """Return the columns that fit; if not even the necessary ones do, the group and its ready count."""
    for left_out in _LEFT_OUT:
        shown = [index for index in kept if COLUMNS[index].title not in left_out]
        fitting, gap = fit([COLUMNS[index] for index in shown], [[row[index] for index in shown] for row in rows], room)
        # The group's column shrinks to the remaining width, as long as its beginning is recognisable.
        given = fitting[0] - _FEW if left_out else 0
        if sum(fitting.values()) - given + gap * (len(fitting) - 1) <= room:
            break
    return [shown[place] for place in fitting], gap


def _style(index: int, cell: str, line: GroupLine) -> str:
    if cell in ("·", "0"):
        return "grey37"
    if COLUMNS[index].title == "group" and line.state == "unserved" and not line.ready:
        return "dim"
    return _STYLES.get(COLUMNS[index].title) or _WORDS.get(cell, "")


def _chosen(groups: Sequence[GroupLine], room: int) -> tuple[list[GroupLine], int]:
    """Return the groups that fit, by name: of too many, the busiest."""
    if len(groups) <= room:
        return list(groups), 0
    busiest = sorted(groups, key=lambda each: (each.ready, each.rate + each.failing, each.running), reverse=True)[:room]
    return sorted(busiest, key=lambda each: each.name), len(groups) - room


def _below(picture: Picture, width: int, height: int) -> int:
    """Return the number of lines for schedules and failures together; none on a very low terminal."""
    left = height - 2 - min(len(picture.groups), max(height // 2 - 5, _FEW)) - 3
    if left < _FEW + 2:
        return 0
    upcoming, failures = (
        max(len(picture.upcoming), 1) + 2,
        max(len(picture.failures), 1) + 2 + len(picture.reasons[:_FEW]),
    )
    wanted = max(upcoming, failures) if width >= _BESIDE else upcoming + failures
    return min(wanted, left)


def _foot(picture: Picture, width: int, height: int) -> Layout:
    foot = Layout(size=height)
    if width >= _BESIDE:
        first, second = (
            Layout(_schedules(picture, height - 2, width), ratio=2),
            Layout(_failures(picture, height - 2, width), ratio=3),
        )
        foot.split_row(first, second)
        return foot
    if height < 2 * _FEW:
        worst = _failures if picture.failures or picture.reasons else _schedules
        foot.update(worst(picture, height - 2, width))
        return foot
    upper = min(max(len(picture.upcoming), 1) + 2, height // 2)
    foot.split_column(
        Layout(_schedules(picture, upper - 2, width), size=upper), Layout(_failures(picture, height - upper - 2, width))
    )
    return foot


def _schedules(picture: Picture, room: int, width: int) -> RenderableType:
    if not picture.upcoming:
        return _panel(Text("no active schedules", style="dim"), title="next")
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column(no_wrap=True, justify="right")
    if width >= _NARROW:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=3, style="grey62")
    for each in picture.upcoming[: max(room, 1)]:
        row = (Text(clean(each.name), style=_NAME), countdown(each, picture), clean(each.description))
        table.add_row(*row[: len(table.columns)])
    return _panel(table, title="next")


def _failures(picture: Picture, room: int, width: int) -> RenderableType:
    lines = [
        Text(clean(reason), style=_WORDS[picture.health], no_wrap=True, overflow="ellipsis")
        for reason in picture.reasons[:_FEW]
    ][: max(room, 1)]
    if not picture.failures and not lines:
        return _panel(Text("no failed runs kept", style=_GOOD), title="failures")
    table = Table.grid(expand=True, padding=(0, 1))
    if width >= _NARROW:
        table.add_column(no_wrap=True, justify="right", style="grey62")
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1, max_width=24)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=3 if width >= _NARROW else 1)
    for each in picture.failures[: max(room - len(lines), 0)]:
        table.add_row(*_failed(each, picture)[-len(table.columns) :])
    return _panel(Group(*lines, table), title="failures")


def _failed(each: Failing, picture: Picture) -> tuple[str, Text, Text, str]:
    ago, style = when(each.at, picture.now), _WORDS[each.status]
    return ago, Text(each.status, style=style), Text(clean(each.group), style=_NAME), clean(each.error)


def _keys(*, held: bool) -> RenderableType:
    line = Text(" ", no_wrap=True, overflow="ellipsis")
    if held:
        line.append(" paused ", style="bold black on yellow").append("  ")
    for key, word in (("q", "quit"), ("p", "continue" if held else "pause")):
        line.append(key, style="bold").append(f" {word}   ", style="dim")
    return line


def _panel(body: RenderableType, *, title: str, footer: str = "") -> Panel:
    return Panel(
        body,
        title=title,
        title_align="left",
        subtitle=footer or None,
        subtitle_align="left",
        box=box.ROUNDED,
        border_style=_FRAME,
        padding=(0, 1),
    )


def _counted(count: int, cap: int) -> str:
    return f"{cap:,}+" if count >= cap else f"{count:,}"
