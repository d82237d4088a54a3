"""What is said about a caller's transaction that cannot be joined, alike for every kind of handle."""

from __future__ import annotations

from typing import Final

from mainspring.model.errors import BadHandle

ENGINES: Final = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "memory": "memory"}
"""The databases, as people write them."""


def other_database(what: str, engine: str) -> BadHandle:
    """Say that the handle is of another kind of database than the app."""
    return BadHandle(
        f"tx is {what}, and this app is on {ENGINES[engine]}: a message joins a transaction of its own database only. "
        f"Pass a handle on {ENGINES[engine]}, or leave tx= out to store the message at once"
    )


def autocommitting(what: str, write: str) -> BadHandle:
    """Say that every statement would commit by itself."""
    return BadHandle(f"tx= is {what}, where every statement commits by itself: {write}")


def closed(what: str) -> BadHandle:
    """Say that the handle has been closed or given back."""
    return BadHandle(f"tx= is {what} that is closed, or back in its pool: publish before you let go of it")


def failed() -> BadHandle:
    """Say that nothing more can be done in this transaction."""
    return BadHandle(
        "tx= is in a transaction that has failed: an earlier statement raised, and nothing more can be stored in it. "
        "Roll back first, to a savepoint or altogether, then publish"
    )


def lone_savepoint() -> BadHandle:
    """Say that releasing a savepoint might commit: sqlite3 begins by itself before a write, not before a savepoint."""
    return BadHandle(
        "tx= is in a savepoint, and sqlite3 may have begun no transaction around it: releasing it would commit the "
        "message for good, whatever becomes of the rest. Publish before begin_nested(), or have every transaction "
        "begin with BEGIN, as SQLAlchemy's page on SQLite says under savepoints"
    )
