"""``manage.py mainspring_worker``: a worker for the consumers of the project."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mainspring.app import runner
from mainspring.app.announcing import again, announced, log_to_stderr, refused_count
from mainspring.app.parent import MISTAKE
from mainspring.integrations.django.project import project_app
from mainspring.model.errors import MainspringError

_LEVELS = ("warning", "info", "debug")
"""What ``--verbosity`` 0, 1 and more mean."""


class _Worker(BaseCommand):
    """Consumes messages until told to stop."""

    help: str = (
        "Consume messages until told to stop. SIGTERM or Ctrl-C lets running handlers finish; a second one stops them "
        "and hands their messages back."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options besides those of every command."""
        parser.add_argument(
            "--group", "-g", action="append", metavar="NAME", help="Serve only this group; may be given several times."
        )
        parser.add_argument(
            "--processes",
            "-p",
            type=int,
            default=1,
            metavar="N",
            help="How many worker processes to keep running; those that die are replaced.",
        )
        parser.add_argument("--line", type=int, help=SUPPRESS)

    def handle(self, *_: Any, **options: Any) -> None:
        """Work."""
        log_to_stderr(_LEVELS[min(options["verbosity"], 2)])
        if refusal := refused_count(options["processes"]):
            raise CommandError(refusal)
        if options["processes"] > 1:
            _keep_several(options["processes"])
            return
        app, line = project_app(), options["line"]
        try:
            told = runner.run(announced(app, app.options.name, options["group"], line), line)
        except MainspringError as error:
            raise CommandError(str(error), returncode=MISTAKE) from error
        if not told:
            raise CommandError("the worker gave up by itself; the log says why")


Command: type[Any] = _Worker
"""What ``manage.py`` looks for. Its class has an untyped parent, and is nobody else's business."""


def _keep_several(count: int) -> None:
    if __name__.rpartition(".")[2] not in sys.argv:
        raise CommandError("--processes repeats the command line, and there is none: start it by manage.py")
    ending = again(count)
    if not ending.well:
        raise CommandError(ending.reason or "no process could be started", returncode=MISTAKE)
