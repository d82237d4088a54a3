"""The table of every handle and what became of what it published, on the last page of every test run."""

from collections import defaultdict

import pytest

PROPERTY = "handle"
FATES = ("commit", "rollback", "savepoint rollback", "exception", "idempotent retry")


def record(node: pytest.Item, handle: str, database: str, fate: str, published: int, found: int) -> None:
    """Say what one test of the matrix published, and what an independent client found of it."""
    line = f"{database}|{handle}|{fate}|{found}/{published}"
    # Properties reach the first process from every worker of a parallel run.
    node.user_properties.append((PROPERTY, line))


def show_handles(terminal: pytest.TerminalReporter) -> None:
    """Print the table of every test that has run, passed or not."""
    cells: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for outcome in ("passed", "failed"):
        for report in terminal.getreports(outcome):
            for name, value in report.user_properties if report.when == "call" else ():
                if name == PROPERTY:
                    database, handle, fate, counts = str(value).split("|")
                    cells[database, handle][fate] = counts if outcome == "passed" else f"{counts} FAILED"
    if not cells:
        return
    terminal.section("found of what was published, by handle")
    width = max(len(handle) for _, handle in cells)
    terminal.line(f"{'database':<10}  {'tx=':<{width}}  " + "  ".join(f"{fate:>18}" for fate in FATES))
    for (database, handle), row in sorted(cells.items()):
        line = f"{database:<10}  {handle:<{width}}  " + "  ".join(f"{row.get(fate, '-'):>18}" for fate in FATES)
        terminal.line(line, red="FAILED" in line)
