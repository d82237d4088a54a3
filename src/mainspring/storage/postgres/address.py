"""Where a connection URL leads, as errors name it: host, port, database and role, never the password."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

_PORT = "5432"
_ESCAPES = {"@": "%40", "/": "%2F", "#": "%23", "?": "%3F"}


class Address(NamedTuple):
    """What a URL names, with the defaults of the environment."""

    hosts: str
    """Each with its port, as in ``db1:5432,db2:5432``."""
    database: str
    role: str
    unescaped: str | None = None
    """A character that ends the password for some drivers, as it is written."""

    def __str__(self) -> str:
        """For people."""
        named = (("database", self.database), ("role", self.role))
        parts = ", ".join(f"{what} {value!r}" for what, value in named if value)
        return f"{self.hosts} ({parts})" if parts else self.hosts

    @property
    def hint(self) -> str | None:
        """What to change in the URL; None if it is well-formed."""
        if self.unescaped is None:
            return None
        what = f"the password in the URL has an unescaped {self.unescaped!r}, and may be read otherwise than meant"
        return f"{what}: write {_ESCAPES[self.unescaped]}"


def read_address(dsn: str) -> Address:
    """Read a URL, well-formed or not."""
    user, place, query = _split(dsn)
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    hosts, _, database = place.partition("/")
    role = unquote(user.partition(":")[0]) or options.get("user") or os.environ.get("PGUSER", "")
    database = unquote(database) or options.get("dbname") or options.get("database") or os.environ.get("PGDATABASE", "")
    hosts = unquote(hosts) or options.get("host") or os.environ.get("PGHOST") or "localhost"
    port = options.get("port") or os.environ.get("PGPORT") or _PORT
    shown = ",".join(each if _has_port(each) else f"{each}:{port}" for each in hosts.split(","))
    unescaped = next((each for each in _ESCAPES if each in user.partition(":")[2]), None)
    return Address(shown, database or role, role, unescaped)


def password_parts(dsn: str) -> list[str]:
    """Return what a driver may take for something else, and name in an error, where the password is not escaped."""
    password = _split(dsn)[0].partition(":")[2]
    found = [each for each in re.split("[@/#?]", password) if each]
    return found if found != [password] else []


def has_bad_port(dsn: str) -> bool:
    """Return whether what follows the colon of a host is no number; it may be a part of a password."""
    hosts = _split(dsn)[1].partition("/")[0].split(",")
    ports = [each.rpartition("]")[2].rpartition(":")[2] for each in hosts if ":" in each.rpartition("]")[2]]
    return any(port and not port.isdigit() for port in ports)


def _split(dsn: str) -> tuple[str, str, str]:
    """Return user and password, the place, and the parameters, as they are meant."""
    rest = dsn.partition("://")[2]
    head, mark, query = rest.partition("?")
    if "@" not in head and mark and ":" in head and "@" in query.partition("&")[0]:
        user, _, place = rest.rpartition("@")  # the mark is a part of the password
        place, _, query = place.partition("?")
    else:
        user, _, place = head.rpartition("@")
    return user, place, query


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)
