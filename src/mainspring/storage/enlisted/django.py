"""Enlisting in a transaction of Django: ``connection``, ``connections["other"]`` or the alias of one.

Our statements run on the very connection that ``atomic`` has begun on, beneath Django's cursor: that one would write
parameters into the text, and would read ours as its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from mainspring.model.errors import BadHandle
from mainspring.storage.enlisted.errors import OwnFile, autocommitting, closed, failed, lone_savepoint, other_database
from mainspring.storage.script import Row, Statement, SyncConnection


class EnlistedDjango:
    """``SyncConnection`` over Django's connection. Never commits; driver errors leave as Django's own.

    ``committed`` is called after the outermost ``atomic`` has committed.
    """

    def __init__(self, handle: Any, engine: str, committed: Callable[[], None], file: OwnFile | None = None) -> None:
        _check(handle, engine)
        self._handle = handle
        self._committed = committed
        self._registered = False
        self._driver = _DRIVERS[engine](handle)
        if file is not None:
            file.refuse_others(self._driver.execute)

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it in the transaction that ``atomic`` has begun."""
        with self._handle.wrap_database_errors:
            rows = self._driver.execute(statement)
        if not self._registered:
            self._registered = True
            self._register_for_commit()
        return rows

    def _register_for_commit(self) -> None:
        handle = self._handle
        if not handle.in_atomic_block:  # transactions are managed by hand, where Django hears of no commit
            return
        around = set(handle.savepoint_ids)
        known = (callback == self._committed and within <= around for within, callback, *_ in handle.run_on_commit)
        if not any(known):
            handle.on_commit(self._committed, robust=True)


class _Sqlite:
    """``SyncConnection`` over the sqlite3 connection beneath Django's."""

    def __init__(self, handle: Any) -> None:
        from mainspring.storage.enlisted import sqlite

        if any(handle.savepoint_ids) and sqlite.begins_before_writing(handle.connection):
            raise lone_savepoint()
        self._handle = handle
        self._enlisting = sqlite
        self._cursor = sqlite.opened(handle.connection)

    def execute(self, statement: Statement) -> Sequence[Row]:
        try:
            return self._enlisting.rows(self._cursor, statement)
        except self._handle.Database.Error as error:
            if explanation := self._enlisting.missing(error, str(self._handle.settings_dict["NAME"])):
                raise explanation from error
            raise


def _psycopg(handle: Any) -> SyncConnection:
    if handle.Database.__name__ != "psycopg":
        raise BadHandle(
            f"tx= is Django's connection {handle.alias!r} over {handle.Database.__name__}, which Mainspring cannot "
            "use: pip install psycopg, version 3, and Django takes it by itself"
        )
    from mainspring.storage.enlisted.psycopg import EnlistedPsycopg

    return EnlistedPsycopg(handle.connection)


_DRIVERS: dict[str, Callable[[Any], SyncConnection]] = {"postgresql": _psycopg, "sqlite": _Sqlite}


def by_alias(alias: str) -> Any:
    """Django's connection of that alias; None where Django is not set up in this process or knows no such alias."""
    database, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if database is None or conf is None or not conf.settings.configured:
        return None
    return next((database.connections[each] for each in database.connections if each == alias), None)


def _check(handle: Any, engine: str) -> None:
    what = f"Django's connection {handle.alias!r}"
    if handle.vendor != engine:
        raise other_database(f"{what} on {handle.vendor}", engine)
    try:
        handle.validate_thread_sharing()
    except sys.modules["django.db"].DatabaseError as error:
        raise BadHandle(
            f"tx= is {what} of another thread: use `django.db.connection` or the alias, which are each thread's own"
        ) from error
    if handle.closed_in_transaction:
        raise closed(what)
    if handle.get_autocommit():
        raise autocommitting(f"{what} outside atomic", "write `with transaction.atomic():` around the call")
    if handle.needs_rollback:
        raise failed()
