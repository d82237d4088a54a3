"""A worker as a service: it says on its output when it is ready and when it has stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

from mainspring.app.app import Mainspring
from mainspring.app.parent import STARTED, Ending, Parent

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
) -> AsyncIterator[Any]:
    """A worker of the app; ``what`` is how people know it, ``line`` the way to the parent of several processes."""
    if migrate:
        await app.migrate()
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    async with app.worker(groups=groups or None) as working:
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


def say(text: str) -> None:
    """A line on the output, at once: a service's output is read while it runs, often through a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def log_to_stderr(level: str) -> None:
    """Log. Nothing happens where the application has set up its own logging, so it must be imported first."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )


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
