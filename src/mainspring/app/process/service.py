"""A worker as a service: it prints when it is ready and when it has stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mainspring.app.consume.middleware import LogContext
from mainspring.app.process.banner import banner
from mainspring.app.process.supervisor import STARTED, Ending, Supervisor
from mainspring.model.text import described
from mainspring.runtime.settings import owner_name
from mainspring.telemetry.logs import Form, lines

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring

_logger = logging.getLogger("mainspring.app")
_POLL = 0.05
"""Seconds between two checks whether the worker is ready."""

_PATIENCE = 5.0
"""Seconds that reading for the banner may take."""
_MOST_PROCESSES = 1000


@asynccontextmanager
async def announced(
    app: Mainspring,
    what: str,
    groups: Collection[str] | None = None,
    line: int | None = None,
    *,
    migrate: bool = False,
    name: str | None = None,
    brief: bool | None = None,
    concurrency: int | None = None,
) -> AsyncIterator[Any]:
    """Run a worker of the app; ``what`` is its printed name, ``line`` the socket to a parent process.

    ``brief``: print one line without the banner, as one of several processes does [with a line].
    """
    if migrate:
        await app.migrate()
    worker = app.worker(groups=groups or None, name=name, concurrency=concurrency)
    async with announcing(worker, what, line, partial(banner, app, groups, concurrency), brief=brief) as working:
        yield working


@asynccontextmanager
async def announcing(
    worker: AbstractAsyncContextManager[Any],
    what: str,
    line: int | None,
    details: Callable[[], Awaitable[list[str]]],
    *,
    brief: bool | None,
    more: str = "",
) -> AsyncIterator[Any]:
    """Run this worker; ``more`` is printed with its name when it is ready, and the details below unless it is brief."""
    is_brief = line is not None if brief is None else brief
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    async with worker as working:
        reporting = asyncio.create_task(_report(working, f"{what}{more}, {loop}", line, None if is_brief else details))
        try:
            yield working
        finally:
            reporting.cancel()
            with suppress(asyncio.CancelledError):
                await reporting
    say(f"mainspring worker stopped: {what}, process {os.getpid()}")


def again(count: int) -> Ending:
    """Keep this many processes running, each with the command line of this one.

    It must accept ``--processes``, and ``--line`` with the number of the socket.
    """
    spec = sys.modules["__main__"].__spec__
    # `python -m flask` must not become `python …/flask/__main__.py`, where flask/logging.py shadows logging.
    start = [sys.argv[0]] if spec is None else ["-m", spec.name.removesuffix(".__main__")]
    return asyncio.run(Supervisor([*start, *sys.argv[1:], "--processes", "1", "--line"], count).run())


def new_name() -> str:
    """Return a name for a worker that is not built yet."""
    return owner_name()


def say(text: str) -> None:
    """Print a line and flush: a service's output is read while it runs, often through a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def log_to_stderr(level: str, form: Form = "text", app: Mainspring | None = None, worker: str | None = None) -> None:
    """Log to stderr, unless the application has set up its own logging: import it first.

    JSON lines name their message: ``LogContext`` runs around the attempts of the app's workers.
    """
    root = logging.getLogger()
    if root.handlers:
        if form != "text":
            _logger.warning(
                "--log-format %s has no effect, since the application has set up its own logging: give its handler "
                "the formatter mainspring.JsonLines()",
                form,
            )
        return
    handler = logging.StreamHandler()
    handler.setFormatter(lines(form, worker))
    if form == "json" and app is not None:
        handler.addFilter(LogContext.filter)
        app._code.chain.outer.append(LogContext())  # noqa: SLF001 - same package: no other app needs it
    logging.basicConfig(level=level.upper(), handlers=[handler])


async def _report(
    working: Any, what: str, line: int | None, details: Callable[[], Awaitable[list[str]]] | None
) -> None:
    if line is not None:
        os.set_inheritable(line, False)  # noqa: FBT003
        with suppress(OSError):  # the parent is gone, which the runner notices
            os.write(line, STARTED)
    while not working.ready:  # noqa: ASYNC110
        await asyncio.sleep(_POLL)  # the database may be down for hours
    more = [] if details is None else await _in_time(details)
    say("\n".join([f"mainspring worker ready: {what}, process {os.getpid()}", *more]))


async def _in_time(details: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """Return the details, or none: a worker that is ready says so, whatever reading them does."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await details()
    except Exception as error:  # noqa: BLE001 - it is logged, and the worker goes on
        _logger.warning("what the worker serves cannot be shown: %s", described(error))
        return []


def refused_count(processes: int) -> str | None:
    """Return why that many processes are rejected; None if allowed."""
    if 1 <= processes <= _MOST_PROCESSES:
        return None
    return f"--processes {processes} must be between 1 and {_MOST_PROCESSES}"
