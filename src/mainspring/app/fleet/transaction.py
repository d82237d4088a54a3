"""The database of a caller's transaction, as far as its handle tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mainspring.app.fleet.member import Member
from mainspring.app.place import HERE
from mainspring.app.storages import identity
from mainspring.app.transaction.handles import Kind, recognise
from mainspring.model.errors import BadHandle


class Whereabouts(NamedTuple):
    """Where a handle is connected to."""

    shown: str
    engine: str
    names: frozenset[str]
    """The name of the database; or, on SQLite, the files that are open, attached ones too."""
    host: str | None = None
    """Host and port, where the handle knows them."""


def members_of(tx: object, members: Iterable[Member]) -> tuple[list[Member], Whereabouts | None]:
    """Return the members whose database this transaction may be of, and where it is; None if the handle does not tell.

    Raises BadHandle for what is no handle.
    """
    kind, handle = recognise(tx)
    if kind.library == "mainspring":  # ctx.tx of a handler: the database of its worker
        here = HERE.get()
        return [each for each in members if each.place is here], None
    where = _whereabouts(kind, handle)
    if where is None:
        return list(members), None
    found = [each for each in members if _fits(each, where)]
    if len(found) > 1 and where.host is not None:
        # One server has many names, so a host decides only among databases of one name.
        same = [each for each in found if (identity(each.address) or ("", ""))[1] == where.host]
        found = same or found
    return found, where


def _fits(member: Member, where: Whereabouts) -> bool:
    key = identity(member.address)
    return key is not None and key[0] == where.engine and key[-1] in where.names


def _whereabouts(kind: Kind, handle: Any) -> Whereabouts | None:
    match kind.library:
        case "asyncpg":
            # A lent connection of a pool passes its attributes on; there is no public name for these.
            database = getattr(getattr(handle, "_params", None), "database", None)
            address = getattr(handle, "_addr", None)
            host = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else None
            return None if database is None else _server(database, host)
        case "psycopg":
            return _server(handle.info.dbname, f"{handle.info.host}:{handle.info.port}")
        case "sqlite3":
            return _files(file for _, name, file in handle.execute("PRAGMA database_list") if name != "temp")
        case "sqlalchemy":
            return _of_sqlalchemy(handle)
        case "django":
            return _of_django(handle.settings_dict, str(handle.vendor))
        case _:
            return None


def _of_sqlalchemy(handle: Any) -> Whereabouts | None:
    plain = getattr(handle, "sync_session", None) or getattr(handle, "sync_connection", None) or handle
    bind = plain.get_bind() if hasattr(plain, "get_bind") else plain
    url = bind.engine.url
    if url.get_backend_name() == "sqlite":
        return _files([url.database or ""])
    return (
        None if not url.database else _server(url.database, None if not url.host else f"{url.host}:{url.port or 5432}")
    )


def _of_django(settings: Mapping[str, Any], vendor: str) -> Whereabouts | None:
    name = str(settings.get("NAME") or "")
    if vendor == "sqlite":
        return _files([name])
    host = settings.get("HOST")
    return _server(name, None if not host else f"{host}:{settings.get('PORT') or 5432}") if name else None


def _server(database: str, host: str | None) -> Whereabouts:
    shown = f"the database {database!r}" + ("" if host is None else f" on {host}")
    return Whereabouts(shown, "postgresql", frozenset((database,)), host)


def _files(files: Iterable[str | None]) -> Whereabouts:
    found = [file for file in files if file]
    paths = frozenset(str(Path(file).resolve()) for file in found)
    return Whereabouts(f"the file {found[0]!r}" if found else "a database in memory", "sqlite", paths)


def elsewhere(where: Whereabouts | None, known: Iterable[str]) -> BadHandle:
    """Return the error for a transaction of a database that is not in the fleet."""
    shown = "a database" if where is None else where.shown
    names = ", ".join(sorted(known)) or "none"
    return BadHandle(
        f"tx= is a transaction of {shown}, which is not in the fleet ({names}): a message can only be part of a "
        "transaction of its own database. Pass a transaction of one of them, or leave tx= out; if that database is one "
        "of them under another name, write fleet['name'].publish(…, tx=…)"
    )
