"""One line per fault run, shown on the last page of every test run."""

import pytest

PROPERTY = "fault run"


class Report:
    """Where a test says what it injected and what came of it; the line travels with the test's own report."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def __call__(self, what: str, *findings: str) -> None:
        line = f"{what}: {' '.join(findings)}"
        print(line)
        # Properties reach the first process from every worker of a parallel run.
        self._node.user_properties.append((PROPERTY, line))


def show_reports(terminal: pytest.TerminalReporter) -> None:
    """Print the lines of every test that has run, passed or not."""
    lines = [
        (str(value), outcome)
        for outcome in ("passed", "failed")
        for report in terminal.getreports(outcome)
        if report.when == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminal.section("fault runs")
    for line, outcome in sorted(lines):
        terminal.line(line if outcome == "passed" else f"FAILED {line}", red=outcome == "failed")
