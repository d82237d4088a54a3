"""What the runtime knows of a consumer, and what a consumer may know of its run."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainspring.model.message import Delivery, Keep
from mainspring.model.schedule import SCHEDULE_HEADER
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.breaker import Breaker


class Run:
    """One attempt in progress. The keeper, the executor and the handler's context all look at it.

    ``started`` and ``deadline`` are monotonic seconds; ``stop_reason`` is set once, by whoever asks it to stop.
    """

    __slots__ = (
        "_stopped",
        "deadline",
        "delivery",
        "handler",
        "held_until",
        "started",
        "stop_reason",
        "task",
    )

    def __init__(self, delivery: Delivery, handler: Handler, held_until: float) -> None:
        self.delivery: Delivery = delivery
        self.handler: Handler = handler
        self.held_until: float = held_until
        self.started: float | None = None
        self.deadline: float | None = None
        self.stop_reason: str | None = None
        self.task: Any = None
        self._stopped: threading.Event | None = None

    @property
    def stopped(self) -> threading.Event:
        """Set when the handler should stop; made on first use, since most handlers never look."""
        if self._stopped is None:
            self._stopped = threading.Event()
            if self.stop_reason is not None:
                self._stopped.set()
        return self._stopped

    def ask_to_stop(self, reason: str) -> None:
        """Tell the handler to stop; the first reason stands."""
        if self.stop_reason is None:
            self.stop_reason = reason
        if self._stopped is not None:
            self._stopped.set()


@dataclass(frozen=True, slots=True)
class Program:
    """What the processes of a consumer run: names from the registry, never from a stored row (invariant 9).

    ``entry`` is the module whose ``main(channel, lifeline)`` serves. The function is ``qualname`` in ``module``, which
    is imported as ``source``, or run from the file ``source`` where it is a script.
    """

    entry: str
    group: str
    module: str
    qualname: str
    source: str
    is_script: bool = False
    prefix: str = ""
    """What goes before stored names."""


Around = Callable[[Run, Callable[[], Awaitable[object]]], Awaitable[object]]
"""What stands around every attempt: it is given the run, and what performs it."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A consumer as the runtime sees it: everything compiled, nothing left to look up.

    ``call`` decodes and runs. For an async handler it returns an awaitable; with ``threaded`` it is called in a
    thread and returns the result itself. It raises ``Unreadable`` when the stored bytes do not fit. With a
    ``program`` it is called in a process that can be killed, and not here.
    """

    group: str
    call: Callable[[Delivery, Run], Awaitable[object]] | Callable[[Delivery, Run], object]
    retry: RetryPolicy
    threaded: bool = False
    concurrency: int = 10
    timeout: timedelta | None = None
    keep: Keep = "failures"
    keep_scheduled: Keep = "all"
    """How much history the occurrences of schedules leave."""
    around: Around | None = None
    breaker: Breaker | None = None
    program: Program | None = None

    def keeps(self, delivery: Delivery) -> Keep:
        """How much history this delivery leaves."""
        headers = delivery.headers
        return self.keep if headers is None or SCHEDULE_HEADER not in headers else self.keep_scheduled
