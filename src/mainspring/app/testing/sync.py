"""The kit for tests that block."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from mainspring.app.options import length
from mainspring.app.testing.conduct import Conduct, Predicate
from mainspring.app.testing.values import Ran
from mainspring.timing.duration import Duration


class SyncTesting:
    """Time for tests that block: plain functions run in the test's own thread, coroutines on a loop of the kit's."""

    def __init__(self, conduct: Callable[[], Conduct]) -> None:
        self._conduct = conduct

    def drain(self) -> list[Ran]:
        """Run everything that is due. See ``Testing.drain``."""
        __tracebackhide__ = True
        return self._conduct().run_blocking(timedelta(), "drain()")

    def advance(self, span: Duration) -> list[Ran]:
        """Let time pass. See ``Testing.advance``."""
        __tracebackhide__ = True
        return self._conduct().run_blocking(length(span, "advance"), "advance(…)")

    def wait_until(self, predicate: Predicate, *, within: Duration = "1d") -> list[Ran]:
        """Run and advance until the predicate holds. See ``Testing.wait_until``."""
        __tracebackhide__ = True
        return self._conduct().wait_until_blocking(predicate, length(within, "within"))
