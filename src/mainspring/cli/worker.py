"""``mainspring worker``: run a worker, and serve its probes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.process import runner
from mainspring.app.process.service import announced, log_to_stderr, new_name, refused_count, say
from mainspring.app.process.supervisor import Supervisor
from mainspring.cli.errors import FAILED, Refused
from mainspring.cli.target import Spec, load_app

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
    ending = asyncio.run(Supervisor(command, processes).run())
    if ending.reason is not None:
        raise Refused(ending.reason)
    return 0 if ending.well else FAILED


@asynccontextmanager
async def probed(app: Mainspring, worker: AbstractAsyncContextManager[Any], probe: str | None) -> AsyncIterator[Any]:
    """Run the worker and, if an address is given, its probes, from before it starts until it has stopped."""
    if probe is None:
        async with worker as working:
            yield working
        return
    from mainspring.dashboard.probes import Probes
    from mainspring.dashboard.server import Server, address_of, bound

    listening = bound(*read_address(probe))
    server = Server(Probes(app), lifespan=False)
    server.listens_to_signals = False  # the worker handles them
    serving = asyncio.create_task(server.serve([listening]), name="mainspring-probes")
    text = f"mainspring probes: http://{address_of(listening)}/health/ready"
    try:
        async with worker as working:
            # Printed once the worker handles signals, so that a process that has printed it can be stopped.
            asyncio.get_running_loop().call_soon(say, text)
            yield working
    finally:
        server.should_exit = True
        await serving


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``. Raises Refused."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
        raise Refused(f"--probe {text!r} must be HOST:PORT, such as 127.0.0.1:9000")
    return host.strip("[]"), int(port)
