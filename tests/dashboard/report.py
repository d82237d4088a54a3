"""How many requests were refused that must be, on the last page of every test run."""

import pytest

PROPERTY = "refusals"


def record(node: pytest.Item, routes: int, ways: int, refused: int) -> None:
    """Say how many routes were asked in how many wrong ways, and how often that was refused."""
    # Properties reach the first process from every worker of a parallel run.
    node.user_properties.append((PROPERTY, f"refusals: {routes} routes × {ways} = {refused} refused"))


def show_refusals(terminal: pytest.TerminalReporter) -> None:
    """Print it, if it was counted."""
    for outcome in ("passed", "failed"):
        for report in terminal.getreports(outcome):
            for name, value in report.user_properties if report.when == "call" else ():
                if name == PROPERTY:
                    terminal.section("what may not be changed by everybody")
                    terminal.line(str(value), red=outcome == "failed")
