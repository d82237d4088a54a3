"""A consumer as the runtime sees it, and the run that a handler's context exposes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mainspring.model.join import is_member
from mainspring.model.limits import Limits
from mainspring.model.message import Delivery, Keep
from mainspring.model.schedule import (
    DEAD_HEADER,
    OWN_RETRY,
    RETRY_HEADER,
    TIMEOUT_HEADER,
    UNLIMITED,
    DeadLetters,
)
from mainspring.model.text import plain, repr_of, storable
from mainspring.model.verdict import Bury, Settlement, Verdict
from mainspring.timing.backoff import RetryPolicy, read_policy
from mainspring.timing.breaker import Breaker

if TYPE_CHECKING:
    from mainspring.brokers.link import Link

_logger = logging.getLogger("mainspring.worker")
T = TypeVar("T")
_SHOWN = 60
LONGEST_PROGRESS = 500
"""The maximum length of a progress text; the rest is cut."""


class ContextCall(Coroutine[Any, Any, T]):
    """A call of a context, ``ctx.publish(…)``: noted in its run until it is awaited, or a task begins it."""

    __slots__ = ("_coroutine", "_noted", "shown", "subject")

    def __init__(self, coroutine: Coroutine[Any, Any, T], run: Run, shown: str, subject: object) -> None:
        self._coroutine = coroutine
        self._noted = noted = run.unawaited if run.unawaited is not None else run.note_unawaited()
        self.shown: str = shown
        self.subject: object = subject
        noted.add(self)

    def __await__(self) -> Generator[Any, Any, T]:
        """Begin."""
        self._noted.discard(self)
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Begin or continue, in a task."""
        self._noted.discard(self)
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise in it."""
        self._noted.discard(self)
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End it; if it has not begun, it never will."""
        self._noted.discard(self)
        self._coroutine.close()


class Run:
    """One attempt in progress, shared by the keeper, the executor and the handler's context.

    ``started``, ``deadline`` and ``arrived`` (when its claim came here) are monotonic seconds. ``stop_reason`` is set
    once, at ``stopped_at``. In a transactional consumer ``tx`` is the handle of its transaction, open since
    ``tx_since``; ``posted`` is whether it has published in it, and ``settled`` the verdict committed with it.
    ``progress`` is the handler's last report, ``reported`` the one the keeper has stored, ``on_progress`` a callback
    for each. ``ran`` is whether the handler was called, ``judged`` whether its verdict is on its way, or is
    being committed, ``owner`` its claim's holder. ``unawaited`` are calls of its context that have not begun, None if
    there were no calls.
    """

    __slots__ = (
        "_stopped",
        "arrived",
        "cancels",
        "deadline",
        "delivery",
        "handler",
        "held_until",
        "judged",
        "on_progress",
        "owner",
        "posted",
        "progress",
        "ran",
        "reported",
        "settled",
        "started",
        "stop_reason",
        "stopped_at",
        "task",
        "tx",
        "tx_since",
        "unawaited",
    )

    def __init__(
        self, delivery: Delivery, handler: Handler, held_until: float, arrived: float | None = None, owner: str = ""
    ) -> None:
        self.delivery: Delivery = delivery
        self.handler: Handler = handler
        self.held_until: float = held_until
        self.arrived: float | None = arrived
        self.owner: str = owner
        self.ran: bool = False
        self.judged: bool = False
        self.started: float | None = None
        self.deadline: float | None = None
        self.stop_reason: str | None = None
        self.stopped_at: float | None = None
        self.cancels: int = 0
        self.task: Any = None
        self.tx: Any = None
        self.tx_since: float | None = None
        self.posted: bool = False
        self.settled: Settlement | None = None
        self.progress: str | None = None
        self.reported: str | None = None
        self.on_progress: Callable[[], None] | None = None
        self.unawaited: set[ContextCall[Any]] | None = None
        self._stopped: threading.Event | None = None

    @property
    def stopped(self) -> threading.Event:
        """Set when the handler should stop; created on first use, since most handlers never check it."""
        if self._stopped is None:
            self._stopped = threading.Event()
            if self.stop_reason is not None:
                self._stopped.set()
        return self._stopped

    @property
    def waited(self) -> float:
        """Seconds from its due time to its start: by the database's clock up to the claim, then by this host's."""
        before = (self.delivery.claimed_at - self.delivery.due_at).total_seconds()
        return before if self.arrived is None or self.started is None else before + self.started - self.arrived

    def lend(self, handle: object, since: float | None) -> None:
        """Record its transaction, and since when it is open; None when it is closed."""
        self.tx, self.tx_since = handle, since
        if handle is not None:
            self.posted = False
            self.unawaited = None  # those of a try that ended in a conflict

    def note_unawaited(self) -> set[ContextCall[Any]]:
        """Return the set for the first call of its context."""
        self.unawaited = noted = set[ContextCall[Any]]()
        return noted

    def refuse_unawaited(self) -> None:
        """Raise TypeError for a call of its context that was not awaited: nothing was stored (invariant 25)."""
        if not self.unawaited:
            return
        forgotten = list(self.unawaited)
        for each in forgotten:
            each.close()  # else it would warn, when no handler is near
        call, subject = forgotten[0].shown, repr_of(forgotten[0].subject, _SHOWN)
        raise TypeError(
            f"the handler called {call}({subject}, …) and did not await it, so nothing was stored: write "
            f"`await {call}(…)`, or `ctx.sync.{call.removeprefix('ctx.')}(…)` in a plain function"
        )

    def report(self, progress: object) -> None:
        """Record the progress, from any thread. Never waits, and no value fails the run."""
        self.progress = storable(plain(progress)[:LONGEST_PROGRESS])[:LONGEST_PROGRESS]
        if self.on_progress is not None:
            self.on_progress()

    def ask_to_stop(self, reason: str) -> None:
        """Ask the handler to stop; the first reason is kept."""
        if self.stop_reason is None:
            self.stop_reason, self.stopped_at = reason, time.monotonic()
        if self._stopped is not None:
            self._stopped.set()

    def cancel(self) -> None:
        """Cancel its task, and count that, to distinguish it from cancellations by others."""
        self.cancels += 1
        self.task.cancel()


@dataclass(frozen=True, slots=True)
class Program:
    """What the processes of a consumer run: names from the registry, never from a stored row (invariant 9).

    ``entry`` is the module whose ``main(channel, lifeline)`` serves. The function is ``qualname`` in ``module``, which
    is imported as ``source``, or run from the file ``source`` if it is a script.
    """

    entry: str
    group: str
    module: str
    qualname: str
    source: str
    is_script: bool = False


Around = Callable[[Run, Callable[[], Awaitable[object]]], Awaitable[object]]
"""Wraps every attempt: gets the run, and a function that performs it."""


Call = Callable[[Delivery, Run], Awaitable[object]] | Callable[[Delivery, Run], object]
"""A handler, ready to be called."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How many messages a handler gets at once, and how many seconds the first may wait for others."""

    size: int
    linger: float


@dataclass(frozen=True, slots=True)
class Handler:
    """A consumer as the runtime sees it: everything compiled, nothing left to look up.

    ``call`` decodes and runs. For an async handler it returns an awaitable; with ``threaded`` it is called in a
    thread and returns the result itself. It raises ``Unreadable`` when the stored bytes do not fit. With a
    ``program`` it is called in a process that can be killed, and not here. For a transactional consumer it also opens
    the transaction, settles and commits; ``bare`` is the call within. With ``batching`` its run is a ``Batch``, and its
    result covers each message in it.
    """

    group: str
    call: Call
    retry: RetryPolicy
    threaded: bool = False
    concurrency: int = 10
    timeout: timedelta | None = None
    keep: Keep = "failures"
    keep_scheduled: Keep = "all"
    """How much history is kept of occurrences of schedules."""
    retry_scheduled: RetryPolicy | None = None
    """The policy for occurrences of schedules that name none [``retry``]."""
    dead: DeadLetters = "latest"
    """Which dead letters are kept of a schedule that does not say so."""
    around: Around | None = None
    breaker: Breaker | None = None
    program: Program | None = None
    limits: Limits | None = None
    """Order, concurrency and rates across all workers."""
    bare: Call | None = None
    ended: Callable[[], Awaitable[None]] | None = None
    """Closes what its calls have opened, at the end of the worker."""
    batching: Batching | None = None
    newer_wait: timedelta = timedelta(days=1)
    """How long a message of a newer version waits for a worker that can read it."""
    link: Link | None = None
    """The connection of a route to its broker."""

    def settlement(self, delivery: Delivery, verdict: Verdict, took: timedelta) -> Settlement:
        """Return the verdict on one of its deliveries, ready to be written."""
        if delivery.schedule is None or type(verdict) is not Bury:
            return Settlement(delivery.claim, verdict, self.keeps(delivery), took, is_member(delivery))
        kept = _header(delivery, DEAD_HEADER) or self.dead
        replaces = kept == "latest"
        return Settlement(delivery.claim, verdict, self.keeps(delivery), took, is_member(delivery), replaces)

    def keeps(self, delivery: Delivery) -> Keep:
        """Return how much history is kept of this delivery."""
        return self.keep if delivery.schedule is None else self.keep_scheduled

    def retry_of(self, delivery: Delivery) -> RetryPolicy:
        """Return the policy for this delivery: that of its schedule, if it is an occurrence."""
        if delivery.schedule is None:
            return self.retry
        written = _header(delivery, RETRY_HEADER)
        if written == _OWN_RETRY:
            return self.retry
        policy = None if written is None else _read_retry(written)
        return policy or self.retry_scheduled or self.retry

    def timeout_of(self, delivery: Delivery) -> timedelta | None:
        """Return the time limit of this delivery: that of its schedule, if it is an occurrence."""
        if delivery.schedule is None:
            return self.timeout
        written = _header(delivery, TIMEOUT_HEADER)
        if written is None:
            return self.timeout
        if written == UNLIMITED:
            return None
        return _read_timeout(written) or self.timeout


_OWN_RETRY = msgspec.json.encode(OWN_RETRY).decode()


def _header(delivery: Delivery, name: str) -> str | None:
    return None if delivery.headers is None else delivery.headers.get(name)


# Cached, so that what cannot be read is logged once, not with every run.
@lru_cache(maxsize=256)
def _read_retry(written: str) -> RetryPolicy | None:
    try:
        return read_policy(msgspec.json.decode(written))
    except ValueError as error:
        _logger.warning("a schedule's retry policy is not used, and its consumer's is: %s", error)
        return None


@lru_cache(maxsize=256)
def _read_timeout(written: str) -> timedelta | None:
    try:
        return timedelta(seconds=float(written))
    except (ValueError, OverflowError):
        _logger.warning("a schedule's timeout of %r seconds is not used, and its consumer's is", written)
        return None
