"""Encryption that is required: of the URL before a connection is opened, and of the connection after."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs

from mainspring.model.errors import BadOption

_ENOUGH = ("require", "verify-ca", "verify-full")
_VARIABLE = "PGSSLMODE"


class NotEncrypted(ConnectionError):
    """A connection was opened without TLS, although it is required."""

    def __init__(self) -> None:
        super().__init__(
            "the connection is not encrypted, and require_tls is set: connect to a TCP port with TLS, not to a socket, "
            "or set require_tls=False"
        )


def enforced(dsn: str) -> str:
    """Return the URL with an sslmode that leaves no choice. Raises BadOption for one that allows a plain connection.

    A URL that names none gets ``require``, unless the environment names a stricter one, which then applies.
    """
    head, mark, query = dsn.partition("?")
    named = parse_qs(query).get("sslmode", [])
    for mode in named:
        _refuse(mode, f"sslmode={mode} in the URL", "write sslmode=require, or verify-full, in the URL")
    if named:
        return dsn
    around = os.environ.get(_VARIABLE)
    if around:
        _refuse(around, f"{_VARIABLE}={around}", f"set {_VARIABLE}=require, or verify-full, or unset it")
        return dsn
    return f"{head}?{query}&sslmode=require" if mark else f"{head}?sslmode=require"


def _refuse(mode: str, what: str, instead: str) -> None:
    if mode not in _ENOUGH:
        raise BadOption(f"require_tls is set, and {what} does not guarantee TLS: {instead}, or set require_tls=False")


def check_encrypted(connection: Any) -> None:
    """Raise NotEncrypted unless a driver's connection is encrypted now; it is then terminated."""
    if hasattr(connection, "pgconn"):  # psycopg's
        encrypted = bool(connection.pgconn.ssl_in_use)
        end = connection.pgconn.finish
    else:
        # asyncpg has no other way to ask.
        encrypted = connection._transport.get_extra_info("ssl_object") is not None  # noqa: SLF001
        end = connection.terminate
    if not encrypted:
        end()
        raise NotEncrypted
