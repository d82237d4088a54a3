"""Callers with Django: its connection, one of its connections, and an alias."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from django import setup
from django.conf import settings
from django.db import connections, transaction
from django.utils.connection import ConnectionProxy

from tests.integration.handles.callers import Caller, kind


@contextmanager
def django_database(address: str) -> Iterator[str]:
    """The alias of one more database of Django's, beside whatever this process has of them."""
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={})
        setup()
    alias = f"handles_{uuid4().hex[:8]}"
    described = {"default": {}, alias: _described(address)}
    connections.settings[alias] = connections.configure_settings(described)[alias]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def _described(address: str) -> dict[str, Any]:
    if not address.startswith("postgresql:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": address}
    parts = urlsplit(address)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "PASSWORD": parts.password or "",
    }


class Django(Caller):
    def __init__(self, alias: str) -> None:
        self.alias = alias

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        with transaction.atomic(using=self.alias):
            yield

    savepoint = transaction

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        with transaction.atomic(using=self.alias):
            await work()
            transaction.set_rollback(True, using=self.alias)


def _proxy(alias: str) -> Any:
    return ConnectionProxy(connections, alias)  # what django.db.connection is


def _wrapper(alias: str) -> Any:
    return connections[alias]


def _alias(alias: str) -> Any:
    return alias


@kind("Django connection", "PostgreSQL", loop=False, tells=True, make=_proxy)
@kind("Django connections[…]", "PostgreSQL", loop=False, tells=True, make=_wrapper)
@kind("Django alias", "PostgreSQL", loop=False, tells=True, make=_alias)
@kind("Django connection", "SQLite", loop=False, tells=True, make=_proxy)
@kind("Django alias", "SQLite", loop=False, tells=True, make=_alias)
@asynccontextmanager
async def django(address: str, make: Callable[[str], Any]) -> AsyncIterator[Caller]:
    with django_database(address) as alias:
        caller = Django(alias)
        caller.tx = make(alias)
        yield caller
