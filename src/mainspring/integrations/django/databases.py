"""The URL of one of Django's databases."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections

from mainspring.model.errors import BadOption, Misuse

_PASSED_ON = ("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "target_session_attrs", "passfile", "service")
"""The OPTIONS that affect how to connect; the others concern Django only."""
_IN_MEMORY = "sqlite:////dev/null/memory"


class Location:
    """Where a Django database is now. A function, because Django's tests move it.

    The first call needs the engine only, so it accepts a database in memory, which no other connection can open.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._asked = False

    def __call__(self) -> str:
        """Return the current URL."""
        connection = connections[self._alias]
        if connection.vendor == "sqlite":
            again, self._asked = self._asked, True
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
    who = quote(str(given["USER"]), safe="")
    if given["PASSWORD"]:
        who += ":" + quote(str(given["PASSWORD"]), safe="")
    host, port = str(given["HOST"]), str(given["PORT"])
    query = {name: str(value) for name, value in given["OPTIONS"].items() if name in _PASSED_ON}
    if host.startswith("/"):  # the directory of a socket
        query["host"], host = host, ""
    place = f"[{host}]" if ":" in host else host
    return (
        f"postgresql://{who}{'@' if who else ''}{place}{':' if port else ''}{port}/{quote(str(given['NAME'] or ''))}"
        f"{'?' if query else ''}{urlencode(query)}"
    )
