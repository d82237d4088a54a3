"""``mainspring worker`` and ``workers``: run a worker with its probes; list, show, drain and resume workers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cyclopts import App, Parameter, Token

from mainspring.app.config import MOST_AT_ONCE, Options
from mainspring.app.environment import read_environment
from mainspring.app.fleet.databases import is_pattern
from mainspring.app.fleet.fleet import Fleet
from mainspring.app.fleet.options import Order
from mainspring.app.fleet.service import announced
from mainspring.app.mainspring import Mainspring
from mainspring.app.process import runner, service
from mainspring.app.process.reloader import Reloader
from mainspring.app.process.supervisor import Supervisor
from mainspring.cli.errors import FAILED, Refused
from mainspring.cli.options import Reason
from mainspring.cli.output import (
    Column,
    Columns,
    many,
    plain,
    print_json,
    print_line,
    print_list,
    print_result,
    progress_of,
    when,
)
from mainspring.cli.target import UNNAMED, Json, OfApp, OfDatabases, Spec, Target, application, operator
from mainspring.model.views import WORKER_SILENT_AFTER, DeliveryView, WorkerView

app: App = App(name="workers", help="List, show, drain and resume workers.")

Name = Annotated[str, Parameter(name="WORKER", help="The worker's name, as in `workers list`.")]

_MOST = 200


def _in_hand(each: DeliveryView) -> str:
    return "asked to stop" if each.cancel_asked else "lapsed" if each.state == "lapsed" else progress_of(each)


_HAND_COLUMNS: Columns[DeliveryView] = (
    Column("id", lambda each: each.message_id),
    Column("group", lambda each: each.group, elastic=True),
    Column("topic", lambda each: each.topic, elastic=True),
    Column("attempt", lambda each: each.attempt, right=True),
    Column("until", lambda each: each.due_at, right=True),
    Column("note", _in_hand, elastic=True, spare=True),
)
Level = Literal["debug", "info", "warning", "error"]


def _level(_type: object, tokens: Sequence[Token]) -> str:
    """Read a level in any case, as `logging` writes them."""
    word = tokens[0].value
    if word.lower() not in get_args(Level):
        raise Refused(f"--log-level {word!r} is not one of {', '.join(get_args(Level))}")
    return word.lower()


Form = Literal["text", "json"]


Parent = Literal["supervisor", "reloader"]


@Parameter(name="*", group="Fleet")
@dataclass(frozen=True, slots=True)
class OfFleet:
    """Options of the worker of a fleet. Each is passed on to ``fleet.worker()`` by its name."""

    most_open: Annotated[
        int | None,
        Parameter(metavar="N", show_default=False, help="How many databases have an open worker at a time [20]."),
    ] = None
    order: Annotated[
        Order | None,
        Parameter(show_default=False, help="Whether a busy database makes room while others wait [round-robin]."),
    ] = None
    share: Annotated[
        bool | None,
        Parameter(negative="", show_default=False, help="Divide the databases with the other workers that share."),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def words(self) -> list[str]:
        """The same as typed; one that is True is a flag."""
        return [
            word
            for name, value in self.given.items()
            for word in ([_flag(name)] if value is True else [_flag(name), str(value)])
        ]

    def refuse(self, spec: str) -> None:
        """Raise Refused if one was given, since this is no fleet."""
        for name in self.given:
            raise Refused(f"{_flag(name)} is for the worker of a fleet, and {spec} is an app: omit it")


NOTHING = OfFleet()


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def worker(
    app: Spec | None = None,
    /,
    *,
    named: OfApp = None,
    database: OfDatabases = (),
    of_fleet: OfFleet = NOTHING,
    group: Annotated[
        tuple[str, ...], Parameter(name=["--group", "-g"], metavar="NAME", negative="", show_default=False)
    ] = (),
    dev: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    reload: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    processes: Annotated[int, Parameter(name=["--processes", "-p"], metavar="N")] = 1,
    concurrency: Annotated[int | None, Parameter(name=["--concurrency", "-c"], metavar="N", show_default=False)] = None,
    log_level: Annotated[Level, Parameter(converter=_level)] = "info",
    log_format: Form = "text",
    probe: Annotated[str | None, Parameter(metavar="HOST:PORT")] = None,
    parent: Annotated[Parent | None, Parameter(show=False)] = None,
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
    reload
        Restart when a .py file below the current directory, or that of mainspring.toml, changes; for development.
    processes
        How many worker processes to run; those that die are replaced.
    concurrency
        How many messages may wait or run in one process at once, over all groups.
    log_level
        The minimum level of log lines on stderr.
    log_format
        Text lines, or one JSON object per line.
    probe
        Serve /health, /health/live, /health/ready and /metrics there, such as 127.0.0.1:9000.
    parent
        What has started this process, if it is not the user.
    line
        The connection to that parent.
    """
    _check(processes, probe, reload=reload)
    spec, target = application(app, named, database)
    if concurrency is not None and not 1 <= concurrency <= MOST_AT_ONCE:
        raise Refused(f"--concurrency {concurrency} must be between 1 and {MOST_AT_ONCE:,}")
    again = [*_again(target, group, concurrency, of_fleet, dev=dev), *_logging(log_level, log_format)]
    if reload:
        _refuse_production(_configured())
        service.log_to_stderr(log_level, log_format)
        again += [] if probe is None else ["--probe", probe]
        ended = asyncio.run(Reloader([*again, "--parent", "reloader", "--line"], *target.folders).run())
        return 0 if ended else FAILED
    if processes > 1:
        service.log_to_stderr(log_level, log_format)
        return _keep_several(processes, [*again, "--parent", "supervisor", "--line"])
    loaded = target.load()
    if parent == "reloader":
        _refuse_production(target.code().options)
    logging: dict[str, Any] = {"level": log_level, "form": log_format}
    how: dict[str, Any] = {"migrate": dev, "brief": parent == "supervisor", "concurrency": concurrency}
    working = _announced(loaded, spec, target, logging, of_fleet, groups=group, line=line, **how)
    if not runner.run(probed(loaded, working, probe), line):
        raise Refused(f"the worker of {spec} stopped after an error; see the log")
    return 0


def _check(processes: int, probe: str | None, *, reload: bool) -> None:
    if refusal := service.refused_count(processes):
        raise Refused(refusal)
    if probe is not None:
        read_address(probe)
        if processes > 1:
            raise Refused("--probe reports on one process: omit --processes, and start several workers")
    if reload and processes > 1:
        raise Refused("--reload restarts one process: omit --processes")


def _configured() -> Options:
    around = read_environment()
    around.check()
    return Options.read({}, *around.layers())


def _refuse_production(options: Options) -> None:
    source = options.sources["preset"]
    if options.preset == "production" and source != "default":
        raise Refused(
            f"--reload is for development, and the preset is 'production', set by {source}: omit one of the two"
        )


def _logging(level: Level, form: Form) -> list[str]:
    return ["--log-level", level, "--log-format", form]


def _again(
    target: Target, groups: tuple[str, ...], concurrency: int | None, of_fleet: OfFleet, *, dev: bool
) -> list[str]:
    """Return the command of one process of several, without its log options and the number of its line."""
    named = [] if target.app is None else ["--app", target.app]
    chosen = [word for group in groups for word in ("--group", group)]
    chosen += [word for database in target.database for word in ("--database", database)]
    chosen += of_fleet.words
    capped = [] if concurrency is None else ["--concurrency", str(concurrency)]
    switches = [*(["--dev"] if dev else []), *(["--debug"] if "--debug" in sys.argv else [])]
    # Modules of the current directory take precedence for the application, but not for Mainspring unless they do here.
    safe = [] if sys.path[0] in ("", str(Path.cwd())) else ["-P"]
    return [*safe, "-m", "mainspring", "worker", *named, *chosen, *capped, *switches]


def _keep_several(processes: int, command: list[str]) -> int:
    ending = asyncio.run(Supervisor(command, processes).run())
    if ending.reason is not None:
        raise Refused(ending.reason)
    return 0 if ending.well else FAILED


def _announced(
    app: Mainspring | Fleet, spec: str, target: Target, logging: dict[str, Any], of_fleet: OfFleet, **options: Any
) -> AbstractAsyncContextManager[Any]:
    """Begin to log, and return the worker."""
    if isinstance(app, Fleet):
        service.log_to_stderr(**logging, app=target.code())
        databases = target.database or None
        return _known(app, target, announced(app, spec, databases=databases, **options, **of_fleet.given))
    of_fleet.refuse(spec)
    found, name = target.find(), service.new_name()
    service.log_to_stderr(**logging, app=found, worker=name)
    return service.announced(found, spec, name=name, **options)


@asynccontextmanager
async def _known(fleet: Fleet, target: Target, worker: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
    """Run the worker of a fleet. Raises Refused for a name that no database has; a pattern may match later ones."""
    async with fleet:
        if fleet._databases.trouble is None:  # noqa: SLF001 - otherwise no name is known yet
            named = tuple(each for each in target.database if not is_pattern(each))
            await replace(target, database=named).names(fleet)
        async with worker as working:
            yield working


@asynccontextmanager
async def probed(
    app: Mainspring | Fleet, worker: AbstractAsyncContextManager[Any], probe: str | None
) -> AsyncIterator[Any]:
    """Run the worker and, if an address is given, its probes, from before it starts until it has stopped."""
    if probe is None:
        async with worker as working:
            yield working
        return
    from mainspring.dashboard.probes import Probes
    from mainspring.dashboard.server import Server, address_of, bound

    listening = bound(*read_address(probe))
    text = f"mainspring probes: http://{address_of(listening)}/health/ready"
    async with Server(Probes(app, details=True), lifespan=False).beside(listening), worker as working:
        # Printed once the worker handles signals, so that a process that has printed it can be stopped.
        asyncio.get_running_loop().call_soon(service.say, text)
        yield working


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``. Raises Refused."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
        raise Refused(f"--probe {text!r} must be HOST:PORT, such as 127.0.0.1:9000")
    return host.strip("[]"), int(port)


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> None:
    """List the workers that have reported."""
    async with target.opened() as opened:
        roster = await opened.stats.roster()
    printed = print_list(
        _columns(roster.now),
        roster.workers,
        json=json,
        empty="No workers have reported. To start one: mainspring worker MODULE:APP",
        values=lambda each: {**plain(each), "state": _state(each, roster.now)},
    )
    for each in roster.workers if printed else ():
        if each.draining_at is not None:
            print_line(_note(each), style="dim")


@app.command
async def show(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Show one worker and the deliveries it has in hand."""
    async with target.opened() as opened:
        roster = await opened.stats.roster()
        found = _of(roster.workers, name)
        held = await opened.messages.search("live", held_by=found.name, limit=_MOST)
    # A worker of another app may have the same name; a group belongs to one app only.
    hands = [each for each in held if each.group in found.groups]
    if json:
        print_json({**plain(found), "state": _state(found, roster.now), "hands": hands})
        return
    print_line(f"{name} is {_state(found, roster.now)}, {many(found.in_hand, 'delivery', 'deliveries')} in hand")
    if found.draining_at is not None:
        print_line(_note(found), style="dim")
    print_list(_HAND_COLUMNS, hands, empty="Nothing in hand.")
    if hands and held.cursor is not None:
        print_line(f"There are more than these {_MOST}.", style="dim")


@app.command
async def drain(name: Name, /, *, reason: Reason = "", target: Target = UNNAMED, json: Json = False) -> None:
    """Let a worker finish what it has in hand and claim no more, until it is resumed. The process keeps running."""
    async with target.opened() as opened:
        await opened.workers.drain(name, by=operator(), reason=reason)
        view = _of(await opened.workers.list(), name)
    if json:
        print_json({"worker": name, "draining": True, "in_hand": view.in_hand})
    else:
        in_hand = many(view.in_hand, "delivery", "deliveries")
        print_line(f"{name} is asked to drain: {in_hand} in hand; it claims no more once it has read the request")
        print_line(f"To see its progress: mainspring workers show {name}{target.typed}", style="dim")
        print_line(f"To resume: mainspring workers resume {name}{target.typed}", style="dim")


@app.command
async def resume(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Let a worker claim again."""
    async with target.opened() as opened:
        await opened.workers.resume(name, by=operator())
    print_result({"worker": name, "draining": False}, f"{name} is resumed", json=json)


def _of(workers: Sequence[WorkerView], name: str) -> WorkerView:
    """Return the worker of a name, which may be prefixed by its app."""
    found = [each for each in workers if each.name == name]
    found = found or [each for each in workers if f"{each.app}/{each.name}" == name]
    if not found:
        raise Refused(f"there is no worker {name}: see `mainspring workers list`")
    if len(found) > 1:
        ways = " or ".join(sorted(f"{each.app}/{name}" for each in found))
        raise Refused(f"there are {len(found)} workers {name}, of several apps: write {ways}")
    return found[0]


def _state(each: WorkerView, now: datetime) -> str:
    return "silent" if now - each.beat_at > WORKER_SILENT_AFTER else each.condition


def _note(each: WorkerView) -> str:
    by = "" if each.drained_by is None else f", by {each.drained_by}"
    if each.drain_reason:
        by += f": {each.drain_reason}"
    if each.drains:
        return f"{each.name} is {each.condition}, asked {when(each.draining_at)}{by}"
    return f"{each.name} was asked to drain {when(each.draining_at)}{by}, and has not confirmed it"


def _columns(now: datetime) -> Columns[WorkerView]:
    return (
        Column("worker", lambda each: each.name),
        Column("state", lambda each: _state(each, now)),
        Column("app", lambda each: each.app, spare=True),
        Column("in hand", lambda each: each.in_hand, right=True),
        Column("groups", lambda each: ", ".join(each.groups), elastic=True),
        Column("started", lambda each: each.started_at, right=True, spare=True),
        Column("seen", lambda each: each.beat_at, right=True),
        Column("bell", lambda each: each.bell, spare=True),
    )
