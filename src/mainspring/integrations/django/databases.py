"""Django's databases: their URLs, and their connections, managed around handlers as Django does around requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, urlencode

from asgiref.sync import sync_to_async
from django.db import connections

from mainspring.app.consume.context import BatchContext, Context
from mainspring.app.consume.middleware import Middleware, Next
from mainspring.model.errors import BadOption, Misuse

_PASSED_ON = ("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "target_session_attrs", "passfile", "service")
"""The OPTIONS that affect how to connect; the others concern Django only."""
_IN_MEMORY = "sqlite:////dev/null/memory"
_in_thread: ContextVar[list[bool] | None] = ContextVar("mainspring_django_in_thread", default=None)


class Location:
    """Where a Django database is now. A function, because Django's tests move it.

    The first call needs the engine only, so it accepts a database in memory, which no other connection can open.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._called = False

    def __call__(self) -> str:
        """Return the current URL."""
        connection = connections[self._alias]
        if connection.vendor == "sqlite":
            again, self._called = self._called, True
            return _sqlite(connection, again=again)
        if connection.vendor == "postgresql":
            return _postgresql(connection)
        raise BadOption(
            f"DATABASES[{self._alias!r}] is on {connection.display_name}, which Mainspring does not support: it needs "
            "PostgreSQL or SQLite; choose another with MAINSPRING = {'DATABASE': …}"
        )


def is_in_memory(connection: Any) -> bool:
    """Return whether it is SQLite in memory, as Django's test databases are."""
    return bool(connection.vendor == "sqlite" and connection.is_in_memory_db())


def _sqlite(connection: Any, *, again: bool) -> str:
    if not is_in_memory(connection):
        return f"sqlite:///{connection.settings_dict['NAME']}"
    if not again:
        return _IN_MEMORY
    raise Misuse(
        f"DATABASES[{connection.alias!r}] is in memory, as in Django's tests, and only its own connection can use "
        "it: pass tx=connection, or test within `with app.testing(tx=connection) as kit:`"
    )


def _postgresql(connection: Any) -> str:
    if connection.Database.__name__ != "psycopg":
        raise BadOption(
            f"DATABASES[{connection.alias!r}] uses {connection.Database.__name__}, in whose transactions Mainspring "
            "cannot enlist: pip install psycopg (version 3), which Django then uses"
        )
    given = connection.settings_dict
    user = quote(str(given["USER"]), safe="")
    if given["PASSWORD"]:
        user += ":" + quote(str(given["PASSWORD"]), safe="")
    host, port = str(given["HOST"]), str(given["PORT"])
    query = {name: str(value) for name, value in given["OPTIONS"].items() if name in _PASSED_ON}
    if host.startswith("/"):  # the directory of a socket
        query["host"], host = host, ""
    place = f"[{host}]" if ":" in host else host
    return (
        f"postgresql://{user}{'@' if user else ''}{place}{':' if port else ''}{port}/{quote(str(given['NAME'] or ''))}"
        f"{'?' if query else ''}{urlencode(query)}"
    )


class FreshConnections(Middleware):
    """Closes connections that are broken, or older than CONN_MAX_AGE, before and after every handler.

    Django does so around requests, which a worker does not have. Connections are per thread: that of a plain function
    is closed in its thread, those of coroutines in the thread where Django runs their queries.
    """

    @contextmanager
    def calling(self, ctx: Context | BatchContext) -> Iterator[None]:  # noqa: ARG002
        """See ``Middleware.calling``."""
        if _on_loop():
            yield
            return
        if (in_thread := _in_thread.get()) is not None:
            in_thread.append(True)
        close_old()
        try:
            yield
        finally:
            close_old()

    async def handling(self, ctx: Context | BatchContext, call_next: Next) -> object:  # noqa: ARG002
        """See ``Middleware.handling``."""
        in_thread: list[bool] = []
        token = _in_thread.set(in_thread)
        try:
            return await call_next()
        finally:
            _in_thread.reset(token)
            if not in_thread:
                await sync_to_async(close_old)()

    def calling_batch(self, ctx: BatchContext) -> AbstractContextManager[None]:
        """See ``Middleware.calling_batch``."""
        return self.calling(ctx)

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        return await self.handling(ctx, call_next)


def close_old() -> None:
    """Do as ``django.db.close_old_connections``, except for connections in a transaction: that is a test's."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
