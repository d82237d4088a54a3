"""Joining the caller's own transaction: which handles ``tx=`` accepts, and for which database.

A handle is recognised by the module and name of its class, so nothing the user does not have is ever imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from mainspring.app.storages import Engine, join_asyncpg, join_sqlite3
from mainspring.model.errors import BadHandle
from mainspring.storage.script import AsyncConnection, Connection, Script, run, run_async
from mainspring.storage.sql import MailboxScripts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of handle."""

    spelled: str
    engine: Engine
    blocking: bool
    types: frozenset[tuple[str, str]]
    """(top-level module, class name), for the class or any of its bases."""
    join: Callable[[Any], Connection | AsyncConnection]


KINDS: tuple[Kind, ...] = (
    Kind(
        "asyncpg.Connection",
        "postgresql",
        blocking=False,
        types=frozenset({("asyncpg", "Connection"), ("asyncpg", "PoolConnectionProxy")}),
        join=join_asyncpg,
    ),
    Kind(
        "sqlite3.Connection", "sqlite", blocking=True, types=frozenset({("sqlite3", "Connection")}), join=join_sqlite3
    ),
)
"""Every kind there is. Another driver is another line here and one small adapter."""

_ENGINE_NAMES: dict[Engine, str] = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "memory": "memory"}


class Transactions:
    """Runs the dialect's scripts on the caller's connection. Never commits, never rolls back."""

    def __init__(self, engine: Engine, scripts: MailboxScripts | None) -> None:
        self._engine = engine
        self._scripts = scripts

    def scripts(self) -> MailboxScripts:
        """The scripts of this app's database; memory has none, since it has no transactions to join."""
        if self._scripts is None:
            raise BadHandle("memory:// has no transactions: leave tx out, or use sqlite:/// or postgresql://")
        return self._scripts

    async def run(self, handle: object, script: Script[T]) -> T:
        """Run the script in the caller's transaction; the handle must be an asyncio one."""
        kind = self._kind(handle)
        if kind.blocking:
            raise BadHandle(
                f"{kind.spelled} blocks: write `app.sync.publish(…, tx=connection)`, without await, where it is used"
            )
        return await run_async(cast("AsyncConnection", kind.join(handle)), script)

    def run_blocking(self, handle: object, script: Script[T]) -> T:
        """Run the script in the caller's transaction; the handle must be a blocking one."""
        kind = self._kind(handle)
        if not kind.blocking:
            raise BadHandle(f"{kind.spelled} is asyncio's: write `await app.publish(…, tx=connection)`")
        return run(cast("Connection", kind.join(handle)), script)

    def _kind(self, handle: object) -> Kind:
        classes = {(each.__module__.partition(".")[0], each.__name__) for each in type(handle).__mro__}
        kind = next((each for each in KINDS if each.types & classes), None)
        if kind is None:
            accepted = ", ".join(each.spelled for each in KINDS)
            module = type(handle).__module__
            raise BadHandle(
                f"tx={module}.{type(handle).__qualname__} is not a handle Mainspring can join: pass {accepted}"
            )
        if kind.engine != self._engine:
            raise BadHandle(
                f"tx is a {kind.spelled}, and this app is on {_ENGINE_NAMES[self._engine]}: a message joins a "
                "transaction of its own database only"
            )
        return kind
