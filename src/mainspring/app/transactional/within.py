"""A handler's call within a transaction: begin, handle, settle, commit, as one (invariant 3)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

from mainspring.app.transactional import conflicts
from mainspring.app.transactional.settlements import concluding, parts, pinning, settlements
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadHandle, ClaimLost, StorageUnavailable
from mainspring.model.message import Delivery
from mainspring.model.verdict import Done, Settlement
from mainspring.runtime.batch import Batch, Undone
from mainspring.runtime.executor import STOP_LOST
from mainspring.runtime.handler import Call, Run
from mainspring.runtime.judgement import RowLocked
from mainspring.storage.script import Script

_PATIENCE = 30.0
"""Seconds that a coroutine's verdict may take to be written: a network that is down must not keep it for ever."""


Succeeding = Callable[[Delivery], Script[object]]
"""What else becomes of a delivery that is done, as part of its transaction."""


@dataclass(frozen=True, slots=True)
class Within:
    """What is needed around the calls of one consumer."""

    begin: Callable[[], Any]
    transactions: Transactions
    committed: Callable[[], None]
    """Hears of a commit in which something was published."""
    pins: bool
    """Whether it may be above READ COMMITTED: only a factory of the user's can make it so."""
    succeeding: Succeeding | None = None
    """What is written with a success, before it is settled."""

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
        join, rooms = self.transactions.run, self.transactions.rooms
        with _closing(run) as failing:
            async with begin() as handle:
                with failing:
                    run.lend(handle, time.monotonic())
                    if self.pins:
                        with _waiting(run):
                            await join(handle, pinning(rooms, run))
                    result = await cast("Awaitable[object]", bare(delivery, run))
                    settled = settlements(run, result)
                    with _settling(run), _waiting(run):
                        async with asyncio.timeout(_PATIENCE):
                            for script in self._besides(settled):
                                await join(handle, script)
                            ours = await join(handle, concluding(rooms, settled.values(), run.owner))
                    _refuse_lost(run, ours=ours)
        self._done(run, settled)
        return result

    def _once_blocking(self, bare: Call, delivery: Delivery, run: Run) -> object:
        begin = cast("Callable[[], AbstractContextManager[Any]]", self.begin)
        join, rooms = self.transactions.run_blocking, self.transactions.rooms
        with _closing(run) as failing, begin() as handle, failing:
            run.lend(handle, time.monotonic())
            if self.pins:
                with _waiting(run):
                    join(handle, pinning(rooms, run))
            result = bare(delivery, run)
            settled = settlements(run, result)
            with _settling(run), _waiting(run):
                for script in self._besides(settled):
                    join(handle, script)
                ours = join(handle, concluding(rooms, settled.values(), run.owner))
            _refuse_lost(run, ours=ours)
        self._done(run, settled)
        return result

    def _besides(self, settled: Mapping[Run, Settlement]) -> Iterator[Script[object]]:
        if self.succeeding is not None:
            for run, settlement in settled.items():
                if isinstance(settlement.verdict, Done):
                    yield self.succeeding(run.delivery)

    def _done(self, run: Run, settled: Mapping[Run, Settlement]) -> None:
        for each, settlement in settled.items():
            each.settled = settlement
        if any(each.posted for each in parts(run)):
            self.committed()


def within(bare: Call, around: Within, *, threaded: bool) -> Call:
    """The handler's call with a transaction around it."""
    if threaded:
        return lambda delivery, run: around.call_blocking(bare, delivery, run)
    return lambda delivery, run: around.call(bare, delivery, run)


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
        run.lend(None, None)
    if failing.raised is not None:
        raise failing.raised


@contextmanager
def _waiting(run: Run) -> Iterator[None]:
    """A row that another session has locked is waited for, but not for ever: that is no failure of the attempt."""
    try:
        yield
    except Exception as error:
        if not conflicts.is_locked_out(error):
            raise
        raise RowLocked(
            f"another session has locked the row of message {run.delivery.message_id}, or what is settled with it, "
            "in a transaction that stays open"
        ) from error


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


def _refuse_lost(run: Run, *, ours: bool) -> None:
    if ours:
        return
    if isinstance(run, Batch):
        raise Undone("a claim in the batch was lost: its transaction is undone")
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
