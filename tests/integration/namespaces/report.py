"""What the walk through two namespaces has found, as one line on the last page of every test run."""

import pytest

PROPERTY = "namespace walk"


def note(node: pytest.Item, engine: str, calls: int, leaks: int) -> None:
    """Remember how many calls were made on a database, and what they let through."""
    # Properties reach the first process from every worker of a parallel run.
    node.user_properties.append((PROPERTY, f"{engine} {calls} {leaks}"))


def show_namespaces(terminal: pytest.TerminalReporter) -> None:
    """Print the line, if the walk has run."""
    made: dict[str, int] = {}
    leaks = 0
    for outcome in ("passed", "failed"):
        for report in terminal.getreports(outcome):
            for name, value in report.user_properties if report.when == "call" else ():
                if name == PROPERTY:
                    engine, calls, found = str(value).split()
                    leaks += int(found)
                    made[engine] = made.get(engine, 0) + int(calls)
    made.pop("memory", None)  # where two apps have nothing in common but the process
    if made:
        line = f"namespaces: {max(made.values())} calls × {len(made)} databases, {leaks} leaks"
        terminal.line(line, red=bool(leaks))
