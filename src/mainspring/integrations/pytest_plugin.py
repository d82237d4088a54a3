"""The fixture ``mainspring``: a testing kit over the project's app. pytest loads it by itself.

Fixtures are plain functions, so they serve blocking tests, pytest-asyncio and anyio's plugin alike. Nothing of
Mainspring is imported before a test asks for one.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring
    from mainspring.app.testing.kit import Testing

_OPTION = "mainspring_app"
_WRITE = f'write {_OPTION} = "shop:app" among pytest\'s options, or a fixture {_OPTION} that returns the app'


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the project say which app it is."""
    parser.addini(_OPTION, "the app that the fixture `mainspring` tests, as MODULE:APP", default="")


@pytest.fixture
def mainspring_app(pytestconfig: pytest.Config) -> Mainspring:
    """The app under test: the one the ini option names. A fixture of your own with this name takes its place."""
    named = str(pytestconfig.getini(_OPTION)).strip()
    if not named:
        raise pytest.UsageError(f"the fixture mainspring does not know your app: {_WRITE}")
    if (root := str(pytestconfig.rootpath)) not in sys.path:
        sys.path.insert(0, root)  # as `mainspring worker shop:app` would find it
    return _found(named)


@pytest.fixture
def mainspring_tx() -> object:
    """The transaction to test in: none, so that it is memory. A fixture of your own may return a session."""
    return None


@pytest.fixture
def mainspring(mainspring_app: Mainspring, mainspring_tx: object) -> Iterator[Testing]:
    """The app for one test, on storage of its own and with a hand-turned clock: ``await mainspring.drain()``."""
    with mainspring_app.testing(tx=mainspring_tx) as kit:
        yield kit


def _found(named: str) -> Mainspring:
    from mainspring.app.mainspring import Mainspring

    try:
        app = pkgutil.resolve_name(named)
    except (ValueError, AttributeError) as error:
        raise pytest.UsageError(f"{_OPTION} = {named!r} names nothing ({error}): {_WRITE}") from error
    except ModuleNotFoundError as error:
        if error.name is None or not named.startswith(error.name):
            raise  # a module of the user's own lacks something
        raise pytest.UsageError(f"{_OPTION} = {named!r} names no module ({error}): {_WRITE}") from error
    if not isinstance(app, Mainspring):
        raise pytest.UsageError(f"{_OPTION} = {named!r} is of type {type(app).__qualname__}, not an app: {_WRITE}")
    return app
