"""The fixture ``mainspring``: a testing kit for the project's app. pytest loads this plugin by itself.

Fixtures are plain functions, so they work with blocking tests, pytest-asyncio and anyio's plugin. Nothing of
Mainspring is imported before a test requests one.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring
    from mainspring.testing.kit import Testing

_OPTION = "mainspring_app"
_WRITE = f'write {_OPTION} = "shop:app" in pytest\'s options, or a fixture {_OPTION} that returns the app'


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the project's app."""
    parser.addini(_OPTION, "the app of the fixture `mainspring`, as MODULE:APP", default="")


@pytest.fixture
def mainspring_app(pytestconfig: pytest.Config) -> Mainspring:
    """Return the app under test: the one that the ini option names. Override this fixture to build it yourself."""
    named = str(pytestconfig.getini(_OPTION)).strip()
    if not named:
        raise pytest.UsageError(f"the fixture mainspring needs an app: {_WRITE}")
    if (root := str(pytestconfig.rootpath)) not in sys.path:
        sys.path.insert(0, root)  # where `mainspring worker shop:app` would find it
    return _found(named)


@pytest.fixture
def mainspring_tx() -> object:
    """Return the transaction to test in: None, for storage in memory. Override this fixture to return a session."""
    return None


@pytest.fixture
def mainspring(mainspring_app: Mainspring, mainspring_tx: object) -> Iterator[Testing]:
    """Yield the app for one test, on its own storage and with a clock that the test advances."""
    with mainspring_app.testing(tx=mainspring_tx) as kit:
        yield kit


def _found(named: str) -> Mainspring:
    from mainspring.app.mainspring import Mainspring

    try:
        app = pkgutil.resolve_name(named)
    except (ValueError, AttributeError) as error:
        raise pytest.UsageError(f"{_OPTION} = {named!r} does not exist ({error}): {_WRITE}") from error
    except ModuleNotFoundError as error:
        if error.name is None or not named.startswith(error.name):
            raise  # an import inside the user's own module failed
        raise pytest.UsageError(f"{_OPTION} = {named!r} is not a module ({error}): {_WRITE}") from error
    if not isinstance(app, Mainspring):
        raise pytest.UsageError(f"{_OPTION} = {named!r} is of type {type(app).__qualname__}, not an app: {_WRITE}")
    return app
