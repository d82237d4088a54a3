"""The app of a Django project: built from its settings, or imported from where they name it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Unpack

from django.utils.module_loading import import_string

from mainspring.app.config import AppOptions
from mainspring.app.consume.middleware import Middleware
from mainspring.app.consume.resolvers import Resolver
from mainspring.app.mainspring import Mainspring
from mainspring.integrations.django.connections import FreshConnections
from mainspring.integrations.django.databases import Location
from mainspring.integrations.django.settings import NAME, read_settings
from mainspring.model.errors import BadOption


def django_app(
    alias: str = "default",
    *,
    resolver: Resolver | object = None,
    codecs: Iterable[Any] = (),
    middleware: Sequence[Middleware] = (),
    **options: Unpack[AppOptions],
) -> Mainspring:
    """Return a ``Mainspring(…)`` on the database of this alias in DATABASES, wherever Django's tests move it.

    Django's connections are managed around every handler. The other arguments are those of ``Mainspring``.
    """
    around = (FreshConnections(), *middleware)
    return Mainspring(Location(alias), resolver=resolver, codecs=codecs, middleware=around, **options)


@cache
def project_app() -> Mainspring:
    """Return the project's app; raise BadOption if the settings are invalid."""
    given = read_settings()
    if given.app is None:
        assert given.database is not None, "only an app built by the project can be elsewhere"
        return django_app(given.database, **given.options)
    try:
        found = import_string(given.app)
    except ImportError as error:
        raise BadOption(f"{NAME}['APP'] = {given.app!r} cannot be imported: {error}") from error
    if not isinstance(found, Mainspring):
        raise BadOption(f"{NAME}['APP'] = {given.app!r} is of type {type(found).__qualname__}, not a Mainspring")
    return found
