"""The calls of handlers in a test: in the test's own task or thread, within its patience, each in a savepoint."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from mainspring.model.errors import StuckHandler
from mainspring.model.interrupts import is_interrupt
from mainspring.runtime import verdicts
from mainspring.runtime.batch import Batch
from mainspring.runtime.executor import STOP_SHUTDOWN, STOP_TIMEOUT
from mainspring.runtime.handler import Around, Batching, Handler, Run
from mainspring.runtime.offload import Threads, resolve
from mainspring.runtime.verdicts import is_closing
from mainspring.testing.records import Records

_THREADS = 32
_PACKAGE = str(Path(__file__).parents[1])

Perform = Callable[[], Awaitable[object]]
Lending = Callable[[], AbstractAsyncContextManager[object]]
"""Lends a call the transaction of a transactional consumer, None to others."""


class Savepoint(Protocol):
    """What a handler's effects are undone to when it fails."""

    def __call__(self) -> AbstractAsyncContextManager[object]:
        """One savepoint: gone back to if the block raises. Its value is None if nothing is undone."""
        ...


class KitTask:
    """``Cancels`` for a handler in the test's own task, which must not be cancelled: ``elapse`` raises instead."""

    def __init__(self) -> None:
        self.cancelled: bool = False

    def cancel(self) -> None:
        """Have the next ``elapse`` of the handler raise CancelledError."""
        self.cancelled = True


class Calls:
    """Wraps handlers for the executors of a test.

    An error that no handler of a worker could raise ends the test: it is kept in ``fatal``, and the run is released
    as at a shutdown.
    """

    def __init__(self, savepoint: Savepoint, records: Records, patience: timedelta) -> None:
        self.threads: KitThreads = KitThreads(patience)
        self.task: KitTask = KitTask()
        self.fatal: BaseException | None = None
        self._savepoint = savepoint
        self._records = records
        self._patience = patience.total_seconds()
        self._errors: dict[Run, BaseException] = {}

    def wrapped(self, handler: Handler, lending: Lending) -> Handler:
        """Return the handler as a test runs it: in no process, in the transaction that is lent. No batch waits."""
        batching = None if handler.batching is None else Batching(handler.batching.size, 0.0)
        threaded = handler.threaded or handler.program is not None
        around = partial(self._around, handler.around, lending)
        return replace(handler, around=around, threaded=threaded, program=None, batching=batching)

    def error(self, run: Run) -> BaseException | None:
        """Return what the handler raised in this run, with the traceback of the user's own code."""
        error = self._errors.pop(run, None)
        return None if error is None else _from_handler(error)

    def end_the_test(self) -> None:
        """Raise the error that ends the test, if there is one."""
        __tracebackhide__ = True
        fatal, self.fatal = self.fatal, None
        if fatal is not None:
            raise _from_handler(fatal)

    async def _around(self, around: Around | None, lending: Lending, run: Run, perform: Perform) -> object:
        sent, undoes = len(self._records.sent), None
        task = asyncio.current_task()
        assert task is not None, "executors run in a task"
        cancelled_before = task.cancelling()
        call = perform if run.handler.threaded else partial(self._patiently, run, perform)
        try:
            async with self._savepoint() as undoes, lending() as lent:
                if lent is not None:
                    run.lend(lent, None)
                result = await (call() if around is None else around(run, call))
                if task.cancelling() > cancelled_before:
                    raise asyncio.CancelledError  # noqa: TRY301 - the test was cancelled, which the next await shows
                if run.unawaited:
                    await asyncio.sleep(0)  # as the executor does
                self._check(run, result)
                return result
        except BaseException as error:
            if undoes is not None:
                del self._records.sent[sent:]
            if is_closing(error) or is_interrupt(error):
                raise
            if _ends_the_test(error) or task.cancelling() > cancelled_before:
                self.fatal = error
                run.ask_to_stop(STOP_SHUTDOWN)
                raise
            failed = self._failed(run, error)
            if failed is error:
                raise
            raise failed  # noqa: B904 - its cause is set
        finally:
            self.task.cancelled = False

    async def _patiently(self, run: Run, perform: Perform) -> object:
        """Await the handler for ``patience`` of real time; its own timeout is counted by the clock of the test."""
        guard = asyncio.timeout(self._patience)
        try:
            async with guard:
                return await perform()
        except TimeoutError as error:
            if guard.expired():
                raise StuckHandler(run.handler.group, self._patience) from error
            raise

    def _check(self, run: Run, result: object) -> None:
        """Raise within the savepoint what the executor will find wrong with the result."""
        if run.stop_reason == STOP_TIMEOUT:
            raise _late(run)
        run.refuse_unawaited()
        if not isinstance(run, Batch):
            verdicts.of_result(result)
            return
        for each, answer in run.answered(result):
            if isinstance(answer, asyncio.CancelledError):
                self._errors[each] = verdicts.uncalled_for(answer)
            elif isinstance(answer, BaseException):
                self._errors[each] = answer
            else:
                try:
                    verdicts.of_result(answer)
                except Exception as error:  # noqa: BLE001 - it fails its own message only
                    self._errors[each] = error

    def _failed(self, run: Run, error: BaseException) -> BaseException:
        """Keep the error of a run, or of each run of a batch, as the executor will judge it."""
        if run.stop_reason == STOP_TIMEOUT and not isinstance(error, verdicts.TimedOut):
            late = _late(run)
            late.__cause__ = error if isinstance(error, Exception) else None
            error = late
        elif isinstance(error, asyncio.CancelledError):
            error = verdicts.uncalled_for(error)
        if isinstance(run, Batch):
            self._errors.update({each: run.unread.get(each, error) for each in run.runs})
        else:
            self._errors[run] = error
        return error


class KitThreads(Threads):
    """Threads for plain handlers, each given up after ``patience``; or the caller's own thread, with ``here``.

    The caller's thread shows no loop while it calls a handler, as in production.
    """

    def __init__(self, patience: timedelta) -> None:
        super().__init__(_THREADS)
        self.here: bool = False
        self._patience = patience.total_seconds()

    def call(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """See ``Threads.call``."""
        return self._call_here(function, *args) if self.here else self._call_in_thread(function, *args)

    def _call_here(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        answer, result, error = asyncio.get_running_loop().create_future(), None, None
        with loopless():
            try:
                result = function(*args)
            except BaseException as raised:  # noqa: BLE001 - as in a thread
                error = raised
        resolve(answer, result, error)
        return answer

    def _call_in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        ident: list[int] = []

        def work() -> object:
            ident.append(threading.get_ident())
            return function(*args)

        def give_up() -> None:
            group = args[1].handler.group
            args[1].ask_to_stop(STOP_SHUTDOWN)
            resolve(answer, None, StuckHandler(group, self._patience, _where(ident)))

        answer = super().call(work)
        timer = asyncio.get_running_loop().call_later(self._patience, give_up)
        answer.add_done_callback(lambda _: timer.cancel())
        return answer


@contextlib.contextmanager
def loopless() -> Iterator[None]:
    """Hide the running loop from this thread."""
    loop = _get_running_loop()
    _set_running_loop(None)
    try:
        yield
    finally:
        _set_running_loop(loop)


def _late(run: Run) -> verdicts.TimedOut:
    return verdicts.overdue(run.handler.timeout_of(run.delivery))


def _ends_the_test(error: BaseException) -> bool:
    """Return whether no handler of a worker could raise it: the kit's own, and what pytest raises to fail or skip."""
    kinds = type(error).__mro__  # pytest passes those that it documents off as builtins, but not their base
    return isinstance(error, StuckHandler) or any(each.__module__.partition(".")[0] == "_pytest" for each in kinds)


def _from_handler(error: BaseException) -> BaseException:
    """Cut the traceback down to the user's own code; keep it whole if it has none."""
    trace: TracebackType | None = error.__traceback__
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return error.with_traceback(first or trace)


def _where(ident: list[int]) -> str:
    """Return the stack of the thread, as far as it is the user's own code."""
    frame = sys._current_frames().get(ident[0]) if ident else None  # noqa: SLF001 - there is no other way
    stack = [] if frame is None else traceback.extract_stack(frame)
    own = [each for each in stack if not each.filename.startswith(_PACKAGE) and "threading" not in each.filename]
    return "".join(traceback.format_list(own)).rstrip()
