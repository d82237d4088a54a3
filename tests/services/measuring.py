"""Tests whose lines are not counted."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext

import pytest

MARK = "unmeasured: its lines are measured by other tests, and tracing them would double its time"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let nothing be traced while a test that is marked so is set up, run and torn down.

    The mark ``no_cover`` of pytest-cov is for the call alone, and opening a storage takes longer than most calls.
    """
    # Of one with both marks pytest-cov sees to it: who pauses twice would measure twice from then on.
    wanted = item.get_closest_marker("unmeasured") is None or item.get_closest_marker("no_cover") is not None
    with nullcontext() if wanted else paused(item.config):
        return (yield)


@contextmanager
def paused(config: pytest.Config) -> Iterator[None]:
    """Let nothing be traced in this process meanwhile."""
    measuring = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if measuring is None:
        yield
        return
    measuring.pause()
    try:
        yield
    finally:
        # Whoever begins to measure wraps it once more, and each of the wrappers writes down everything at the exit of a
        # forked child: after a thousand of these tests that takes a quarter of a minute.
        leave = os._exit
        measuring.resume()
        os._exit = leave
