"""Errors of the driver and the network as Mainspring's own, without any secret."""

from __future__ import annotations

import re
import ssl
from urllib.parse import parse_qs, unquote, urlsplit

from mainspring.model.errors import (
    BadOption,
    DatabaseMoved,
    NotGranted,
    SchemaMissing,
    StorageError,
    StorageUnavailable,
)
from mainspring.model.roles import Role
from mainspring.storage.migrations import migrations
from mainspring.storage.operation import Lane
from mainspring.storage.postgres.address import Address, has_bad_port, password_parts
from mainspring.storage.postgres.dialect import PACKAGE
from mainspring.storage.postgres.driver import Refusal
from mainspring.storage.postgres.tls import NotEncrypted

_TRY_AGAIN = frozenset(
    {
        "25006",  # read only: we are connected to what has become a standby
        "25P03",  # idle in transaction for too long
        "26000",  # a prepared statement is missing: there is a pooler in between
        "40001",  # serialization failure
        "40P01",  # deadlock
        "42P05",  # a prepared statement that is there already: likewise
        "55006",  # the database is being created or dropped
        "55P03",  # a lock was not granted in time
        "57014",  # ran into statement_timeout
    }
)
_TRY_AGAIN_CLASSES = ("08", "53", "57P")
_CREDENTIALS = "28"
_OF_CONNECTIONS = ("08", "28", "3D", "25006", "42501", "53", "57P")
"""Of the connection, or of the rights of its role."""
_NOT_GRANTED = "42501"
_DENIED = re.compile(r"permission denied for ((?:table|schema|sequence|function|view|database) .+)")
_AUDIT = "table audit"
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("publish", "publish_unique", "join", "pending", "cancel"), "publish"),
    **dict.fromkeys(("declare", "beat", "deregister", "prune", "acquire", "admit"), "work"),
    **dict.fromkeys(("claim", "limited", "settle"), "work"),
    "read": "read",
    "migrate": "migrate",
}
"""The role that an operation, or else its lane, belongs to, where that tells."""
_NO_TABLES = frozenset({"42P01", "3F000"})
_UNDEFINED = "42883"
"""A function that is not there, or an operator."""
_POOLED = frozenset({"26000", "42P05"})
_REFUSED_SETTING = frozenset({"08P01", "42704"})


def translated(  # noqa: PLR0911 - one for each meaning
    error: BaseException,
    refusal: Refusal | None,
    secrets: tuple[str, ...],
    operation: str | None = None,
    lane: Lane | None = None,
    *,
    renews: bool = False,
    address: Address | None = None,
) -> StorageError:
    """The error to raise instead of this one, in this operation; ``refusal`` is what the driver takes it for.

    ``renews`` says that the next connection may have other credentials, so that refused ones are no final answer.
    Errors of the connection and of rights name the ``address``.
    """
    at = "" if address is None else f" at {address}"
    if refusal is not None:
        said = str(error).partition("\n")[0]
        if refusal.state in _NO_TABLES or (refusal.state == _UNDEFINED and said.startswith("function ")):
            return SchemaMissing(0, migrations(PACKAGE)[-1].number, what=said)
        if (moved := DatabaseMoved.read(said)) is not None:
            return moved
        named = at if refusal.state.startswith(_OF_CONNECTIONS) else ""
        text = f"PostgreSQL{named} says {_scrubbed(str(error), secrets)} ({refusal.state})"
        if refusal.state == _NOT_GRANTED:
            return not_granted(text, said, address, operation, lane)
        advice = _advice(refusal.state, address)
        text += "" if advice is None else f": {advice}"
        passes = _passes(refusal) or (renews and refusal.state.startswith(_CREDENTIALS))
        return StorageUnavailable(text) if passes else StorageError(text)
    if isinstance(error, UnicodeError):
        return StorageError(f"a value cannot be stored: {_scrubbed(str(error), secrets)}")
    if isinstance(error, TimeoutError):
        return StorageUnavailable(f"PostgreSQL{at} did not answer in time")
    text = _scrubbed(str(error), secrets) or type(error).__name__
    hint = "" if address is None or address.hint is None else f". Also, {address.hint}"
    unanswered = isinstance(error, OSError) and not isinstance(error, NotEncrypted | ssl.SSLError)
    ask = ": is the server running, and are host and port right?" if unanswered else ""
    return StorageUnavailable(f"PostgreSQL{at} cannot be reached: {text}{ask}{hint}")


def not_granted(
    text: str, said: str, address: Address | None = None, operation: str | None = None, lane: str | None = None
) -> NotGranted:
    """Return the error for what the server ``said``: it names the object, and the statements that grant the right."""
    found = _DENIED.search(said)
    wanted = None if found is None else found[1]
    to = None if address is None else address.role
    if address is not None and "for database" in said and operation != "migrate":
        advice = f'run GRANT CONNECT ON DATABASE "{address.database}" TO "{address.role}"; as its owner'
    else:
        role = _ROLES.get(operation or "") or _ROLES.get(lane or "")
        if wanted == _AUDIT and role != "read":
            role = "operate"
        every = f"`mainspring grants --role {role or 'ROLE'} {to or 'ROLE_NAME'}` prints all of them"
        advice = f"run `mainspring doctor` as this role, it prints the GRANT that is missing; {every}"
    return NotGranted(text, advice, role=to, object=wanted, operation=operation)


def _advice(state: str, address: Address | None) -> str | None:
    """Return what to change, where that is known."""
    if address is None:
        return None
    return {
        "28P01": "correct the role or its password in the URL",
        "28000": "correct the role in the URL, or admit it in the server's pg_hba.conf",
        "3D000": f"run `createdb {address.database}`, or correct the database in the URL",
    }.get(state)


def is_lasting(refusal: Refusal | None) -> bool:
    """Whether the connection is good for nothing more after this."""
    if refusal is None:
        return True
    state, outdated = refusal
    return outdated or state in _POOLED or state == "25006" or state.startswith(("08", "57P"))


def is_pooled(refusal: Refusal | None) -> bool:
    """Whether this shows that a pooler hands every transaction to another session."""
    return refusal is not None and refusal.state in _POOLED


def is_refused_setting(refusal: Refusal | None) -> bool:
    """Whether the other side took offence at a setting sent along with the connection."""
    return refusal is not None and refusal.state in _REFUSED_SETTING


def _passes(refusal: Refusal) -> bool:
    state, outdated = refusal
    return outdated or state in _TRY_AGAIN or state.startswith(_TRY_AGAIN_CLASSES)


def secrets_of(dsn: str) -> tuple[str, ...]:
    """The passwords in a connection URL, as written and as meant; in parts where it is not escaped."""
    try:
        parts = urlsplit(dsn)
        found = [parts.password or "", *parse_qs(parts.query).get("password", ()), *password_parts(dsn)]
    except ValueError:
        raise unreadable() from None
    if has_bad_port(dsn):
        raise BadOption(
            "the port in the PostgreSQL URL is no number: write postgresql://user:password@host:5432/database"
        )
    return tuple(each for word in found if word for each in {word, unquote(word)})


def unreadable() -> BadOption:
    """Say that the URL cannot be read, without saying what it is."""
    return BadOption(
        "the PostgreSQL URL cannot be read: write postgresql://user:password@host:5432/database, "
        "and write characters like @ / : # ? % in the password as %40 %2F %3A %23 %3F %25"
    )


def _scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return " ".join(text.split())  # what the server adds in further lines belongs to this one
