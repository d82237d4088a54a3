"""Flask: a Mainspring that is a Flask extension, and ``flask mainspring worker``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Unpack

from mainspring.app.config import AppOptions
from mainspring.app.consume.context import BatchContext, Context
from mainspring.app.consume.injection import Resolver
from mainspring.app.consume.middleware import Middleware
from mainspring.app.mainspring import Mainspring
from mainspring.app.process import runner
from mainspring.app.process.service import again, announced, log_to_stderr, refused_count, say
from mainspring.app.process.supervisor import MISTAKE
from mainspring.model.errors import MainspringError, Misuse

if TYPE_CHECKING:
    from flask import Flask
    from flask.cli import AppGroup

EXTENSION = "mainspring"


class FlaskMainspring(Mainspring):
    """A ``Mainspring(…)`` as a Flask extension: ``spring = FlaskMainspring(url)``, then ``spring.init_app(app)``.

    Every handler runs in its own application context, which is torn down after it in the same thread: ``current_app``
    is available, and sessions that Flask removes after a request are removed after a handler too.
    """

    def __init__(
        self,
        url: str | Callable[[], str] | None = None,
        *,
        app: Flask | None = None,
        resolver: Resolver | object = None,
        codecs: Iterable[Any] = (),
        middleware: Sequence[Middleware] = (),
        **options: Unpack[AppOptions],
    ) -> None:
        self._context = FlaskContext()
        around = (self._context, *middleware)
        super().__init__(url, resolver=resolver, codecs=codecs, middleware=around, **options)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Register with the application: as ``app.extensions["mainspring"]`` and as ``flask mainspring …``."""
        app.extensions[EXTENSION] = self
        app.cli.add_command(_commands(self))
        self._context.application = app


class FlaskContext(Middleware):
    """Runs every handler in an application context."""

    application: Flask | None = None

    def calling(self, ctx: Context) -> AbstractContextManager[object]:
        """See ``Middleware.calling``."""
        return self._around(ctx.group)

    def calling_batch(self, ctx: BatchContext) -> AbstractContextManager[object]:
        """See ``Middleware.calling_batch``."""
        return self._around(ctx.group)

    def _around(self, group: str) -> AbstractContextManager[object]:
        if self.application is None:
            raise Misuse(
                f"{group} runs without a Flask application: call spring.init_app(app) first, or start the worker with "
                "`flask mainspring worker`"
            )
        return self.application.app_context()


def _commands(spring: Mainspring) -> AppGroup:
    import click
    from flask.cli import AppGroup

    class _Mistaken(click.ClickException):
        exit_code = MISTAKE

    group = AppGroup(EXTENSION, help="Mainspring: messages on the application's database.")

    @group.command()
    @click.option(
        "--group",
        "-g",
        "groups",
        multiple=True,
        metavar="NAME",
        help="Serve only this group; repeatable.",
    )
    @click.option("--processes", "-p", default=1, metavar="N", help="How many worker processes to run.")
    @click.option(
        "--concurrency",
        "-c",
        type=int,
        metavar="N",
        help="How many messages may wait or run in one process at once, over all groups.",
    )
    @click.option("--line", type=int, hidden=True)
    def worker(groups: tuple[str, ...], processes: int, concurrency: int | None, line: int | None) -> None:
        """Run a worker until it is stopped.

        On SIGTERM or Ctrl-C, running handlers finish; a second signal stops them and releases their messages.
        """
        log_to_stderr("info")
        if refusal := refused_count(processes):
            raise click.UsageError(refusal)
        if processes > 1:
            ending = again(processes)
            if not ending.well:
                raise click.ClickException(ending.reason or "no process could be started")
            return
        try:
            working = announced(spring, spring.options.name, groups, line, concurrency=concurrency)
            succeeded = runner.run(working, line)
        except MainspringError as error:
            raise _Mistaken(str(error)) from error
        if not succeeded:
            raise click.ClickException("the worker stopped after an error; see the log")

    @group.command()
    def migrate() -> None:
        """Create or upgrade the tables."""
        try:
            applied = spring.sync.migrate()
        except MainspringError as error:
            raise click.ClickException(str(error)) from error
        say(f"applied {', '.join(applied)}" if applied else "the schema is up to date")

    return group
