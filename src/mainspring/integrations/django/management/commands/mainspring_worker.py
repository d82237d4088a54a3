"""``manage.py mainspring_worker``: a worker for the project's consumers."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mainspring.app.process import runner
from mainspring.app.process.service import again, announced, log_to_stderr, refused_count
from mainspring.app.process.supervisor import MISTAKE
from mainspring.integrations.django.project import project_app
from mainspring.model.errors import MainspringError

_LEVELS = ("warning", "info", "debug")
"""The log levels of ``--verbosity`` 0, 1 and more."""


class _Worker(BaseCommand):
    """Runs a worker until it is stopped."""

    help: str = (
        "Run a worker until it is stopped. On SIGTERM or Ctrl-C, running handlers finish; a second signal stops them "
        "and releases their messages."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options of this command."""
        parser.add_argument("--group", "-g", action="append", metavar="NAME", help="Serve only this group; repeatable.")
        parser.add_argument(
            "--processes",
            "-p",
            type=int,
            default=1,
            metavar="N",
            help="How many worker processes to run; those that die are replaced.",
        )
        parser.add_argument(
            "--concurrency",
            "-c",
            type=int,
            metavar="N",
            help="How many messages may wait or run in one process at once, over all groups.",
        )
        parser.add_argument("--line", type=int, help=SUPPRESS)

    def handle(self, *_: Any, **options: Any) -> None:
        """Run the worker."""
        log_to_stderr(_LEVELS[min(options["verbosity"], 2)])
        if refusal := refused_count(options["processes"]):
            raise CommandError(refusal)
        if options["processes"] > 1:
            _keep_several(options["processes"])
            return
        app, line = project_app(), options["line"]
        try:
            worker = announced(app, app.options.name, options["group"], line, concurrency=options["concurrency"])
            succeeded = runner.run(worker, line)
        except MainspringError as error:
            raise CommandError(str(error), returncode=MISTAKE) from error
        if not succeeded:
            raise CommandError("the worker stopped after an error; see the log")


Command: type[Any] = _Worker
"""The name that ``manage.py`` looks for. The class itself is private, because its base is untyped."""


def _keep_several(count: int) -> None:
    if __name__.rpartition(".")[2] not in sys.argv:
        raise CommandError("--processes needs a command line to repeat: start the worker with manage.py")
    ending = again(count)
    if not ending.well:
        raise CommandError(ending.reason or "no process could be started", returncode=MISTAKE)
