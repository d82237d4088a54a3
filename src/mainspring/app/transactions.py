"""Joining the caller's own transaction: the dialect's scripts on the caller's handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar, cast
from uuid import UUID

from mainspring.app.handles import Kind, recognise
from mainspring.app.storages import Engine
from mainspring.model.errors import BadHandle
from mainspring.model.join import Join
from mainspring.model.message import Cancelled, Draft, Published
from mainspring.model.schedule import Note, Occurrence, Rewrite, Schedule, Timesheet
from mainspring.storage.contract import Keyed
from mainspring.storage.refusals import other_database
from mainspring.storage.script import AsyncConnection, Connection, Script, run, run_async
from mainspring.storage.sql import Now, Scripts

T = TypeVar("T")

_logger = logging.getLogger("mainspring.app")


def _nobody() -> None:
    """Nobody is to hear of a commit."""


class Posting(Protocol):
    """What a caller's transaction may be given to do."""

    def publish(self, drafts: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Mailbox.publish``."""
        ...

    def join(self, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Mailbox.join``."""
        ...

    def cancel(self, which: UUID | Keyed, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Mailbox.cancel``."""
        ...


class Planning(Protocol):
    """What a caller's transaction may do to schedules."""

    def rewrite(self, names: Sequence[str], how: Rewrite, note: Note | None, now: Now) -> Script[list[Schedule | None]]:
        """See ``Timetable.rewrite``."""
        ...

    def enter(self, occurrences: Sequence[Occurrence], note: Note, now: Now) -> Script[Published]:
        """See ``Timetable.enter``."""
        ...

    def read(self, names: Collection[str] | None, app: str | None, now: Now) -> Script[Timesheet]:
        """See ``Timetable.read``."""
        ...


class Joins(Protocol):
    """What runs scripts on handles."""

    def scripts(self) -> Posting:
        """The scripts to run."""
        ...

    def timetable(self) -> Planning:
        """Those for schedules."""
        ...

    async def run(self, handle: object, script: Script[T]) -> T:
        """Run the script in the transaction of an asyncio handle."""
        ...

    def run_blocking(self, handle: object, script: Script[T]) -> T:
        """Run the script in the transaction of a blocking handle."""
        ...


class Transactions:
    """Runs the dialect's scripts on the caller's connection. Never commits, never rolls back.

    ``committed`` is called after the caller's commit, once, where that can be seen: through SQLAlchemy and Django. It
    is called on the caller's thread, so it must not wait; what it raises is logged.
    """

    def __init__(self, engine: Engine, scripts: Scripts | None, committed: Callable[[], None] = _nobody) -> None:
        self._engine = engine
        self._scripts = scripts
        self._committed = committed
        self._stand_in: Joins | None = None

    def replace(self, stand_in: Joins | None) -> Joins | None:
        """Let tests run the scripts instead; None ends it. Returns the one before."""
        before, self._stand_in = self._stand_in, stand_in
        return before

    def scripts(self) -> Posting:
        """The scripts of this app's database; memory has none, since it has no transactions to join."""
        if self._stand_in is not None:
            return self._stand_in.scripts()
        return self.dialect.mailbox

    def timetable(self) -> Planning:
        """The scripts for schedules."""
        if self._stand_in is not None:
            return self._stand_in.timetable()
        return self.dialect.timetable

    @property
    def dialect(self) -> Scripts:
        """Every operation of this app's database, for whoever has a connection to run them on."""
        if self._scripts is None:
            raise BadHandle("memory:// has no transactions: leave tx out, or use sqlite:/// or postgresql://")
        return self._scripts

    @property
    def engine(self) -> Engine:
        """Which database it is."""
        return self._engine

    async def run(self, handle: object, script: Script[T]) -> T:
        """Run the script in the caller's transaction; the handle must be an asyncio one."""
        if self._stand_in is not None:
            return await self._stand_in.run(handle, script)
        kind, handle = self.recognised(handle)
        if kind.blocking:
            raise BadHandle(
                f"{kind.spelled} blocks: write `app.sync.publish(…, tx={kind.word})`, without await, where it is used"
            )
        return await run_async(cast("AsyncConnection", self.join(kind, handle)), script)

    def run_blocking(self, handle: object, script: Script[T]) -> T:
        """Run the script in the caller's transaction; the handle must be a blocking one."""
        if self._stand_in is not None:
            return self._stand_in.run_blocking(handle, script)
        kind, handle = self.recognised(handle)
        if not kind.blocking:
            raise BadHandle(f"{kind.spelled} is asyncio's: write `await app.publish(…, tx={kind.word})`")
        return run(cast("Connection", self.join(kind, handle)), script)

    def join(self, kind: Kind, handle: object) -> Connection | AsyncConnection:
        """The handle as a connection that runs our statements. Raises BadHandle unless it can be joined now."""
        return kind.join(handle, self._engine, self._tell)

    def recognised(self, handle: object) -> tuple[Kind, object]:
        """What kind of handle it is, and the handle itself where an alias names it; raises BadHandle."""
        kind, handle = recognise(handle)
        if kind.engine not in (None, self._engine):
            raise other_database(f"a {kind.spelled}", self._engine)
        return kind, handle

    def _tell(self) -> None:
        try:
            self._committed()
        except Exception:
            # The caller's commit has succeeded, and must not look as if it had not.
            _logger.exception("nobody was woken after a commit; the workers find the messages at their next look")
