"""Enlisting in the caller's transaction: scripts of operations on the caller's handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from mainspring.app.batcher import Count, uncounted
from mainspring.app.blocking import enlisted, is_blocking
from mainspring.app.storages import Engine, Enlists, OperationSet
from mainspring.app.transaction.handles import Kind, recognise
from mainspring.model.errors import BadHandle, SchemaMissing
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Occurrence
from mainspring.storage.enlisted.errors import OwnFile, other_database
from mainspring.storage.operation import Clocked
from mainspring.storage.script import AsyncConnection, Script, SyncConnection, run, run_async

T = TypeVar("T")

_logger = logging.getLogger("mainspring.app")


def _do_nothing() -> None:
    """Do nothing after a commit."""


class Enlisting(Protocol):
    """Runner of scripts on handles."""

    @property
    def operations(self) -> OperationSet:
        """The operations whose scripts may be run."""
        ...

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """Record the stored drafts."""
        ...

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """Run the script in the transaction of the handle, for this call."""
        ...


class Transactions:
    """Runner of operation scripts on the caller's connection. Never commits, never rolls back.

    ``committed`` is called once after the caller's commit, where that can be seen: through SQLAlchemy and Django. It
    is called on the caller's thread, so it must not wait; what it raises is logged. ``published`` counts what was
    stored. A handle on another SQLite file than ``file`` is rejected; ``shown`` is the app's database, for errors.
    """

    def __init__(
        self,
        engine: Engine,
        enlisted: Enlists | None,
        clock: Clocked | None = None,
        committed: Callable[[], None] = _do_nothing,
        file: str | None = None,
        shown: str = "",
    ) -> None:
        self._engine = engine
        self._file = None if file is None else OwnFile(file)
        self._shown = shown
        self._enlisted = enlisted
        self._operations = None if enlisted is None else enlisted(None, clock)
        self._committed = committed
        self.published: Count = uncounted
        self._stand_in: Enlisting | None = None

    def replace(self, stand_in: Enlisting | None) -> Enlisting | None:
        """Let tests run the scripts instead; None ends it. Return the previous."""
        before, self._stand_in = self._stand_in, stand_in
        return before

    @property
    def operations(self) -> OperationSet:
        """The operations of this app's database: ``operations.mailbox.publish.script(drafts)`` is what ``run`` takes.

        Memory has none, since it has no transactions.
        """
        if self._stand_in is not None:
            return self._stand_in.operations
        if self._operations is None:
            raise _no_transactions()
        return self._operations

    @property
    def enlisted(self) -> Enlists:
        """The factory of such operations over a gateway."""
        if self._enlisted is None:
            raise _no_transactions()
        return self._enlisted

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """Count the drafts that were stored; called by the script that stores them. A rollback is not noticed."""
        if self._stand_in is not None:
            self._stand_in.stored(drafts, published)
        else:
            self.published(each for each in drafts if each.id in published.stored)

    def stored_occurrences(self, occurrences: Sequence[Occurrence], published: Published) -> None:
        """Report stored occurrences to a test. Messages of schedules are not counted as published."""
        if self._stand_in is not None:
            self._stand_in.stored([each.draft for each in occurrences], published)

    def refuse_other(self, handle: object, call: str, twin: str) -> None:
        """Raise BadHandle, naming the twin, for a handle that blocks if this call does not, or the reverse."""
        if self._stand_in is None and (kind := self.recognised(handle)[0]).blocking is not is_blocking():
            how = "blocks" if kind.blocking else "is asyncio's"
            raise BadHandle(f"{kind.spelled} {how}: {call} takes it on a lease of {twin}")

    @property
    def engine(self) -> Engine:
        """The database engine."""
        return self._engine

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """Run the script in the caller's transaction.

        A call through ``app.sync`` takes a blocking handle, and never waits; any other takes one of asyncio. Raises
        BadHandle, naming the twin, for a handle of the other kind.
        """
        if self._stand_in is not None:
            return await self._stand_in.run(handle, script, call)
        if self._engine == "memory":
            raise _no_transactions()
        kind, handle = self.recognised(handle)
        if kind.blocking is not is_blocking():
            raise BadHandle(
                f"{kind.spelled} blocks: write `app.sync.{call}(…, tx={kind.word})`, without await, where it is used"
                if kind.blocking
                else f"{kind.spelled} is asyncio's: write `await app.{call}(…, tx={kind.word})`"
            )
        connection = kind.enlist(handle, self._engine, self.after_commit, self._file)
        try:
            if kind.blocking:
                return run(cast("SyncConnection", connection), script)
            return await run_async(cast("AsyncConnection", connection), script)
        except SchemaMissing as error:
            if not self._shown:
                raise
            # The app's own database may well have its tables: the caller sees which two are meant.
            raise SchemaMissing(error.found, error.needed, f"{error}. The app is on {self._shown}") from error

    def run_blocking(self, handle: object, script: Script[T]) -> T:
        """Run the script in a caller's blocking transaction, in this thread."""
        return enlisted(lambda: self.run(handle, script))

    def enlist(self, kind: Kind, handle: object) -> SyncConnection | AsyncConnection:
        """Adapt the handle to run our statements. Raises BadHandle unless it can be used now."""
        return kind.enlist(handle, self._engine, self.after_commit)

    def recognised(self, handle: object) -> tuple[Kind, object]:
        """Return the kind of handle, and the handle itself if an alias names it; raise BadHandle."""
        kind, handle = recognise(handle)
        if kind.engine not in (None, self._engine):
            raise other_database(f"a {kind.spelled}", self._engine)
        return kind, handle

    def after_commit(self) -> None:
        """Wake sleepers after the commit of a transaction that published."""
        try:
            self._committed()
        except Exception:
            # The caller's commit has succeeded, and must not appear to fail.
            _logger.exception("post-commit wake-up failed; workers will find the messages at their next poll")


def _no_transactions() -> BadHandle:
    return BadHandle("memory:// has no transactions: leave tx out, or use sqlite:/// or postgresql://")
