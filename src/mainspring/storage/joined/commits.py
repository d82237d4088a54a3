"""Hearing of a commit through SQLAlchemy, after it: its own event comes before, when there is nothing to see yet."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.engine.base import RootTransaction
from sqlalchemy.pool import PoolProxiedConnection

_KEY = "mainspring"


@dataclass(slots=True)
class _Note:
    """Who is to hear when this transaction has been committed. Kept with the driver's connection."""

    transaction: weakref.ref[RootTransaction]
    listeners: list[Callable[[], None]] = field(default_factory=list)


class Commit:
    """In place of one dialect's ``do_commit``: the same, and then tells those who asked.

    Every commit of every session and connection passes here, and nothing but a commit: no savepoint, no rollback.
    """

    def __init__(self, commit: Callable[[PoolProxiedConnection], None]) -> None:
        self._commit = commit

    def __call__(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Commit, then tell."""
        note: _Note | None = dbapi_connection.info.pop(_KEY, None)
        transaction = None if note is None else note.transaction()
        # A note of a transaction that was rolled back is nobody's business any more.
        meant = transaction is not None and transaction.is_active
        self._commit(dbapi_connection)
        if note is not None and meant:
            for listener in note.listeners:
                listener()


def note(connection: Connection, listener: Callable[[], None]) -> None:
    """Have the listener called once, after the transaction that this connection is in has been committed."""
    transaction = connection.get_transaction()
    if transaction is None:
        return
    found: _Note | None = connection.info.get(_KEY)
    if found is None or found.transaction() is not transaction:
        found = connection.info[_KEY] = _Note(weakref.ref(transaction))
    if listener not in found.listeners:
        found.listeners.append(listener)
    _watch(connection.dialect)


def is_noted(connection: Connection) -> bool:
    """Whether somebody waits for the transaction that this connection is in."""
    found: _Note | None = connection.info.get(_KEY)
    return found is not None and found.transaction() is connection.get_transaction()


def _watch(dialect: Dialect) -> None:
    # The dialect belongs to one engine. Twice would do no harm: who comes second finds no note.
    if not isinstance(dialect.do_commit, Commit):
        dialect.do_commit = Commit(dialect.do_commit)  # type: ignore[method-assign]
