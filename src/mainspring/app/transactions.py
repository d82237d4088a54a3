"""Joining the caller's own transaction: the scripts of operations on the caller's handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from mainspring.app.blocking import enlisted, is_blocking
from mainspring.app.counted import Count, uncounted
from mainspring.app.handles import Kind, recognise
from mainspring.app.storages import Engine, Joined, Rooms
from mainspring.model.errors import BadHandle
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Occurrence
from mainspring.storage.operation import Clocked
from mainspring.storage.refusals import other_database
from mainspring.storage.script import AsyncConnection, Connection, Script, run, run_async

T = TypeVar("T")

_logger = logging.getLogger("mainspring.app")


def _unheard() -> None:
    """A commit that nothing has to hear of."""


class Joins(Protocol):
    """What runs scripts on handles."""

    @property
    def rooms(self) -> Rooms:
        """The operations whose scripts may be run."""
        ...

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """Hear what became of drafts."""
        ...

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """Run the script in the transaction of the handle, for this call."""
        ...


class Transactions:
    """Runs the scripts of operations on the caller's connection. Never commits, never rolls back.

    ``committed`` is called after the caller's commit, once, where that can be seen: through SQLAlchemy and Django. It
    is called on the caller's thread, so it must not wait; what it raises is logged. ``published`` is told of what was
    stored.
    """

    def __init__(
        self,
        engine: Engine,
        joined: Joined | None,
        clock: Clocked | None = None,
        committed: Callable[[], None] = _unheard,
    ) -> None:
        self._engine = engine
        self._joined = joined
        self._rooms = None if joined is None else joined(None, clock)
        self._committed = committed
        self.published: Count = uncounted
        self._stand_in: Joins | None = None

    def replace(self, stand_in: Joins | None) -> Joins | None:
        """Let tests run the scripts instead; None ends it. Returns the one before."""
        before, self._stand_in = self._stand_in, stand_in
        return before

    @property
    def rooms(self) -> Rooms:
        """The operations of this app's database: ``rooms.mailbox.publish.script(drafts)`` is what ``run`` takes.

        Memory has none, since it has no transactions to join.
        """
        if self._stand_in is not None:
            return self._stand_in.rooms
        if self._rooms is None:
            raise _no_transactions()
        return self._rooms

    @property
    def joined(self) -> Joined:
        """What makes such operations over another gateway."""
        if self._joined is None:
            raise _no_transactions()
        return self._joined

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """Count the drafts that were stored; called by the script that stores them. A later rollback is not seen."""
        if self._stand_in is not None:
            self._stand_in.stored(drafts, published)
        else:
            self.published(each for each in drafts if each.id in published.stored)

    def entered(self, occurrences: Sequence[Occurrence], published: Published) -> None:
        """Let a test note the occurrences that were stored. Messages of schedules are not counted as published."""
        if self._stand_in is not None:
            self._stand_in.stored([each.draft for each in occurrences], published)

    def refuse_other(self, handle: object, call: str, twin: str) -> None:
        """Raise BadHandle, naming the twin, for a handle that blocks where this call does not, and the reverse."""
        if self._stand_in is None and (kind := self.recognised(handle)[0]).blocking is not is_blocking():
            how = "blocks" if kind.blocking else "is asyncio's"
            raise BadHandle(f"{kind.spelled} {how}: {call} joins it on a lease of {twin}")

    @property
    def engine(self) -> Engine:
        """Which database it is."""
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
        connection = self.join(kind, handle)
        if kind.blocking:
            return run(cast("Connection", connection), script)
        return await run_async(cast("AsyncConnection", connection), script)

    def run_blocking(self, handle: object, script: Script[T]) -> T:
        """Run the script in a caller's blocking transaction, in this thread."""
        return enlisted(lambda: self.run(handle, script))

    def join(self, kind: Kind, handle: object) -> Connection | AsyncConnection:
        """The handle as a connection that runs our statements. Raises BadHandle unless it can be joined now."""
        return kind.join(handle, self._engine, self.told)

    def recognised(self, handle: object) -> tuple[Kind, object]:
        """What kind of handle it is, and the handle itself where an alias names it; raises BadHandle."""
        kind, handle = recognise(handle)
        if kind.engine not in (None, self._engine):
            raise other_database(f"a {kind.spelled}", self._engine)
        return kind, handle

    def told(self) -> None:
        """A transaction that published is committed: let sleepers hear of it."""
        try:
            self._committed()
        except Exception:
            # The caller's commit has succeeded, and must not look as if it had not.
            _logger.exception("nobody was woken after a commit; the workers find the messages at their next look")


def _no_transactions() -> BadHandle:
    return BadHandle("memory:// has no transactions: leave tx out, or use sqlite:/// or postgresql://")
