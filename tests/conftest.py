"""What every test shares: the servers, the size of the fault runs, and an honest last page."""

import compileall
import gc
import os
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.report import show_refusals
from tests.faults.report import show_reports
from tests.integration.handles.report import show_handles
from tests.integration.namespaces.report import show_namespaces
from tests.raising.report import show_raises
from tests.services.introspection import ask_once
from tests.services.measuring import MARK as UNMEASURED
from tests.services.measuring import paused, pytest_runtest_protocol
from tests.services.needs import MARK
from tests.services.postgres import HOME, postgres_schema, postgres_schemas, postgres_url
from tests.services.rewriting import rewrite
from tests.services.scratch import into_memory
from tests.services.watch import watched_home
from tests.sharing import in_turn, pytest_xdist_make_scheduler

__all__ = [
    "large",
    "postgres_schema",
    "postgres_schemas",
    "postgres_url",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
]

_ROOT = Path(__file__).parents[1]
_OPEN = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help="run the fault tests at their full size")
    parser.addoption("--quick", action="store_true", help="run the contract on SQLite and in memory only")


@pytest.fixture(scope="session")
def large(request: pytest.FixtureRequest) -> bool:
    """Whether the fault tests run at their full size (`--large`)."""
    return bool(request.config.getoption("--large"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", UNMEASURED)
    # What is set on the desk of whoever runs the tests is no part of them.
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        if not name.startswith(("MAINSPRING_TEST_", "MAINSPRING_FAULT_", "MAINSPRING_BENCH_")):
            del os.environ[name]
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[HOME] = Path(worker["postgres_home"])
        ask_once()
        return
    into_memory()
    # Hundreds of tests start a process; under PYTHONDONTWRITEBYTECODE each would compile the package for itself.
    for room in ("src", "tests"):
        compileall.compile_dir(_ROOT / room, quiet=2)
    if getattr(config.option, "numprocesses", None):
        rewrite(_ROOT / "tests")
    # The first process of the run holds the server's home open: it ends after every worker.
    config.stash[_OPEN] = ExitStack()
    config.stash[HOME] = config.stash[_OPEN].enter_context(watched_home())
    os.environ["MAINSPRING_TEST_HOME"] = str(config.stash[HOME])
    ask_once()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    # What pytest makes of the asserts is kept, whatever PYTHONDONTWRITEBYTECODE says: without it every worker of every
    # run parses every file anew, which takes half of the time until its first test. Only here: a test may write a
    # module twice within a second, and would be given the first one again.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    # All workers import the same: what that measures, the first one measures for all.
    first = getattr(session.config, "workerinput", {}).get("workerid", "gw0") == "gw0"
    # What is imported and collected stays to the end: the garbage collector need never look at it.
    gc.disable()
    try:
        with nullcontext() if first else paused(session.config):
            return (yield)
    finally:
        sys.dont_write_bytecode = before
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    in_turn(items)
    if not config.getoption("--large"):
        large_ones = [item for item in items if item.get_closest_marker("large")]
        config.hook.pytest_deselected(items=large_ones)
        items[:] = [item for item in items if item not in large_ones]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["postgres_home"] = str(node.config.stash[HOME])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OPEN in config.stash:
        config.stash[_OPEN].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = Counter(
        str(report.longrepr[2]).split(MARK, 1)[1].strip()
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple) and MARK in report.longrepr[2]
    )
    if missing:
        terminalreporter.section("did not run", red=True)
    for what, count in sorted(missing.items()):
        terminalreporter.line(f"{count} tests need what is {MARK} {what}")
    show_reports(terminalreporter)
    show_handles(terminalreporter)
    show_namespaces(terminalreporter)
    show_refusals(terminalreporter)
    show_raises(terminalreporter)
