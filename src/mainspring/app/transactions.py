"""Joining the caller's own transaction: the dialect's scripts on the caller's handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar, cast
from uuid import UUID

from mainspring.app.blocking import enlisted, is_blocking
from mainspring.app.counted import Count, CountedPosting, nobody
from mainspring.app.handles import Kind, recognise
from mainspring.app.storages import Engine
from mainspring.model.errors import BadHandle
from mainspring.model.inbox import Admission, Entering, Fate, InboxKey
from mainspring.model.join import Join
from mainspring.model.message import Cancelled, Draft, Published, Receipt, Settled
from mainspring.model.schedule import Note, Occurrence, Rewrite, Schedule, Timesheet
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Settlement
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

    def publish_unique(self, draft: Draft, likeness: Likeness, now: Now) -> Script[Receipt]:
        """See ``Mailbox.publish_unique``."""
        ...

    def join(self, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Mailbox.join``."""
        ...

    def pending(self, limits: Mapping[str, int], now: Now) -> Script[Mapping[str, int]]:
        """See ``Ledger.pending``."""
        ...

    def cancel(self, which: UUID | Keyed, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Mailbox.cancel``."""
        ...

    def settle(self, settlements: Sequence[Settlement], owner: str, now: Now) -> Script[Settled]:
        """See ``Mailbox.settle``."""
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


class Admitting(Protocol):
    """What a caller's transaction may do with the inbox."""

    def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None, now: Now
    ) -> Script[Admission]:
        """See ``Inbox.admit``."""
        ...

    def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None, now: Now
    ) -> Script[bool]:
        """See ``Inbox.mark``."""
        ...


class Confirming(Protocol):
    """What a caller's transaction may do with leases."""

    def confirm(self, name: str, epoch: int, holder: str, now: Now) -> Script[bool]:
        """See ``Leases.confirm``."""
        ...


class Joins(Protocol):
    """What runs scripts on handles."""

    def scripts(self) -> Posting:
        """The scripts to run."""
        ...

    def timetable(self) -> Planning:
        """Those for schedules."""
        ...

    def inbox(self) -> Admitting:
        """Those for the inbox."""
        ...

    def leases(self) -> Confirming:
        """Those for leases."""
        ...

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """Run the script in the transaction of the handle, for this call."""
        ...


class Transactions:
    """Runs the dialect's scripts on the caller's connection. Never commits, never rolls back.

    ``committed`` is called after the caller's commit, once, where that can be seen: through SQLAlchemy and Django. It
    is called on the caller's thread, so it must not wait; what it raises is logged. ``published`` is told of what was
    stored.
    """

    def __init__(self, engine: Engine, scripts: Scripts | None, committed: Callable[[], None] = _nobody) -> None:
        self._engine = engine
        self._scripts = scripts
        self._committed = committed
        self.published: Count = nobody
        self._stand_in: Joins | None = None

    def replace(self, stand_in: Joins | None) -> Joins | None:
        """Let tests run the scripts instead; None ends it. Returns the one before."""
        before, self._stand_in = self._stand_in, stand_in
        return before

    def scripts(self) -> Posting:
        """The scripts of this app's database; memory has none, since it has no transactions to join."""
        if self._stand_in is not None:
            return self._stand_in.scripts()
        return CountedPosting(self.dialect.mailbox, self.published)

    def timetable(self) -> Planning:
        """The scripts for schedules."""
        if self._stand_in is not None:
            return self._stand_in.timetable()
        return self.dialect.timetable

    def inbox(self) -> Admitting:
        """The scripts for the inbox."""
        if self._stand_in is not None:
            return self._stand_in.inbox()
        return self.dialect.inbox

    def leases(self) -> Confirming:
        """The scripts for leases."""
        if self._stand_in is not None:
            return self._stand_in.leases()
        return self.dialect.leases

    def refuse_other(self, handle: object, call: str, twin: str) -> None:
        """Raise BadHandle, naming the twin, for a handle that blocks where this call does not, and the reverse."""
        if self._stand_in is None and (kind := self.recognised(handle)[0]).blocking is not is_blocking():
            how = "blocks" if kind.blocking else "is asyncio's"
            raise BadHandle(f"{kind.spelled} {how}: {call} joins it on a lease of {twin}")

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

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """Run the script in the caller's transaction.

        A call through ``app.sync`` takes a blocking handle, and never waits; any other takes one of asyncio. Raises
        BadHandle, naming the twin, for a handle of the other kind.
        """
        if self._stand_in is not None:
            return await self._stand_in.run(handle, script, call)
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
