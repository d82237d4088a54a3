"""A handler's call within a transaction: begin, handle, settle, commit, as one (invariant 3)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from mainspring.app.transactional import conflicts
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadHandle, ClaimLost, StorageUnavailable
from mainspring.model.message import Delivery
from mainspring.model.verdict import Settlement
from mainspring.runtime import judgement
from mainspring.runtime.executor import STOP_LOST, STOP_TIMEOUT
from mainspring.runtime.handler import Call, Run

_PATIENCE = 30.0
"""Seconds that a coroutine's verdict may take to be written: a network that is down must not keep it for ever."""
_NEVER_COMMITTED = (STOP_LOST, STOP_TIMEOUT)
"""Why a run that was told to stop, and returned all the same, is undone. One that was only asked to may finish."""


@dataclass(frozen=True, slots=True)
class Within:
    """What is needed around the calls of one consumer."""

    begin: Callable[[], Any]
    transactions: Transactions
    now: Callable[[], datetime | None]
    committed: Callable[[], None]
    """Hears of a commit in which something was published."""
    pins: bool
    """Whether it may be above READ COMMITTED: only a factory of the user's can make it so."""

    async def call(self, bare: Call, delivery: Delivery, run: Run) -> object:
        """Call a coroutine function in a transaction, again where it collides with another."""
        tries = 1
        while True:
            try:
                return await self._once(bare, delivery, run)
            except Exception as error:
                if (wait := _again(error, tries, run)) is None:
                    raise
            await asyncio.sleep(wait)
            tries += 1

    def call_blocking(self, bare: Call, delivery: Delivery, run: Run) -> object:
        """Call a plain function in a transaction, all of it in this thread."""
        tries = 1
        while True:
            try:
                return self._once_blocking(bare, delivery, run)
            except Exception as error:
                if (wait := _again(error, tries, run)) is None:
                    raise
            run.stopped.wait(wait)
            tries += 1

    async def _once(self, bare: Call, delivery: Delivery, run: Run) -> object:
        begin = cast("Callable[[], AbstractAsyncContextManager[Any]]", self.begin)
        join, scripts = self.transactions.run, self.transactions.dialect.mailbox
        with _closing(run) as failing:
            async with begin() as handle:
                with failing:
                    _open(run, handle)
                    if self.pins:
                        await join(handle, scripts.pin(delivery.claim))
                    result = await cast("Awaitable[object]", bare(delivery, run))
                    settlement = _settlement(run, result)
                    with _settling(run):
                        async with asyncio.timeout(_PATIENCE):
                            ours = await join(handle, scripts.conclude(settlement, self.now()))
                    _refuse_lost(run, ours=ours)
        self._done(run, settlement)
        return result

    def _once_blocking(self, bare: Call, delivery: Delivery, run: Run) -> object:
        begin = cast("Callable[[], AbstractContextManager[Any]]", self.begin)
        join, scripts = self.transactions.run_blocking, self.transactions.dialect.mailbox
        with _closing(run) as failing, begin() as handle, failing:
            _open(run, handle)
            if self.pins:
                join(handle, scripts.pin(delivery.claim))
            result = bare(delivery, run)
            settlement = _settlement(run, result)
            with _settling(run):
                ours = join(handle, scripts.conclude(settlement, self.now()))
            _refuse_lost(run, ours=ours)
        self._done(run, settlement)
        return result

    def _done(self, run: Run, settlement: Settlement) -> None:
        run.settled = settlement
        if run.posted:
            self.committed()


def within(bare: Call, around: Within, *, threaded: bool) -> Call:
    """The handler's call with a transaction around it."""
    if threaded:
        return lambda delivery, run: around.call_blocking(bare, delivery, run)
    return lambda delivery, run: around.call(bare, delivery, run)


def _open(run: Run, handle: object) -> None:
    run.tx, run.tx_since, run.posted = handle, time.monotonic(), False


class _Failing:
    """Remembers what was raised within a transaction, in case what gave the transaction keeps it to itself."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None

    def __enter__(self) -> None:
        """From here on."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Up to here."""
        self.raised = error


@contextmanager
def _closing(run: Run) -> Iterator[_Failing]:
    """Close it whatever happens. A block that swallows an error has committed nothing: it is raised all the same."""
    failing = _Failing()
    try:
        yield failing
    finally:
        run.tx = run.tx_since = None
    if failing.raised is not None:
        raise failing.raised


@contextmanager
def _settling(run: Run) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise StorageUnavailable(f"the database has not answered for {_PATIENCE:g} s, when it was to settle") from error
    except BadHandle as error:
        raise BadHandle(
            f"the transaction of message {run.delivery.message_id} cannot be settled, since its handler has ended it, "
            f"or gone on after a statement had failed: never commit ctx.tx nor roll it back ({error})"
        ) from error


def _settlement(run: Run, result: object) -> Settlement:
    """The verdict to be committed with it; raises where there must be no commit."""
    if run.stop_reason in _NEVER_COMMITTED:
        raise ClaimLost(f"the transaction of message {run.delivery.message_id} is undone: {run.stop_reason}")
    took = timedelta(seconds=time.monotonic() - (run.started or 0.0))
    return run.handler.settlement(run.delivery, judgement.of_result(result), took)


def _refuse_lost(run: Run, *, ours: bool) -> None:
    if ours:
        return
    # Whoever has it now decides: for this run there is no verdict any more.
    run.ask_to_stop(STOP_LOST)
    raise ClaimLost(f"the claim on message {run.delivery.message_id} was lost: its transaction is undone")


def _again(error: Exception, tries: int, run: Run) -> float | None:
    """How long to wait before the next try; None: there is none. Raises a conflict that nothing cures."""
    kind = conflicts.named(error)
    if kind is None or run.stop_reason is not None:
        return None
    if tries >= conflicts.TRIES:
        raise conflicts.given_up(kind, error) from error
    return conflicts.pause(tries, random.random())
