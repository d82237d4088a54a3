"""``mainspring worker``: a worker as a service."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mainspring.app import runner
from mainspring.app.app import Mainspring
from mainspring.cli.failures import Refused
from mainspring.cli.loading import load_app

_LOOK = 0.05
Level = Literal["debug", "info", "warning", "error"]


def worker(
    app: Annotated[str, Parameter(metavar="MODULE:APP")],
    /,
    *,
    group: Annotated[tuple[str, ...], Parameter(name=["--group", "-g"], metavar="NAME", negative="")] = (),
    dev: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    log_level: Level = "info",
) -> int:
    """Consume messages until told to stop.

    The first SIGTERM or Ctrl-C lets running handlers finish, the second stops them at once and hands their
    messages back.

    Parameters
    ----------
    app
        The application, imported from the current directory: MODULE:APP, as in shop:app.
    group
        Serve only this group; may be given several times.
    dev
        Create or upgrade the tables first.
    log_level
        How much to log on stderr.
    """
    loaded = load_app(app)
    _log_to_stderr(log_level)
    if not runner.run(_announced(loaded, app, group, dev=dev)):
        raise Refused(f"the worker of {app} gave up by itself; the log says why")
    return 0


@asynccontextmanager
async def _announced(app: Mainspring, spec: str, groups: tuple[str, ...], *, dev: bool) -> AsyncIterator[Any]:
    if dev:
        await app.migrate()
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    async with app.worker(groups=groups or None) as working:
        telling = asyncio.create_task(_tell(working, f"{spec}, {loop}"))
        try:
            yield working
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling
    _line(f"mainspring worker stopped: {spec}, process {os.getpid()}")


async def _tell(working: Any, what: str) -> None:
    while not working.ready:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK)  # readiness may come hours later, when a database does
    _line(f"mainspring worker ready: {what}, process {os.getpid()}")


def _line(text: str) -> None:
    # A service's output is read while it runs, often through a pipe.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _log_to_stderr(level: str) -> None:
    # Nothing happens where the application has set up its own logging, which is why it is imported first.
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )
