"""``mainspring worker``: a worker as a service."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from mainspring.app import runner
from mainspring.app.announcing import announced, log_to_stderr, refused_count
from mainspring.app.parent import Parent
from mainspring.cli.failures import FAILED, Refused
from mainspring.cli.loading import Spec, load_app

Level = Literal["debug", "info", "warning", "error"]


def worker(
    app: Spec,
    /,
    *,
    group: Annotated[
        tuple[str, ...], Parameter(name=["--group", "-g"], metavar="NAME", negative="", show_default=False)
    ] = (),
    dev: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    processes: Annotated[int, Parameter(name=["--processes", "-p"], metavar="N")] = 1,
    log_level: Level = "info",
    line: Annotated[int | None, Parameter(show=False)] = None,
) -> int:
    """Consume messages until told to stop.

    SIGTERM or Ctrl-C lets running handlers finish; a second one stops them and hands their messages back.

    Parameters
    ----------
    group
        Serve only this group; may be given several times.
    dev
        Create or upgrade the tables first.
    processes
        How many worker processes to keep running; those that die are replaced.
    log_level
        How much to log on stderr.
    line
        The way to the parent of several processes.
    """
    if refusal := refused_count(processes):
        raise Refused(refusal)
    if processes > 1:
        return _keep_several(processes, _again(app, group, log_level, dev=dev), log_level)
    loaded = load_app(app)
    log_to_stderr(log_level)
    if not runner.run(announced(loaded, app, group, line, migrate=dev), line):
        raise Refused(f"the worker of {app} gave up by itself; the log says why")
    return 0


def _again(app: str, groups: tuple[str, ...], log_level: str, *, dev: bool) -> list[str]:
    """The same command for one process of several, up to the number of its line."""
    chosen = [word for group in groups for word in ("--group", group)]
    switches = [*(["--dev"] if dev else []), *(["--debug"] if "--debug" in sys.argv else [])]
    # Modules of the current directory come first for the application, not for us, if that is so here.
    safe = [] if sys.path[0] in ("", str(Path.cwd())) else ["-P"]
    return [*safe, "-m", "mainspring.cli", "worker", app, *chosen, *switches, "--log-level", log_level, "--line"]


def _keep_several(processes: int, command: list[str], log_level: str) -> int:
    log_to_stderr(log_level)
    ending = asyncio.run(Parent(command, processes).run())
    if ending.reason is not None:
        raise Refused(ending.reason)
    return 0 if ending.well else FAILED
