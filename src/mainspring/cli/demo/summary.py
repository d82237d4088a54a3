"""The end of the demo: the library's ledger compared with the shop's own tables, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from mainspring.app.mainspring import Mainspring
from mainspring.cli.demo.journal import Journal
from mainspring.cli.demo.shop import GROUPS, REPORT, ZONE, books
from mainspring.cli.demo.view import GroupLine, total_of
from mainspring.cli.tables import Column, print_table, say, stdout
from mainspring.cli.target import VARIABLE, typed_name
from mainspring.model.views import Counts, DeliveryView

_PAGE = 500


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
    dead: Sequence[DeliveryView]

    @property
    def right(self) -> bool:
        """Whether all comparisons hold."""
        return all(each.right for each in self.findings)


async def add_up(app: Mainspring, path: Path, journal: Journal) -> Account:
    """Read the ledger and the shop's tables after the worker has ended, and compare them."""
    with books(path) as connection:
        (orders,) = connection.execute("SELECT count(*) FROM orders").fetchone()
    tally = await app.tally()
    counts = {each.group: each for each in tally.groups}
    groups = [_line(name, orders, counts.get(name, Counts(name)), await _cancelled(app, name)) for name in GROUPS]
    total, noted = total_of(groups), sum(journal.handled[each] for each in GROUPS)
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
            f"the ledger has {total.handled} handled, the handlers counted {noted}",
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
    return Account(groups, findings, await app.dead.list())


async def _cancelled(app: Mainspring, group: str) -> int:
    count, before = 0, None
    while page := await app.messages.list("cancelled", group=group, before=before, limit=_PAGE):
        count += len(page)
        before = page[-1].seq
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
        say("\nThe numbers do not agree. This is a bug: please report it with the file below.", style="bold red")
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
    if account.dead:
        first = account.dead[-1].message_id
        fixed = """'{"order_id": 3, "customer": "Mallory", "total": 10}'"""
        commands += [(f"{name} dead show {first}", ""), (f"{name} dead revive {first} --payload {fixed}", "")]
    say("\nThe shop's database is kept. What to type next:\n", style="bold")
    say(f"  export {VARIABLE}=sqlite:///{path}", style="cyan")
    width = max(len(command) for command, note in commands if note)
    for command, note in commands:
        say_both(f"  {command:<{width}}", f"  # {note}" if note else "")
    made_here = path.parent.name.startswith("mainspring-demo-")
    say(f"\nTo delete it: rm -r {path.parent if made_here else path}", style="dim")


def say_both(command: str, note: str) -> None:
    """Print a command and, dimmed, its purpose."""
    stdout().print(Text.assemble((command, "cyan"), (note, "dim")), soft_wrap=True)
