"""The main loop of a ``cpu=True`` process: one message after another, until the worker closes the channel."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from mainspring.model.message import Delivery
from mainspring.runtime import verdicts, wire
from mainspring.runtime.handler import Handler, Program, Run
from mainspring.runtime.reports import facts
from mainspring.telemetry.logs import lines
from mainspring.telemetry.tracing import within

_EVERY = 1.0
"""The minimum of seconds between two reports: the worker stores no more of them."""


class Reporter:
    """Sends the latest progress from a thread of its own, started on demand: a handler never waits for the worker."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._run: Run | None = None
        self._news = threading.Event()
        self._sending = threading.Lock()
        self._starting = threading.Lock()
        self._started = False

    def begin(self, run: Run) -> None:
        """Report the progress of this run from now on."""
        run.on_progress = self._send_soon
        self._run = run

    def end(self, response: wire.Response) -> None:
        """Send the result. Later progress is dropped, since it would be taken for the next run's."""
        with self._sending:
            self._run = None
            self._line.sendall(wire.framed(response))

    def _send_soon(self) -> None:
        with self._starting:
            if not self._started:
                self._started = True
                threading.Thread(target=self._work, name="mainspring-reporter", daemon=True).start()
        self._news.set()

    def _work(self) -> None:
        with contextlib.suppress(OSError):  # the worker has closed the channel, and this process ends
            while self._news.wait():
                self._news.clear()
                with self._sending:
                    if self._run is not None and self._run.progress is not None:
                        self._line.sendall(wire.framed(wire.Progress(self._run.progress)))
                time.sleep(_EVERY)


MAIN = "__mp_main__"
"""The module name of a script in here, as in processes of ``multiprocessing``: its main guard must be false."""

_current: list[Delivery] = []  # the message this process is running: one at a time
_serving: list[Program] = []  # set once at the start of the process, never changed


def serving() -> bool:
    """Return whether this is such a process, in which no worker may be started."""
    return bool(_serving)


def serve(channel: int, lifeline: int, find: Callable[[Program], Handler]) -> None:
    """Find the handler once, then run one message at a time. Returns when the worker has closed the channel."""
    _die_with_the_worker(lifeline)
    _leave_signals_to_the_worker()
    os.set_inheritable(channel, False)  # noqa: FBT003
    with socket.socket(fileno=channel) as line:
        if (first := _receive(line)) is None:
            return
        setup = wire.SETUPS.decode(first)
        _serving.append(setup.program)
        try:
            handler = _prepare(setup, find)
        except BaseException as error:  # noqa: BLE001 - whatever its module raises is reported to the worker
            line.sendall(wire.framed(_failed(error, setup.program)))
            return
        line.sendall(wire.framed(wire.Ready()))
        reporter = Reporter(line)
        while (body := _receive(line)) is not None:
            line.sendall(wire.framed(wire.Ready()))  # from here on a death is charged to this message
            response = _respond(handler, wire.REQUESTS.decode(body), setup.program, reporter)
            _flush()  # the next message may be the one that kills this process
            reporter.end(response)


def _prepare(setup: wire.Setup, find: Callable[[Program], Handler]) -> Handler:
    sys.argv[:] = map(os.fsdecode, setup.arguments)
    handler = find(setup.program)
    if setup.log_level is not None:
        # A no-op where the application has set up its own logging; hence its module is imported first.
        stream = logging.StreamHandler()
        stream.setFormatter(lines(setup.log_form, setup.worker))
        stream.addFilter(_about_the_message)
        logging.basicConfig(level=setup.log_level, handlers=[stream])
    return handler


def _about_the_message(record: logging.LogRecord) -> bool:
    for name, value in (facts(_current[0]) if _current else {}).items():
        vars(record).setdefault(name, value)
    return True


def _respond(handler: Handler, request: wire.Request, program: Program, reporter: Reporter) -> wire.Response:
    run = Run(request.delivery, handler, math.inf)
    _current[:] = [request.delivery]
    reporter.begin(run)
    run.started = time.monotonic()
    if request.seconds is not None:
        run.deadline = run.started + request.seconds
    try:
        result = contextvars.copy_context().run(_called, handler, request, run)
        return wire.outcome(verdicts.of_result(result))
    except verdicts.ReturnedFailure as returned:
        return wire.outcome(returned.outcome)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the handler's result
        return _failed(error, program)
    finally:
        _current.clear()


def _called(handler: Handler, request: wire.Request, run: Run) -> object:
    with within(request.trace):
        return handler.call(request.delivery, run)


def _failed(error: BaseException, program: Program) -> wire.Failed:
    # The worker knows the classes of its script under another module name.
    here = (MAIN if program.is_script else program.source) + "."
    names = [verdicts.kind_name(each) for each in type(error).__mro__ if issubclass(each, BaseException)]
    own = [f"{program.module}.{name.removeprefix(here)}" for name in names if name.startswith(here)]
    return wire.Failed(verdicts.failure_of(error), [*names, *own])


def _receive(line: socket.socket) -> bytes | None:
    header = _exactly(line, wire.HEADER)
    return None if header is None else _exactly(line, wire.length(header))


def _exactly(line: socket.socket, count: int) -> bytes | None:
    body = bytearray()
    while len(body) < count:
        try:
            chunk = line.recv(count - len(body))
        except ConnectionError:
            return None
        if not chunk:
            return None
        body += chunk
    return bytes(body)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # it is closed, or its reader is gone
            stream.flush()


def _leave_signals_to_the_worker() -> None:
    # Supervisors signal every process; only the worker decides whether this one may finish. A handler that does
    # nothing, unlike SIG_IGN, is not inherited by processes that a handler starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)


def _die_with_the_worker(lifeline: int) -> None:
    """End at once when the worker is gone: the result would be lost, and another worker runs the message again."""
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    threading.Thread(target=_watch, args=(lifeline,), name="mainspring-lifeline", daemon=True).start()
    if sys.platform == "linux":
        import fcntl

        # The kernel sends SIGIO, which ends the whole group even while a C call holds the interpreter.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)  # nothing is ever written to it
    os.killpg(os.getpgrp(), signal.SIGKILL)
