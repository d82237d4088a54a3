"""``mainspring worker``: a worker as a service."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from mainspring.app import runner
from mainspring.app.announcing import announced, log_to_stderr, new_name, refused_count
from mainspring.app.parent import Parent
from mainspring.cli.failures import FAILED, Refused
from mainspring.cli.loading import Spec, load_app
from mainspring.cli.probing import probed, read_address

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["text", "json"]


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
    log_format: Form = "text",
    probe: Annotated[str | None, Parameter(metavar="HOST:PORT")] = None,
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
    log_format
        Log lines for people, or a JSON object on each.
    probe
        Answer /health/live, /health/ready and /metrics there, as in 127.0.0.1:9000.
    line
        The way to the parent of several processes.
    """
    if refusal := refused_count(processes):
        raise Refused(refusal)
    if probe is not None:
        read_address(probe)
        if processes > 1:
            raise Refused("--probe tells of one process: leave out --processes, and start several workers")
    if processes > 1:
        log_to_stderr(log_level, log_format)
        return _keep_several(processes, [*_again(app, group, dev=dev), *_logging(log_level, log_format), "--line"])
    loaded, name = load_app(app), new_name()
    log_to_stderr(log_level, log_format, loaded, name)
    working = announced(loaded, app, group, line, migrate=dev, name=name)
    if not runner.run(probed(loaded, working, probe), line):
        raise Refused(f"the worker of {app} gave up by itself; the log says why")
    return 0


def _logging(level: Level, form: Form) -> list[str]:
    return ["--log-level", level, "--log-format", form]


def _again(app: str, groups: tuple[str, ...], *, dev: bool) -> list[str]:
    """The same command for one process of several, but for how it logs and the number of its line."""
    chosen = [word for group in groups for word in ("--group", group)]
    switches = [*(["--dev"] if dev else []), *(["--debug"] if "--debug" in sys.argv else [])]
    # Modules of the current directory come first for the application, not for us, if that is so here.
    safe = [] if sys.path[0] in ("", str(Path.cwd())) else ["-P"]
    return [*safe, "-m", "mainspring", "worker", app, *chosen, *switches]


def _keep_several(processes: int, command: list[str]) -> int:
    ending = asyncio.run(Parent(command, processes).run())
    if ending.reason is not None:
        raise Refused(ending.reason)
    return 0 if ending.well else FAILED
