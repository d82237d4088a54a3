"""Importing the application that ``MODULE:APP`` names on the command line."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Annotated

from cyclopts import Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.options import closest
from mainspring.cli.failures import Refused, interruptible
from mainspring.model.errors import MainspringError

Spec = Annotated[
    str, Parameter(name="MODULE:APP", help="The application, imported from the current directory, such as shop:app.")
]
"""The argument that names an application, the same for every command that takes one."""

_PACKAGE = str(Path(__file__).parents[1])


def load_app(spec: str) -> Mainspring:
    """Import the app that ``MODULE:APP`` names; modules of the current directory take precedence."""
    name, attribute = _parse(spec)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
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
        raise Refused(f"{spec!r} does not name an app: write MODULE:APP, such as {name or 'shop'}:{attribute or 'app'}")
    return name, attribute


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
