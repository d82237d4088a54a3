"""The command line: all commands, and how each of them ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from cyclopts import App, Parameter

from mainspring.cli import (
    asyncapi,
    audit,
    brokers,
    cron,
    dashboard,
    database,
    databases,
    dead,
    demo,
    doctor,
    fanout,
    groups,
    inbox,
    init,
    joins,
    leases,
    messages,
    move,
    publish,
    schedule_edit,
    top,
    workers,
)
from mainspring.cli.errors import DECLINED, INTERRUPTED, Declined, report
from mainspring.cli.output import print_line
from mainspring.cli.target import OverFleet

HELP = "Messages, timers and schedules on the database an application already has."
_FOR_ONE = (publish.publish, top.top)
"""Commands that make sense for one database of a fleet at a time."""
_AS_VALUES: dict[str, Any] = {"exit_on_error": False, "print_error": False, "result_action": "return_value"}


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Raises nothing, not even on Ctrl-C."""
    app = _commands()

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        debug: Annotated[
            bool, Parameter(negative="", show_default=False, help="Show the traceback of an error.")
        ] = False,  # read below too, so that it also applies when parsing fails
    ) -> Any:
        try:
            return app(tokens, **_AS_VALUES)
        except OverFleet as over:
            call, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
            return databases.run(databases.Command(call, bound, tokens, debug, call in _FOR_ONE), over)

    try:
        if not {"--help", "-h"}.isdisjoint(arguments):
            _name_arguments(app, arguments)
        code = app.meta(list(arguments), **_AS_VALUES)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Declined as declined:
        print_line(str(declined))
        return DECLINED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: that is no failure, but nothing more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - every error is reported in one line
        return report(error, debug="--debug" in arguments)
    return code if isinstance(code, int) else 0


def _commands() -> App:
    app = App(
        name="mainspring",
        help=HELP,
        version=_version,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        group_commands="Commands",
    )
    for command in (
        init.init,
        workers.worker,
        dashboard.dashboard,
        database.declare,
        database.migrate,
        database.sql,
        database.grants,
        doctor.health,
        doctor.doctor,
        top.top,
        publish.publish,
    ):
        app.command(command)
    app.command(messages.app)
    app.command(dead.app)
    app.command(groups.app)
    app.command(workers.app)
    app.command(move.app)  # fleet, with the commands of both files
    app.command(joins.app)
    app.command(inbox.app)
    app.command(brokers.app)
    app.command(asyncapi.asyncapi)
    app.command(schedule_edit.app)
    app.command(fanout.app)
    app.command(leases.app)
    app.command(audit.audit)
    app.command(cron.cron)
    app.command(database.prune)
    app.command(demo.demo)
    return app


def _name_arguments(app: App, arguments: Sequence[str]) -> None:
    """Let the usage line of a command name its optional arguments, which Cyclopts writes as [ARGS]."""
    chain, apps, _ = app.parse_commands([each for each in arguments if not each.startswith("-")])
    command = apps[-1]
    if command.default_command is None:
        return
    shown = [each for each in command.assemble_argument_collection() if each.index is not None and each.show]
    names = ((each.name.lstrip("-").upper(), each.required) for each in shown)
    usage = " ".join(name if required else f"[{name}]" for name, required in names)
    command.usage = " ".join(("Usage:", *app.name, *chain, "[OPTIONS]", usage)).rstrip()


def _version() -> str:
    try:
        return version("mainspring")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"
