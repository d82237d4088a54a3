"""Blocking callers: the background loop, and twins of the coroutine methods.

A twin is one line, ``pause: Final = blocking(Groups.pause)``: same signature, same docstring, same result.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, NoReturn, ParamSpec, TypeVar

from mainspring.app.connection import Connection
from mainspring.model.errors import Misuse
from mainspring.vocabulary import method_advice

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]
"""Work to await on the loop."""

_LEAVING = 5.0
"""Seconds that the end of a program waits for databases to close: one that hangs must not block it."""


class Background:
    """Background loop for blocking callers, from any number of threads.

    The thread starts and the database opens with the first call. A forked child has neither: it starts its own. When
    this is garbage-collected, or the program ends, the thread closes the database and ends.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._calls = 0
        self._closing = False
        self._over = False
        self._opening: asyncio.Task[None] | None = None
        self._thread: _LoopThread | None = None
        self._unheld: weakref.finalize[[], Background] | None = None
        _backgrounds.add(self)

    def run(self, work: Work[T], call: str, instead: str) -> T:
        """Await the work on the background loop and return its result. On a loop, raise Misuse naming ``instead``."""
        if in_loop():
            raise Misuse(f"{call} would block the event loop it is called on: write {instead}")
        if (stand_in := self._connection.stand_in) is not None:
            return stand_in.wait_for(work)
        with self._changed:
            self._changed.wait_for(self._welcome)
            future = asyncio.run_coroutine_threadsafe(self._inside(work), self._started().loop)
            self._calls += 1
        try:
            answer = future.result()
        except BaseException:
            future.cancel()  # an interrupt must not leave it running
            raise
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()
        if isinstance(answer, _Left):
            raise answer.error
        return answer

    def close(self) -> None:
        """Close the database and end the thread once running calls have ended. The next call starts both again."""
        if in_loop():
            raise Misuse("app.sync.close() would block the event loop it is called on: call it from blocking code")
        with self._changed:
            self._changed.wait_for(lambda: not self._closing)
            self._closing = True  # later calls wait and start a new thread
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._calls == 0)
                thread = self._released()
            if thread is not None:
                try:
                    asyncio.run_coroutine_threadsafe(self._connection.close_now(), thread.loop).result()
                finally:
                    thread.stop()
                thread.join()
        finally:
            with self._changed:
                self._closing = False
                self._changed.notify_all()

    def end(self) -> None:
        """Stop the thread at exit: it closes the database and ends. Does not wait for it."""
        with self._changed:
            self._over = True
            thread = self._released()
        if thread is not None:
            thread.stop()

    def forget(self) -> None:
        """Reset after a fork: the thread and the lock's holder stayed in the parent."""
        self._changed = threading.Condition()
        self._calls = 0
        self._closing = self._over = False
        self._released()

    def _welcome(self) -> bool:
        # A call of a daemon thread at exit would be cut off midway: it waits until the process is gone.
        return not self._closing and not (self._over and threading.current_thread().daemon)

    async def _inside(self, work: Work[T]) -> T | _Left:
        opening = self._opening
        if opening is None or (opening.done() and not self._connection.is_open):
            # A task of no caller: when one is interrupted, the others still await it.
            opening = self._opening = asyncio.create_task(self._connection.open(), name="mainspring-open")
            opening.add_done_callback(_retrieve)
        if not opening.done():
            await asyncio.shield(opening)
        try:
            return await work()
        except (KeyboardInterrupt, SystemExit) as error:
            return _Left(error)  # raised here, it would end the loop and the calls of all threads

    def _started(self) -> _LoopThread:
        if self._thread is None or not self._thread.is_alive():
            self._thread = _LoopThread(self._connection)
            self._thread.start()
            self._unheld = weakref.finalize(self, self._thread.stop)
            self._unheld.atexit = False  # at exit all threads are joined together
        return self._thread

    def _released(self) -> _LoopThread | None:
        """Detach and return the thread."""
        thread, self._thread, self._opening = self._thread, None, None
        if self._unheld is not None:
            self._unheld.detach()
            self._unheld = None
        return thread


class _Left:
    """A KeyboardInterrupt or SystemExit that work has raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _LoopThread(threading.Thread):
    """A daemon thread that runs a loop until it is stopped, then closes the connection."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(name="mainspring-sync", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._connection = connection
        self._pid = os.getpid()
        _threads.add(self)

    def run(self) -> None:
        """Run the loop."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            try:
                self.loop.run_until_complete(self._connection.close_now())
                with contextlib.suppress(RuntimeError):
                    self.loop.run_until_complete(_cancel_others())
                    self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            finally:
                self.loop.close()

    def stop(self) -> None:
        """End it, from any thread and at any moment: the garbage collector may call this."""
        if self._pid == os.getpid():  # a parent's loop is woken by the same socket
            with contextlib.suppress(RuntimeError):  # closed already
                self.loop.call_soon_threadsafe(self.loop.stop)


async def _cancel_others() -> None:
    """End what still runs on this loop, such as a slow health check: a closed loop would drop it with an error."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    if others:
        await asyncio.wait(others, timeout=1.0)  # one that ignores it is left


def at_once(work: Work[T]) -> T:
    """Run work that never waits, as on memory, without a loop."""
    __tracebackhide__ = True  # a failing test shows its own line
    coroutine = _awaiting(work)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    coroutine.close()
    raise Misuse("this call waits for something, and there is no loop to wait on: await it in an async test")


async def _awaiting(work: Work[T]) -> T:
    __tracebackhide__ = True
    return await work()


def in_loop() -> bool:
    """Return whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _retrieve(task: asyncio.Task[None]) -> None:
    # Waiting callers got the error; without any, asyncio must not report it as unretrieved.
    if not task.cancelled():
        task.exception()


_backgrounds: weakref.WeakSet[Background] = weakref.WeakSet()
_threads: weakref.WeakSet[_LoopThread] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_backgrounds):
        each.forget()


@atexit.register
def _end_all() -> None:
    for each in list(_backgrounds):
        each.end()
    until = time.monotonic() + _LEAVING
    for thread in list(_threads):
        thread.join(max(until - time.monotonic(), 0))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")

_blocking: ContextVar[bool] = ContextVar("mainspring_blocking", default=False)


class AsyncOnly:
    """Base of an object that is opened by ``async with``: ``with`` raises a Misuse that says so."""

    _instead: ClassVar[str] = (
        "`with app:` cannot open a database without blocking: write `async with app:`; blocking code needs no block, "
        "app.sync.publish(…) opens by itself"
    )

    # Hidden from type checkers, which report `with app:` by themselves.
    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            """Say what to write instead."""
            raise Misuse(self._instead)

        def __exit__(self, *_error: object) -> None:
            """Be a context manager, so that entering it raises the error above."""


class Renamed:
    """Base of the app and its parts: a former name, or one of another library, raises an error that names ours."""

    _former: ClassVar[Mapping[str, str]] = {}
    """What to write instead of each such name."""

    # Hidden from type checkers: they would believe that every name is there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # The errors have no name: Python would add a suggestion of its own.
            target = vars(self).get("_target", self)  # a blocking face has the names of what it stands for
            own, awaited = type(self).__name__, type(target)
            if (successor := getattr(awaited, "_former", {}).get(name)) is not None:
                raise AttributeError(f"{own}.{name} was renamed: write {successor}", name=None, obj=self)
            shown = vars(target).get("__name__", own)
            kinds = [each.__name__ for each in awaited.__mro__]
            if (advice := method_advice(kinds, name, shown, blocking=isinstance(self, Face))) is not None:
                raise AttributeError(f"there is no {shown}.{name}: write {advice}", name=None, obj=self)
            return object.__getattribute__(self, name)  # raises again, also what a property has raised


class Face(Renamed, Generic[S_co]):
    """Blocking twin of an object with coroutine methods: same names, arguments and results.

    A call runs on a loop in the background. With a blocking ``tx`` it runs in the caller's own thread, on the caller's
    connection, and needs neither loop nor open database.
    """

    def __init__(self, target: S_co, background: Background, here: str, there: str) -> None:
        self._target = target
        self._background = background
        self._here = here
        """How callers spell this object, and, in ``_there``, the awaited one."""
        self._there = there

    def _tx(self, options: Mapping[str, Any]) -> object:
        """Return the transaction that a call with these options is part of, or None."""
        return options.get("tx")

    def _wait_for(self, work: Work[R], call: str) -> R:
        dot = "" if call.startswith("(") else "."
        return self._background.run(work, f"{self._here}{dot}{call}", f"`await {self._there}{dot}{call}`")


def blocking(
    method: Callable[Concatenate[S, P], Awaitable[R]], *, listed: bool = False
) -> Callable[Concatenate[Face[S], P], R]:
    """Return the blocking twin of a coroutine method.

    ``listed``: its first argument is consumed in the caller's thread, to which it may belong, as a cursor does.
    """

    @functools.wraps(method)
    def twin(self: Face[S], /, *args: P.args, **options: P.kwargs) -> R:
        given = (_listed(args[0]), *args[1:]) if listed and args else args
        work: Work[R] = functools.partial(getattr(self._target, method.__name__), *given, **options)
        if self._tx(options) is not None:
            return enlisted(work)
        called = "" if method.__name__ == "__call__" else method.__name__
        return self._wait_for(work, f"{called}({'…' if args or options else ''})")

    return twin


def enlisted(work: Work[R]) -> R:
    """Run work in a caller's blocking transaction: it never waits, so it needs no loop."""
    token = _blocking.set(True)
    try:
        return at_once(work)
    finally:
        _blocking.reset(token)


def is_blocking() -> bool:
    """Return whether this call came through a blocking twin with a ``tx``."""
    return _blocking.get()


def _listed(given: object) -> object:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return list(given)
    return given
