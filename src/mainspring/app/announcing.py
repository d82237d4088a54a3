"""A worker as a service: it says on its output when it is ready and when it has stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

from mainspring.app.mainspring import Mainspring
from mainspring.app.middleware.context import LogContext
from mainspring.app.parent import STARTED, Ending, Parent
from mainspring.runtime.settings import owner_name
from mainspring.telemetry.logs import Form, lines

_logger = logging.getLogger("mainspring.app")
_LOOK = 0.05

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
) -> AsyncIterator[Any]:
    """A worker of the app; ``what`` is how people know it, ``line`` the way to the parent of several processes."""
    if migrate:
        await app.migrate()
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    async with app.worker(groups=groups or None, name=name) as working:
        telling = asyncio.create_task(_tell(working, f"{what}, {loop}", line))
        try:
            yield working
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling
    say(f"mainspring worker stopped: {what}, process {os.getpid()}")


def again(count: int) -> Ending:
    """Keep this many processes running, each by the command that this one was started with.

    It must know ``--processes``, and ``--line`` with a number: the way to the parent.
    """
    spec = sys.modules["__main__"].__spec__
    # `python -m flask` must not become `python …/flask/__main__.py`, where flask/logging.py would stand for logging.
    start = [sys.argv[0]] if spec is None else ["-m", spec.name.removesuffix(".__main__")]
    return asyncio.run(Parent([*start, *sys.argv[1:], "--processes", "1", "--line"], count).run())


def new_name() -> str:
    """A name for a worker, where somebody has to know it before there is one."""
    return owner_name()


def say(text: str) -> None:
    """A line on the output, at once: a service's output is read while it runs, often through a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def log_to_stderr(level: str, form: Form = "text", app: Mainspring | None = None, worker: str | None = None) -> None:
    """Log. Nothing happens where the application has set up its own logging, so it must be imported first.

    Lines of JSON say which message they are about: what tells them stands around the attempts of the app's workers.
    """
    root = logging.getLogger()
    if root.handlers:
        if form != "text":
            _logger.warning(
                "--log-format %s has no effect, since the application has set up its own logging: let its handler have "
                "the formatter mainspring.JsonLines()",
                form,
            )
        return
    handler = logging.StreamHandler()
    handler.setFormatter(lines(form, worker))
    if form == "json" and app is not None:
        handler.addFilter(LogContext.filter)
        app._chain.besides.append(LogContext())  # noqa: SLF001 - of the same room: no other app needs it
    logging.basicConfig(level=level.upper(), handlers=[handler])


async def _tell(working: Any, what: str, line: int | None) -> None:
    if line is not None:
        os.set_inheritable(line, False)  # noqa: FBT003
        with suppress(OSError):  # the parent is gone, which is noticed elsewhere
            os.write(line, STARTED)
    while not working.ready:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK)  # readiness may come hours later, when a database does
    say(f"mainspring worker ready: {what}, process {os.getpid()}")


def refused_count(processes: int) -> str | None:
    """Why there cannot be so many worker processes; None when there can."""
    if 1 <= processes <= _MOST_PROCESSES:
        return None
    return f"--processes {processes} must be between 1 and {_MOST_PROCESSES}"
