"""The application or database of a command.

An application is named by the argument ``MODULE:APP``, by ``--app``, by MAINSPRING_APP or by ``app`` in
mainspring.toml, the same for every command; a database alone by ``--url``, MAINSPRING_URL or ``url``.
"""

from __future__ import annotations

import getpass
import importlib
import os
import shutil
import socket
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated

from cyclopts import Group, Parameter

from mainspring.app.environment import APP, URL, read_environment
from mainspring.app.mainspring import Mainspring
from mainspring.app.options import Setting, closest
from mainspring.app.storages import read_url
from mainspring.app.toml import OWN
from mainspring.cli.errors import Refused, interruptible
from mainspring.model.errors import MIGRATE, MainspringError, SchemaMissing

Spec = Annotated[
    str, Parameter(name="MODULE:APP", help="The application, imported from the current directory, such as shop:app.")
]
"""The argument that names an application, the same for every command that takes one."""
OfApp = Annotated[
    str | None,
    Parameter(name="--app", metavar="MODULE:APP", help=f"The application, as the argument [{APP}, or app in {OWN}]."),
]
"""The option that names an application, for commands that take no other database."""

_PACKAGE = str(Path(__file__).parents[1])
_DATABASE = Group("Database")
VARIABLE = URL
Json = Annotated[bool, Parameter(negative="", show_default=False, help="Print one JSON document.")]


def load_app(spec: str, folder: Path | None = None) -> Mainspring:
    """Import the app that ``MODULE:APP`` names; modules of the folder, then of the current directory, come first."""
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
    if type(found).__qualname__ == "Fleet":
        raise Refused(
            f"{spec} is a fleet, which the command line does not know yet: its worker is a script that ends in "
            f"{attribute}.run(), and a command for one of its databases is given --url instead of the app"
        )
    if not isinstance(found, Mainspring):
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


def _written(module: ModuleType) -> str:
    """Return what to write instead, if the module holds an app under another name."""
    names = [name for name, value in vars(module).items() if isinstance(value, Mainspring)]
    if names:
        return " Write " + " or ".join(f"{module.__name__}:{name}" for name in names)
    return f" Write the name of a Mainspring(…) in module {module.__name__}"


@Parameter(name="*", group=_DATABASE)
@dataclass(frozen=True, slots=True)
class Target:
    """The database of a command, and its tables."""

    app: Annotated[
        str | None,
        Parameter(metavar="MODULE:APP", help=f"Use the database of this application [{APP}, or app in {OWN}]."),
    ] = None
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
        return "".join(f" {option} {value}" for option, value in named if value is not None)


UNNAMED = Target()


def application(argument: str | None, option: str | None) -> tuple[str, Target]:
    """Return the application of a command that needs one, as MODULE:APP, and how to load it. Imports nothing."""
    target = Target(option).of(argument)
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


def _load_configured(setting: Setting, folder: Path | None) -> Mainspring:
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
