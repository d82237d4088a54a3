"""A Django project: ``MAINSPRING`` in its settings, and its app, built from them or imported by the name they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Unpack

from django.conf import settings
from django.utils.module_loading import import_string

from mainspring.app.config import AppOptions
from mainspring.app.consume.injection import Resolver
from mainspring.app.consume.middleware import Middleware
from mainspring.app.mainspring import Mainspring
from mainspring.app.options import closest
from mainspring.integrations.django.databases import FreshConnections, Location
from mainspring.model.errors import BadOption

NAME = "MAINSPRING"
_OWN = ("APP", "DATABASE", "MIGRATE")
_OPTIONS = {option.upper(): option for option in AppOptions.__annotations__}
"""Every option of an app, in Django's upper case."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed settings of the project."""

    app: str | None
    """The path of an app that the project builds itself, such as ``shop.spring.app``; None: built from the rest."""
    database: str | None
    """The alias of the database with the tables; None: not one of Django's."""
    migrate: bool
    """Whether ``manage.py migrate`` creates the tables too."""
    options: Mapping[str, Any]
    """The app's options."""


def read_settings() -> Settings:
    """Parse the settings; raise BadOption with what to write instead. A project without any is valid."""
    given = getattr(settings, NAME, {})
    if not isinstance(given, Mapping):
        raise BadOption(f"{NAME} must be a dict, as in {NAME} = {{'NAME': 'shop'}}, not {type(given).__qualname__}")
    known = (*_OWN, *_OPTIONS)
    for key in given:
        if key not in known:
            raise BadOption(f"{NAME} has an unknown key {key!r}.{closest(str(key).upper(), known)}")
    options = {_OPTIONS[key]: value for key, value in given.items() if key in _OPTIONS}
    app, database, migrate = given.get("APP"), given.get("DATABASE", "default"), given.get("MIGRATE", True)
    if app is not None and not (isinstance(app, str) and "." in app):
        raise BadOption(f"{NAME}['APP'] = {app!r} must be the dotted path of a Mainspring, as in 'shop.spring.app'")
    if app is not None and options:
        left = ", ".join(map(str.upper, options))
        raise BadOption(f"{NAME} has both APP and {left}: options go where the app is made, into {app}")
    if not isinstance(migrate, bool):
        raise BadOption(f"{NAME}['MIGRATE'] = {migrate!r} must be True or False")
    if database not in (settings.DATABASES if app is None else (*settings.DATABASES, None)):
        aliases = ", ".join(map(repr, settings.DATABASES))
        raise BadOption(f"{NAME}['DATABASE'] = {database!r} is not in DATABASES, which has {aliases}")
    return Settings(app, database, migrate, options)


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
