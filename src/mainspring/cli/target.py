"""The application or database of a command.

An application is named by the argument ``MODULE:APP``, by ``--app``, by MAINSPRING_APP or by ``app`` in
mainspring.toml, the same for every command; a database alone by ``--url``, MAINSPRING_URL or ``url``.
"""

from __future__ import annotations

import getpass
import importlib
import logging
import os
import shlex
import shutil
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated

from cyclopts import Group, Parameter

from mainspring.app.environment import APP, URL, read_environment
from mainspring.app.fleet.databases import is_pattern, select
from mainspring.app.fleet.fleet import Fleet
from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.doctor import address_of
from mainspring.app.options import Setting, closest
from mainspring.app.storages import read_url
from mainspring.app.toml import OWN
from mainspring.cli.capture import DATABASE
from mainspring.cli.errors import Refused, interruptible
from mainspring.model.errors import MIGRATE, MainspringError, SchemaMissing, UnknownDatabase

Spec = Annotated[
    str,
    Parameter(
        name="MODULE:APP",
        help="The application or fleet, imported from the current directory, such as shop:app or shop:fleet.",
    ),
]
"""The argument that names an application, the same for every command that takes one."""
OfApp = Annotated[
    str | None,
    Parameter(
        name="--app", metavar="MODULE:APP", help=f"The application or fleet, as the argument [{APP}, or app in {OWN}]."
    ),
]
"""The option that names an application, for commands that take no other database."""
OfDatabases = Annotated[
    tuple[str, ...],
    Parameter(
        name="--database",
        metavar="NAME",
        negative="",
        show_default=False,
        help="Of a fleet: only this database, or those that a pattern such as 'eu-*' matches; repeatable [all].",
    ),
]
"""The option that chooses databases of a fleet."""

_PACKAGE = str(Path(__file__).parents[1])
_DATABASE = Group("Database")
VARIABLE = URL
Json = Annotated[bool, Parameter(negative="", show_default=False, help="Print one JSON document.")]


class OverFleet(Exception):
    """The application is a fleet: the command runs again, on each database that is chosen."""

    def __init__(self, fleet: Fleet, target: Target) -> None:
        super().__init__()
        self.fleet = fleet
        self.target = target


def load_app(spec: str, folder: Path | None = None) -> Mainspring | Fleet:
    """Import what ``MODULE:APP`` names; modules of the folder, then of the current directory, come first."""
    name, attribute = _parse(spec)
    for place in (Path.cwd(), folder):
        if place is not None and str(place) not in sys.path:
            sys.path.insert(0, str(place))
    module = _import(name, attribute)
    found: object = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise Refused(_absent(module, attribute)) from error
        except MainspringError:
            raise
        except Exception as error:  # a module may build its app lazily
            raise Refused(_broken(name, error)) from error
    if not isinstance(found, Mainspring | Fleet):
        raise Refused(f"{spec} is of type {type(found).__qualname__}, not a Mainspring app.{_written(module)}")
    return found


def _parse(spec: str) -> tuple[str, str]:
    if "://" in spec:
        raise Refused(
            "a URL names a database, not an app: write MODULE:APP, such as shop:app; the URL goes into Mainspring(…), "
            "MAINSPRING_URL or --url"
        )
    name, colon, attribute = spec.partition(":")
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise Refused(f"{spec!r} is a path: write the module's name, such as {dotted}:{attribute or 'app'}")
    if not colon or not name or not attribute:
        module, dot, last = name.rpartition(".")
        # `shop.app` may be the attribute app of shop, or the module shop.app, whose app is then probably called app.
        meant = f"{module}:{last}" if dot and not colon and not _is_module(name) else None
        such = meant or f"{name or 'shop'}:{attribute or 'app'}"
        raise Refused(f"{spec!r} does not name an app: write MODULE:APP, such as {such}")
    return name, attribute


def _is_module(name: str) -> bool:
    folder = Path.cwd() / name.replace(".", "/")
    return folder.with_suffix(".py").is_file() or folder.is_dir()


def _import(name: str, attribute: str) -> ModuleType:
    try:
        with interruptible():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise Refused(_broken(name, error)) from error
        raise Refused(
            f"there is no module {error.name!r} in {Path.cwd()} or installed: "
            f"change to its directory and write {name}:{attribute}"
        ) from error
    except Exception as error:  # report any error of the user's module in one line
        raise Refused(_broken(name, error)) from error


def _broken(name: str, error: Exception) -> str:
    where = ""
    outside = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _PACKAGE)) and frame.filename != importlib.__file__
    ]
    if outside:
        last = outside[-1]
        where = f" ({Path(last.filename).name}:{last.lineno})"
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({Path(error.filename).name}:{error.lineno})"
    what = error.msg if isinstance(error, SyntaxError) else error
    return f"importing {name} failed: {type(error).__qualname__}: {what}{where}"


def _absent(module: ModuleType, attribute: str) -> str:
    hint = _written(module) or closest(attribute, vars(module))
    return f"module {module.__name__} has no {attribute!r}.{hint}"


def _written(module: ModuleType, *kinds: type) -> str:
    """Return what to write instead, if the module holds an app or a fleet under another name."""
    names = [name for name, value in vars(module).items() if isinstance(value, kinds or (Mainspring, Fleet))]
    if names:
        return " Write " + " or ".join(f"{module.__name__}:{name}" for name in names)
    missing = "Fleet(…)" if Fleet in kinds else "Mainspring(…)"
    return f" Write the name of a {missing} in module {module.__name__}"


@Parameter(name="*", group=_DATABASE)
@dataclass(frozen=True, slots=True)
class Target:
    """The database of a command, and its tables."""

    app: Annotated[
        str | None,
        Parameter(
            metavar="MODULE:APP", help=f"Use the database of this application or fleet [{APP}, or app in {OWN}]."
        ),
    ] = None
    url: Annotated[str | None, Parameter(metavar="URL", help=f"The database [{VARIABLE}, or url in {OWN}].")] = None
    namespace: Annotated[str | None, Parameter(metavar="NAME", help="The namespace of the tables.")] = None
    schema: Annotated[
        str | None, Parameter(metavar="NAME", help="The schema on PostgreSQL, the table prefix on SQLite.")
    ] = None
    database: OfDatabases = ()

    def find(self, *, create: bool = False) -> Mainspring:
        """Return the app to open. Only with ``create`` is a missing SQLite file created.

        Raises OverFleet if it is a fleet and no database of it is the command's own yet.
        """
        found = self.load(create=create)
        if isinstance(found, Fleet):
            name = DATABASE.get()
            if name is None:
                raise OverFleet(found, self)
            return found[name]
        if address_of(found).is_fleet:
            raise Refused(f"{self.spec} leads a fleet and has no database of its own.{self.instead(Fleet)}")
        return found

    def fleet(self) -> Fleet | None:
        """Return the fleet if the command is for it, or for several databases of it; None if it is for one database."""
        found = None if DATABASE.get() is not None or self.names_one else self.load()
        return found if isinstance(found, Fleet) else None

    def code(self) -> Mainspring:
        """Return the app whose code is meant, wherever its databases are."""
        found = self.load()
        return found._app if isinstance(found, Fleet) else found  # noqa: SLF001 - a fleet shows its databases only

    @property
    def names_one(self) -> bool:
        """Whether one database of a fleet is named, and no pattern given."""
        return len(self.database) == 1 and not is_pattern(self.database[0])

    async def names(self, fleet: Fleet) -> list[str]:
        """Return the chosen databases, after asking for them."""
        await fleet.refresh()
        if (trouble := fleet._databases.trouble) is not None:  # noqa: SLF001 - health() reports it as a check
            raise Refused(f"the databases of {self.spec} are not known: {trouble}")
        try:
            return select(tuple(fleet), self.database or None)
        except UnknownDatabase as error:
            raise Refused(f"--database {error.finding}") from None

    def on(self, name: str) -> Target:
        """Return the target of this database of the fleet alone."""
        return replace(self, database=(name,))

    def load(self, *, create: bool = False) -> Mainspring | Fleet:
        """Return the app or the fleet."""
        if self.database and self.spec is None:
            raise Refused("--database chooses databases of a fleet: name it by --app, or omit --database")
        found = self._loaded(create=create)
        if isinstance(found, Fleet):
            # What it logs about its databases, commands report themselves; a worker logs it all the same.
            logging.getLogger("mainspring.fleet").addHandler(logging.NullHandler())
        elif self.database:
            raise Refused(f"--database chooses databases of a fleet, and {self.spec} is no fleet.{self.instead(Fleet)}")
        return found

    def instead(self, kind: type) -> str:
        """Return what to write in the place of the application for one of this kind."""
        return "" if self.spec is None else _written(sys.modules[self.spec.partition(":")[0]], kind)

    def _loaded(self, *, create: bool) -> Mainspring | Fleet:
        if self.app is not None:
            if self.url is not None:
                raise Refused("--app and --url name two databases: give one")
            if self.namespace is not None or self.schema is not None:
                raise Refused("--namespace and --schema require --url: an --app has its own")
            return load_app(self.app)
        if (configured := self._configured()) is not None:
            return _load_configured(*configured)
        url = self.url or _named_url()
        if not url:
            raise Refused(
                f"no database given: give --app MODULE:APP or --url URL, or set {VARIABLE} or {APP}, or url or app in "
                f"{OWN}"
            )
        _check_there(url, create=create)
        return Mainspring(url, name="cli", namespace=self.namespace, schema=self.schema)

    @property
    def spec(self) -> str | None:
        """The application, as MODULE:APP: the one named here, or else the configured one."""
        configured = self._configured()
        return self.app if configured is None else str(configured[0].value)

    def _configured(self) -> tuple[Setting, Path | None] | None:
        """Return the configured application, and the directory of the file that names it. What is typed wins."""
        if self.app or self.url or self.namespace or self.schema:
            return None
        around = read_environment()
        setting = around.app()
        if setting is None:
            return None
        return setting, None if setting.source == APP else around.folder

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where modules of the application are imported from."""
        configured = self._configured()
        folder = None if configured is None else configured[1]
        return (Path.cwd(),) if folder in (None, Path.cwd()) else (Path.cwd(), folder)

    def of(self, app: str | None) -> Target:
        """Return the target with the application that an argument names, if any."""
        if app is not None and self.app not in (None, app):
            raise Refused(f"{app} and --app {self.app} are two applications: give one")
        return replace(self, app=app or self.app)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Mainspring]:
        """Open the app for publishing and reading."""
        app = self.find()
        try:
            async with app:
                yield app
        except SchemaMissing as error:
            older = "no Mainspring schema, or an older one" if error.found == 0 else f"schema version {error.found}"
            raise Refused(self.advised(f"the database has {older}: run `{MIGRATE}`")) from error

    def advised(self, text: str) -> str:
        """Return the text of an error or a check with the options as typed in the command that it proposes."""
        return text.replace(MIGRATE, f"mainspring migrate{self.typed}")

    @property
    def typed(self) -> str:
        """Return these options as typed, to append to a suggested command."""
        # A password is in the shell's history already; it is not repeated on the screen.
        url = self.url and (self.url if read_url(self.url).engine == "sqlite" else read_url(self.url).shown)
        named = (("--app", self.app), ("--url", url), ("--namespace", self.namespace), ("--schema", self.schema))
        one = DATABASE.get()
        options = "".join(f" {option} {value}" for option, value in named if value is not None)
        return options + typed(self.database if one is None else (one,))


UNNAMED = Target()


def typed(databases: Sequence[str]) -> str:
    """Return the options for these databases of a fleet as typed."""
    return "".join(f" --database {shlex.quote(each)}" for each in databases)


def application(argument: str | None, option: str | None, databases: tuple[str, ...] = ()) -> tuple[str, Target]:
    """Return the application of a command that needs one, as MODULE:APP, and how to load it. Imports nothing."""
    target = Target(option, database=databases).of(argument)
    spec = target.spec
    if spec is None:
        raise Refused(f"no application given: write MODULE:APP, such as shop:app, or set {APP}, or app in {OWN}")
    return spec, target


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


def _load_configured(setting: Setting, folder: Path | None) -> Mainspring | Fleet:
    try:
        return load_app(str(setting.value), folder)
    except Refused as error:
        raise Refused(f"{setting.source}: {error}") from error


def _named_url() -> str | None:
    around = read_environment()
    around.check()
    found = around.url()
    return None if found is None else str(found.value)


def _check_there(url: str, *, create: bool) -> None:
    address = read_url(url)
    if address.engine == "memory":
        raise Refused("memory:// exists in one process only: give the URL of a database")
    if address.engine == "sqlite" and not create and not Path(address.target).exists():
        raise Refused(f"there is no file {address.target}: `mainspring migrate --url {url}` creates it")
