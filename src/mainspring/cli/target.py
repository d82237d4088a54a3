"""The database of a command: ``--app``, ``--url``, MAINSPRING_URL or the one in mainspring.toml."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.sources import URL, look_around
from mainspring.app.storages import read_url
from mainspring.app.toml import OWN
from mainspring.cli.failures import Refused
from mainspring.cli.loading import load_app
from mainspring.model.errors import SchemaMissing

_DATABASE = Group("Database")
VARIABLE = URL

Json = Annotated[bool, Parameter(negative="", show_default=False, help="Print one JSON document.")]


@Parameter(name="*", group=_DATABASE)
@dataclass(frozen=True, slots=True)
class Target:
    """The database of a command, and its tables."""

    app: Annotated[str | None, Parameter(metavar="MODULE:APP", help="Use the database of this application.")] = None
    url: Annotated[str | None, Parameter(metavar="URL", help=f"The database [{VARIABLE}, or url in {OWN}].")] = None
    namespace: Annotated[str | None, Parameter(metavar="NAME", help="The namespace of the tables.")] = None
    schema: Annotated[
        str | None, Parameter(metavar="NAME", help="The schema on PostgreSQL, the table prefix on SQLite.")
    ] = None

    def find(self, *, create: bool = False) -> Mainspring:
        """Return the app to open. Only with ``create`` is a missing SQLite file created."""
        if self.app is not None:
            if self.url is not None:
                raise Refused("--app and --url name two databases: give one")
            if self.namespace is not None or self.schema is not None:
                raise Refused("--namespace and --schema require --url: an --app has its own")
            return load_app(self.app)
        url = self.url or _named_url()
        if not url:
            raise Refused(f"no database given: give --app MODULE:APP or --url URL, or set {VARIABLE}, or url in {OWN}")
        _check_there(url, create=create)
        return Mainspring(url, name="cli", namespace=self.namespace, schema=self.schema)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Mainspring]:
        """Open the app for publishing and reading."""
        app = self.find()
        try:
            async with app:
                yield app
        except SchemaMissing as error:
            older = "no Mainspring schema, or an older one" if error.found == 0 else f"schema version {error.found}"
            raise Refused(f"the database has {older}: run `mainspring migrate{self.typed}`") from error

    @property
    def typed(self) -> str:
        """Return these options as typed, to append to a suggested command."""
        # A password is in the shell's history already; it is not repeated on the screen.
        url = self.url and (self.url if read_url(self.url).engine == "sqlite" else read_url(self.url).shown)
        named = (("--app", self.app), ("--url", url), ("--namespace", self.namespace), ("--schema", self.schema))
        return "".join(f" {option} {value}" for option, value in named if value is not None)


UNNAMED = Target()


def operator() -> str:
    """Return the user that the audit log records for this command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} (cli)"


def typed_name() -> str:
    """Return the command as typed, for suggestions."""
    if shutil.which("mainspring"):
        return "mainspring"
    called = Path(sys.argv[0])
    return str(called) if called.name == "mainspring" else f"{sys.executable} -m mainspring"


def _named_url() -> str | None:
    around = look_around()
    around.check()
    found = around.url()
    return None if found is None else str(found.value)


def _check_there(url: str, *, create: bool) -> None:
    address = read_url(url)
    if address.engine == "memory":
        raise Refused("memory:// exists in one process only: give the URL of a database")
    if address.engine == "sqlite" and not create and not Path(address.target).exists():
        raise Refused(f"there is no file {address.target}: `mainspring migrate --url {url}` creates it")
