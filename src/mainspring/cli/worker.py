"""``mainspring worker``: run a worker."""

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
    """Run a worker until it is stopped.

    On SIGTERM or Ctrl-C, running handlers finish; a second signal stops them and releases their messages.

    Parameters
    ----------
    group
        Serve only this group; repeatable.
    dev
        Create or upgrade the tables first.
    processes
        How many worker processes to run; those that die are replaced.
    log_level
        The minimum level of log lines on stderr.
    log_format
        Text lines, or one JSON object per line.
    probe
        Serve /health/live, /health/ready and /metrics there, such as 127.0.0.1:9000.
    line
        The connection to the parent of several processes.
    """
    if refusal := refused_count(processes):
        raise Refused(refusal)
    if probe is not None:
        read_address(probe)
        if processes > 1:
            raise Refused("--probe reports on one process: omit --processes, and start several workers")
    if processes > 1:
        log_to_stderr(log_level, log_format)
        return _keep_several(processes, [*_again(app, group, dev=dev), *_logging(log_level, log_format), "--line"])
    loaded, name = load_app(app), new_name()
    log_to_stderr(log_level, log_format, loaded, name)
    working = announced(loaded, app, group, line, migrate=dev, name=name)
    if not runner.run(probed(loaded, working, probe), line):
        raise Refused(f"the worker of {app} stopped after an error; see the log")
    return 0


def _logging(level: Level, form: Form) -> list[str]:
    return ["--log-level", level, "--log-format", form]


def _again(app: str, groups: tuple[str, ...], *, dev: bool) -> list[str]:
    """Return the command of one process of several, without its log options and the number of its line."""
    chosen = [word for group in groups for word in ("--group", group)]
    switches = [*(["--dev"] if dev else []), *(["--debug"] if "--debug" in sys.argv else [])]
    # Modules of the current directory take precedence for the application, but not for Mainspring unless they do here.
    safe = [] if sys.path[0] in ("", str(Path.cwd())) else ["-P"]
    return [*safe, "-m", "mainspring", "worker", app, *chosen, *switches]


def _keep_several(processes: int, command: list[str]) -> int:
    ending = asyncio.run(Parent(command, processes).run())
    if ending.reason is not None:
        raise Refused(ending.reason)
    return 0 if ending.well else FAILED
