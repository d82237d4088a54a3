"""How many raises ended in a verdict, on the last page of every test run."""

import pytest

PROPERTY = "raise"


def record(node: pytest.Item, verdict: str) -> None:
    """Say what became of one cell of the matrix; an empty word is no verdict."""
    # Properties reach the first process from every worker of a parallel run.
    node.user_properties.append((PROPERTY, verdict))


def show_raises(terminal: pytest.TerminalReporter) -> None:
    """Print the count, if any was made."""
    cells = [
        bool(value) and outcome == "passed"
        for outcome in ("passed", "failed")
        for report in terminal.getreports(outcome)
        if report.when == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if cells:
        terminal.section("what handlers raise")
        terminal.line(f"raise matrix: {len(cells)} cells, {sum(cells)} verdicts", red=not all(cells))
