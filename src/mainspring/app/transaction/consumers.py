"""Transactional consumers: a handler's writes, what it publishes and its verdict are one transaction (invariant 3)."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from mainspring.app.storages import OperationSet
from mainspring.app.transaction.enlistment import Transactions
from mainspring.app.transaction.sources import Source
from mainspring.model.errors import (
    BadHandle,
    BadOption,
    ClaimLost,
    DatabaseMoved,
    NotGranted,
    StorageUnavailable,
    TransactionConflict,
)
from mainspring.model.interrupts import is_interrupt
from mainspring.model.message import Delivery
from mainspring.model.text import described
from mainspring.model.verdict import Done, Settlement, Verdict
from mainspring.runtime import verdicts
from mainspring.runtime.batch import Batch, BatchRolledBack
from mainspring.runtime.executor import STOP_LOST, STOP_TIMEOUT
from mainspring.runtime.handler import Call, Run
from mainspring.runtime.verdicts import NotSettled
from mainspring.storage.contract import Lender
from mainspring.storage.script import Script

_PATIENCE = 30.0
"""Seconds that writing a coroutine's verdict may take: a dead network must not block it forever."""


Succeeding = Callable[[Delivery], Script[object]]
"""An extra script for a delivery that is done, as part of its transaction."""


@dataclass(frozen=True, slots=True)
class TransactionalCall:
    """The call of one consumer's handler in a transaction."""

    bare: Call
    """The call without a transaction."""
    begin: Callable[[], Any]
    transactions: Transactions
    pins: bool
    """Whether it may be above READ COMMITTED: only a user's factory can set that."""
    succeeding: Succeeding | None = None
    """Written with a success, before it is settled."""

    async def call(self, delivery: Delivery, run: Run) -> object:
        """Call a coroutine function in a transaction; retry after a conflict."""
        tries = 1
        while True:
            try:
                return await self._once(delivery, run)
            except Exception as error:
                if (wait := _again(error, tries, run)) is None:
                    raise
            await asyncio.sleep(wait)
            tries += 1

    def call_blocking(self, delivery: Delivery, run: Run) -> object:
        """Call a plain function in a transaction, all of it in this thread."""
        tries = 1
        while True:
            try:
                return self._once_blocking(delivery, run)
            except Exception as error:
                if (wait := _again(error, tries, run)) is None:
                    raise
            run.stopped.wait(wait)
            tries += 1

    async def _once(self, delivery: Delivery, run: Run) -> object:
        begin = cast("Callable[[], AbstractAsyncContextManager[Any]]", self.begin)
        enlist, operations = self.transactions.run, self.transactions.operations
        with _closing(run) as failing:
            async with begin() as handle:
                with failing:
                    run.lend(handle, time.monotonic())
                    if self.pins:
                        with _waiting(run):
                            await enlist(handle, _pinning(operations, run))
                    result = await cast("Awaitable[object]", self.bare(delivery, run))
                    settled = _settlements(run, result)
                    with _settling(run), _waiting(run):
                        async with asyncio.timeout(_PATIENCE):
                            for script in self._besides(settled):
                                await enlist(handle, script)
                            ours = await enlist(handle, _settling_all(operations, settled.values(), run.owner))
                    _refuse_lost(run, ours=ours)
        self._done(run, settled)
        return result

    def _once_blocking(self, delivery: Delivery, run: Run) -> object:
        begin = cast("Callable[[], AbstractContextManager[Any]]", self.begin)
        enlist, operations = self.transactions.run_blocking, self.transactions.operations
        with _closing(run) as failing, begin() as handle, failing:
            run.lend(handle, time.monotonic())
            if self.pins:
                with _waiting(run):
                    enlist(handle, _pinning(operations, run))
            result = self.bare(delivery, run)
            settled = _settlements(run, result)
            with _settling(run), _waiting(run):
                for script in self._besides(settled):
                    enlist(handle, script)
                ours = enlist(handle, _settling_all(operations, settled.values(), run.owner))
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
        if any(each.posted for each in _parts(run)):
            self.transactions.after_commit()


class _Failing:
    """The error raised within a transaction, in case the transaction's own block suppresses it."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None

    def __enter__(self) -> None:
        """Start here."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Keep it."""
        self.raised = error


@contextmanager
def _closing(run: Run) -> Iterator[_Failing]:
    """Close it in any case. A block that suppresses an error has committed nothing: the error is raised again."""
    failing = _Failing()
    try:
        yield failing
    except BaseException:
        _judge(run, judged=False)
        raise
    finally:
        run.lend(None, None)
    if failing.raised is not None:
        _judge(run, judged=False)
        raise failing.raised


def _judge(run: Run, *, judged: bool) -> None:
    """Note whether only its own commit can end its claim: then a keeper that finds none has not lost it."""
    for each in _parts(run):
        each.judged = judged


@contextmanager
def _waiting(run: Run) -> Iterator[None]:
    """Raise NotSettled if a row stays locked, a right is missing or the database moves: the attempt has not failed."""
    try:
        yield
    except (NotGranted, DatabaseMoved) as error:
        raise NotSettled(str(error)) from error
    except Exception as error:
        if not _is_locked_out(error):
            raise
        raise NotSettled(
            f"another session has locked the row of message {run.delivery.message_id}, or what is settled with it, "
            "in a transaction that stays open"
        ) from error


@contextmanager
def _settling(run: Run) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise StorageUnavailable(f"the database did not settle the message within {_PATIENCE:g} s") from error
    except BadHandle as error:
        raise BadHandle(
            f"the transaction of message {run.delivery.message_id} cannot be settled, since its handler has ended it, "
            f"or continued after a failed statement: never commit ctx.tx nor roll it back ({error})"
        ) from error


def _refuse_lost(run: Run, *, ours: bool) -> None:
    if ours:
        _judge(run, judged=True)
        return
    if isinstance(run, Batch):
        raise BatchRolledBack("a claim in the batch was lost: its transaction is undone")
    # The new holder decides: this run no longer has a verdict.
    run.ask_to_stop(STOP_LOST)
    raise ClaimLost(f"the claim on message {run.delivery.message_id} was lost: its transaction is undone")


def _again(error: Exception, tries: int, run: Run) -> float | None:
    """Return the seconds until the next try, or None. Raises a conflict that was retried too often."""
    kind = named(error)
    if kind is None or run.stop_reason is not None:
        return None
    if tries >= TRIES:
        raise TransactionConflict(f"{kind}; {TRIES} tries in a row failed, the last with {described(error)}") from error
    return float(_PAUSE * 2**tries * random.uniform(0.5, 1.5))  # with jitter against another collision


_NEVER_COMMITTED = (STOP_LOST, STOP_TIMEOUT)
"""Stop reasons that undo a run even if it returns. After any other stop it may finish."""


def _parts(run: Run) -> Sequence[Run]:
    """Return the runs to settle one by one: those of a batch, or this one."""
    return run.runs if isinstance(run, Batch) else (run,)


def _settlements(run: Run, result: object) -> dict[Run, Settlement]:
    """Return the verdicts to commit with it; raise if it must not commit."""
    took = timedelta(seconds=time.monotonic() - (run.started or 0.0))
    run.refuse_unawaited()
    if not isinstance(run, Batch):
        if run.stop_reason in _NEVER_COMMITTED:
            raise ClaimLost(f"the transaction of message {run.delivery.message_id} is undone: {run.stop_reason}")
        return {run: run.handler.settlement(run.delivery, verdicts.of_result(result), took)}
    for each in run.runs:
        if each.stop_reason in _NEVER_COMMITTED:
            # Its writes cannot be told apart from those of its neighbours.
            raise BatchRolledBack(f"message {each.delivery.message_id}: {each.stop_reason}, so its batch is undone")
    return {
        each: each.handler.settlement(each.delivery, _verdict(each, answer, took), took)
        for each, answer in run.answered(result)
    }


def _pinning(operations: OperationSet, run: Run) -> Script[None]:
    """Run ``pin`` for each of them, in the order of row locks."""
    for claim in sorted(each.delivery.claim for each in _parts(run)):
        yield from operations.mailbox.pin.script(claim, run.owner)


def _settling_all(operations: OperationSet, settled: Iterable[Settlement], owner: str) -> Script[bool]:
    """Settle all of them; return False if one claim is no longer ours."""
    return operations.mailbox.settle_all.script(sorted(settled, key=lambda each: each.claim), owner)


def _verdict(run: Run, answer: object, took: timedelta) -> Verdict:
    """Return the verdict on one message of a batch. A failure is settled, too: returning commits, raising undoes."""
    if isinstance(answer, asyncio.CancelledError):
        answer = verdicts.uncalled_for(answer)
    if not isinstance(answer, BaseException):
        try:
            return verdicts.of_result(answer)
        except BaseException as error:  # an invalid outcome fails its own message only
            if is_interrupt(error):
                raise
            answer = error
    policy = run.handler.retry_of(run.delivery)
    return verdicts.of_error(answer, run.delivery, policy, took, run.handler.newer_wait)


TRIES: Final = 5
"""How often a handler is called within one attempt, before a conflict counts as a failure."""
_PAUSE = 0.01

_STATES = {
    "40001": "a serialization failure: another transaction has changed what this one read",
    "40P01": "a deadlock: this transaction and another waited for each other",
}
_LOCKED = "55P03"
_SQLITE = {
    sqlite3.SQLITE_BUSY_SNAPSHOT: "a stale snapshot: another transaction has written since this one first read",
    sqlite3.SQLITE_BUSY: "a locked file: another transaction has been writing for too long",
    sqlite3.SQLITE_ABORT_ROLLBACK: "an undone transaction: it was ended before its handler returned",
}


def named(error: BaseException) -> str | None:
    """Return the kind of conflict, or None. Drivers wrap each other's errors: it may be a cause."""
    for each in _beneath(error):
        if (state := _state(each)) in _STATES:
            return _STATES[state]
        code = getattr(each, "sqlite_errorcode", None)
        if code in _SQLITE:
            return _SQLITE[code]
    return None


def _is_locked_out(error: BaseException) -> bool:
    """Return whether a lock wait timed out."""
    return any(_state(each) == _LOCKED for each in _beneath(error))


def _state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _beneath(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and not any(error is each for each in seen):
        seen.append(error)  # causes may form a cycle
        yield error
        inner = getattr(error, "orig", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__


@dataclass(frozen=True, slots=True)
class LentConnections:
    """The transactions of a worker's consumers."""

    transactions: Transactions
    lender: Lender

    def around(
        self, bare: Call, source: Source, group: str, concurrency: int, succeeding: Succeeding | None, *, threaded: bool
    ) -> Call:
        """Return this consumer's call in a transaction. Raises BadOption if it cannot have one."""
        if self.transactions.engine == "memory":
            raise BadOption(
                f"{group} is transactional, and memory:// has no transactions: use sqlite:/// or postgresql://, or try "
                "the handler in app.testing(tx=…), which lends it your own"
            )
        most = self.lender.size if source.is_ours else source.capacity()
        if most is not None and concurrency > most:
            raise BadOption(
                f"{group} is transactional with concurrency={concurrency}, and its handler pool has {most} of them: "
                f"lower the concurrency, or raise {'handler_pool of Mainspring(…)' if source.is_ours else 'the pool'}"
            )
        begin = source.begin(self.transactions, self.lender, blocking=threaded)
        within = TransactionalCall(bare, begin, self.transactions, pins=not source.is_ours, succeeding=succeeding)
        return within.call_blocking if threaded else within.call
