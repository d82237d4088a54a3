"""Drawing the demo while it runs, and its summary at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from rich import box
from rich.align import Align
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.layout import Layout
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mainspring.app.mainspring import Mainspring
from mainspring.app.schedule.view import ScheduleView
from mainspring.cli.demo.shop import GROUPS, REPORT, ZONE, Event, Journal, Kind, books
from mainspring.cli.output import Column, print_line, print_table, stdout, when
from mainspring.cli.target import VARIABLE, typed_name
from mainspring.model.views import Counts, DeliveryView

_BARS = "▁▂▃▄▅▆▇█"
_FRAME = "grey37"
_WIDE = 96
_EVENTS: dict[Kind, tuple[str, str]] = {
    "placed": ("published", "cyan"),
    "undone": ("rolled back", "yellow"),
    "handled": ("handled", "green"),
    "retry": ("retry", "yellow"),
    "paid": ("cancelled", "magenta"),
    "expired": ("handled", "green"),
    "report": ("recurring", "sky_blue2"),
    "dead": ("dead letter", "bold red"),
}
_GROUP_COLOURS = ("sky_blue2", "sea_green2", "plum2")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class GroupLine:
    """The counts of one group."""

    name: str
    topic: str
    published: int
    handled: int
    retried: int
    cancelled: int
    dead: int
    waiting: int
    """Everything not settled: ready, running, retrying or scheduled."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The contents of one frame."""

    elapsed: float
    limit: float | None
    """None: until interrupted."""
    dashboard: str
    """The dashboard's address, or why there is none."""
    placed: int
    undone: int
    expired: int
    pace: Sequence[int]
    """Deliveries handled per second, over the last seconds."""
    groups: Sequence[GroupLine]
    schedule: ScheduleView | None
    """None before the worker has declared it."""
    reports: int
    events: Sequence[Event]

    @property
    def totals(self) -> GroupLine:
        """The sums over all groups."""
        return total_of(self.groups)


def total_of(groups: Sequence[GroupLine]) -> GroupLine:
    """Return the sums over all groups."""
    numbers = ("published", "handled", "retried", "cancelled", "dead", "waiting")
    sums = {name: sum(getattr(each, name) for each in groups) for name in numbers}
    return GroupLine("all", "", **sums)


def draw(scene: Scene, width: int, height: int) -> RenderableType:
    """Draw one frame for this size of terminal."""
    tiles, groups, schedule, legend = 5, len(scene.groups) + 3, 3, 1
    room = height - 2 - tiles - groups - schedule - legend - 2
    layout = Layout()
    layout.split_column(
        Layout(_heading(scene), size=1),
        Layout(_address(scene), size=1),
        Layout(_tiles(scene, width), size=tiles),
        Layout(_groups(scene, wide=width >= _WIDE), size=groups),
        Layout(_schedule(scene), size=schedule),
        Layout(_log(scene.events[: max(room, 1)], scene.groups)),
        Layout(_legend(), size=legend),
    )
    return layout


def _heading(scene: Scene) -> RenderableType:
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    left = "" if scene.limit is None else f"{max(0, round(scene.limit - scene.elapsed))} s left · "
    name = Text.assemble((" mainspring ", "bold black on sky_blue2"), "  a small shop, one process, one SQLite file")
    line.add_row(name, Text(f"{left}Ctrl-C ends ", style="dim"))
    return line


def _address(scene: Scene) -> RenderableType:
    link = f"underline link {scene.dashboard}" if scene.dashboard.startswith("http") else "dim"
    return Text.assemble((" dashboard ", "bold black on sea_green2"), "  ", (scene.dashboard, link))


def _tiles(scene: Scene, width: int) -> RenderableType:
    totals = scene.totals
    tiles = (
        ("orders placed", scene.placed, "cyan", f"{scene.undone} rolled back"),
        ("handled", totals.handled, "green", _sparkline(scene.pace, width // 5 - 6)),
        ("retried", totals.retried, "yellow", "busy mail"),
        ("cancelled", totals.cancelled, "magenta", f"{scene.expired} ran out"),
        ("dead letters", totals.dead, "red", "unreadable"),
    )
    grid = Table.grid(expand=True)
    for _ in tiles:
        grid.add_column(ratio=1)
    grid.add_row(*(_tile(*tile) for tile in tiles))
    return grid


def _tile(title: str, number: int, colour: str, note: str) -> Panel:
    body = Group(
        Align.center(Text(f"{number}", style=f"bold {colour}" if number else "dim")),
        Align.center(Text(title, no_wrap=True, overflow="ellipsis")),
        Align.center(Text(note, style="grey62", no_wrap=True, overflow="ellipsis")),
    )
    return _panel(body, padding=0)


def _groups(scene: Scene, *, wide: bool) -> RenderableType:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("group", no_wrap=True)
    if wide:
        table.add_column("topic", no_wrap=True, style="grey62")
    table.add_column("", ratio=1, no_wrap=True)
    for title in ("published", "handled", "retries", "cancelled", "dead", "waiting"):
        table.add_column(title, justify="right", no_wrap=True)
    for index, each in enumerate(scene.groups):
        name = Text(each.name, style=_GROUP_COLOURS[index % len(_GROUP_COLOURS)])
        table.add_row(
            *((name, each.topic) if wide else (name,)),
            _Bar(each),
            _number(each.published, "cyan"),
            _number(each.handled, "green"),
            _number(each.retried, "yellow"),
            _number(each.cancelled, "magenta"),
            _number(each.dead, "bold red"),
            _number(each.waiting, "default"),
        )
    return _panel(table, title="deliveries, one copy per group")


def _schedule(scene: Scene) -> RenderableType:
    view, line = scene.schedule, Table.grid(expand=True, padding=(0, 2, 0, 0))
    if view is None:
        return _panel(Text("not declared yet", style="dim"), title="schedule")
    zone = ZoneInfo(view.timezone)
    upcoming, last = "", "never ran"
    if view.next_at is not None:
        upcoming = f"next {view.next_at.astimezone(zone):%H:%M:%S}, {when(view.next_at)}"
    if view.last_run is not None:
        last = f"last {view.last_run.status}, {when(view.last_run.finished_at)}"
    for _ in range(3):
        line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, ratio=1, justify="right")
    line.add_row(Text(view.name, style="sky_blue2"), upcoming, last, f"{view.fired} fired, {view.missed} missed")
    return _panel(line, title=f"schedule: {view.description.lower()}, in {view.timezone}")


def _panel(body: RenderableType, *, title: str | None = None, padding: int = 1) -> Panel:
    return Panel(body, title=title, title_align="left", box=box.ROUNDED, border_style=_FRAME, padding=(0, padding))


def _number(count: int, style: str) -> Text:
    return Text(f"{count}" if count else "·", style=style if count else "grey37")


class _Bar:
    """A bar with the share of each outcome; each that occurs has at least one cell."""

    def __init__(self, line: GroupLine) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line, room = self._line, options.max_width
        shares = [(line.handled, "green"), (line.cancelled, "magenta"), (line.dead, "red"), (line.waiting, "grey50")]
        whole = sum(count for count, _ in shares)
        cells = [max(1, room * count // whole) if count else 0 for count, _ in shares]
        if not whole:
            yield Text("━" * room, style="grey23")
            return
        cells[cells.index(max(cells))] += room - sum(cells)
        yield Text.assemble(*(("━" * count, colour) for count, (_, colour) in zip(cells, shares, strict=True)))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(8, options.max_width)


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
    return _panel(table, title="recent events")


def _legend() -> RenderableType:
    line = Text(" ", no_wrap=True, overflow="ellipsis")
    for word, colour in (("handled", "green"), ("cancelled", "magenta"), ("dead", "red"), ("waiting", "grey50")):
        line.append("━━ ", style=colour).append(f"{word}   ", style="dim")
    return line


def _sparkline(values: Sequence[int], room: int) -> str:
    shown = values[-max(room, 1) :]
    top = max(shown, default=0) or 1
    return "".join(_BARS[(len(_BARS) - 1) * value // top] for value in shown) + " /s"


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison, and whether it holds."""

    right: bool
    text: str


@dataclass(frozen=True, slots=True)
class Account:
    """All numbers of the run. ``published`` comes from the shop's own tables, the rest from the library's ledger."""

    groups: Sequence[GroupLine]
    findings: Sequence[Finding]
    unread: Sequence[DeliveryView]
    """The dead letters of orders. Recurring jobs of the demo may have some, too."""

    @property
    def right(self) -> bool:
        """Whether all comparisons hold."""
        return all(each.right for each in self.findings)


async def add_up(app: Mainspring, path: Path, journal: Journal) -> Account:
    """Read the ledger and the shop's tables after the worker has ended, and compare them."""
    with books(path) as connection:
        (orders,) = connection.execute("SELECT count(*) FROM orders").fetchone()
    tally = await app.stats.tally()
    counts = {each.group: each for each in tally.groups}
    groups = [_line(name, orders, counts.get(name, Counts(name)), await _cancelled(app, name)) for name in GROUPS]
    total, counted = total_of(groups), sum(journal.handled[each] for each in GROUPS)
    settled = total.handled + total.cancelled + total.dead + total.waiting
    reports, schedule = counts.get(REPORT, Counts(REPORT)), await app.schedules.get(REPORT)
    fired, made = 0 if schedule is None else schedule.fired, journal.counts["report"]
    unmade = reports.scheduled + reports.ready + reports.running + reports.lapsed
    findings = [
        Finding(
            all(each.published == each.handled + each.cancelled + each.dead + each.waiting for each in groups),
            f"{total.published} published = {total.handled} handled + {total.cancelled} cancelled + {total.dead} dead "
            f"+ {total.waiting} waiting" + ("" if settled == total.published else f", but that is {settled}"),
        ),
        Finding(
            all(each.handled == journal.handled[each.name] for each in groups),
            f"the ledger has {total.handled} handled, the handlers counted {counted}",
        ),
        Finding(
            total.cancelled == journal.counts["paid"] and orders == journal.counts["placed"],
            f"{orders} orders are in the shop's table, {journal.counts['paid']} were paid before their timeout",
        ),
        Finding(
            journal.ghosts == 0 and tally.parked == 0,
            f"{journal.counts['undone']} orders were rolled back, {journal.ghosts} of their messages were delivered",
        ),
        Finding(
            fired == made + unmade,
            f"{fired} reports were due in {ZONE}, {made} were made" + (f", {unmade} wait" if unmade else ""),
        ),
    ]
    return Account(groups, findings, await app.dead.list(topic="orders.placed"))


async def _cancelled(app: Mainspring, group: str) -> int:
    page = await app.messages.list("cancelled", group=group, limit=_PAGE)
    count = len(page)
    while page.cursor is not None:
        page = await app.messages.list("cancelled", group=group, cursor=page.cursor, limit=_PAGE)
        count += len(page)
    return count


def _line(name: str, published: int, counts: Counts, cancelled: int) -> GroupLine:
    waiting = counts.scheduled + counts.ready + counts.running + counts.lapsed
    return GroupLine(name, "", published, counts.handled, counts.failed, cancelled, counts.dead, waiting)


def print_summary(account: Account, path: Path) -> None:
    """Print the table, the comparisons, and commands that work on the remaining file."""
    _print_numbers(account)
    console = stdout()
    console.print()
    for each in account.findings:
        mark = Text(" ✓ ", style="bold green") if each.right else Text(" ✗ ", style="bold red")
        console.print(mark.append(each.text, style="default"), soft_wrap=True)
    if not account.right:
        print_line("\nThe numbers do not agree. This is a bug: please report it with the file below.", style="bold red")
    _print_next(account, path)


def _print_numbers(account: Account) -> None:
    numbers = ("published", "handled", "cancelled", "dead", "waiting", "retried")
    titles = ("group", "published", "= handled", "+ cancelled", "+ dead", "+ waiting", "failures")
    lines = [*account.groups, total_of(account.groups)]
    rows = [(each.name, *(str(getattr(each, name)) for name in numbers)) for each in lines]
    console = stdout()
    if not console.is_terminal:
        print_table([Column(title, right=title != "group") for title in titles], rows)
        return
    table = Table(
        box=box.SIMPLE, header_style="bold", show_footer=True, footer_style="bold", pad_edge=False, padding=(0, 1, 0, 0)
    )
    styles = ("", "cyan", "green", "magenta", "red", "", "yellow")
    for title, style, sum_ in zip(titles, styles, rows[-1], strict=True):
        table.add_column(title, sum_, style=style, justify="left" if title == "group" else "right", no_wrap=True)
    for row in rows[:-1]:
        table.add_row(*row)
    console.print(table)


def _print_next(account: Account, path: Path) -> None:
    name = typed_name()
    commands = [
        (f"{name} groups list", "every group and its backlog"),
        (f"{name} schedules list", "the report, and its next time"),
        (f"{name} messages list", "the pending payment timeouts"),
        (f"{name} dead list", "dead letters and their errors"),
    ]
    if account.unread:
        first = account.unread[-1].message_id
        fixed = """'{"order_id": 3, "customer": "Mallory", "total": 10}'"""
        commands += [(f"{name} dead show {first}", ""), (f"{name} dead revive {first} --payload {fixed}", "")]
    print_line("\nThe shop's database is kept. What to type next:\n", style="bold")
    print_line(f"  export {VARIABLE}=sqlite:///{path}", style="cyan")
    width = max(len(command) for command, note in commands if note)
    for command, note in commands:
        _print_command(f"  {command:<{width}}", f"  # {note}" if note else "")
    made_here = path.parent.name.startswith("mainspring-demo-")
    print_line(f"\nTo delete it: rm -r {path.parent if made_here else path}", style="dim")


def _print_command(command: str, note: str) -> None:
    """Print a command and, dimmed, its purpose."""
    stdout().print(Text.assemble((command, "cyan"), (note, "dim")), soft_wrap=True)
