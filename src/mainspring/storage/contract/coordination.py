"""Schedules, the inbox, leases and fan-out: what every storage must do with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from mainspring.model.inbox import Admission, AdmitStatus, InboxFilter, InboxKey, InboxReceipt, InboxView, MarkStatus
from mainspring.model.lease import Granted, LeaseView, Renewal, Renewed
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Decide, Note, Occurrence, Rewrite, Schedule, ScheduleTick, Standing, Timesheet
from mainspring.model.worker import Declarer

if TYPE_CHECKING:
    from mainspring.model.fanout import (
        Batch,
        Choose,
        CursorKey,
        CursorTally,
        CursorView,
        FanoutPolicy,
        FanoutPolicyView,
        SeekResult,
    )


class Timetable(Protocol):
    """Schedules: when each is due next, and what it publishes then.

    The caller passes a pure function for every decision, by a cron expression or an operator's edit. It runs within the
    transaction, while the row is locked; storages know nothing of cron. Any node may look at any time: no occurrence is
    published twice and none is skipped (invariant 5).
    """

    async def tick(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> ScheduleTick:
        """Advance up to ``limit`` due schedules of this app as ``decide`` returns, each with its messages, atomically.

        Rows that another node has locked are skipped. Paused, retired and frozen schedules are not due; those in
        ``leave`` are not examined. Then waiting deliveries are released: of every schedule of this app that has nothing
        unfinished (``Due.unfinished``), those of its oldest waiting message; and those of a deleted schedule, by any
        app. Then complete joins are closed, each atomically with the one message that follows it, by whichever node
        looks first, and despite any crash.
        """
        ...

    async def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> list[Schedule | None]:
        """Write the rows of these names as ``how`` returns, atomically, and return what is stored now.

        ``revision`` grows by one with every row written. All sleeping workers are woken. Where a schedule is paused,
        its messages that no worker has claimed yet are cancelled, parked or not, except manual ones; where it is
        removed, those too. A note is kept for each row written. Without ``waits``, locked rows are left as they are:
        None.
        """
        ...

    async def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Published:
        """Publish occurrences of one schedule outside of its rhythm, all or none, with a note.

        Those that should wait do so only if something of the schedule is unfinished.
        """
        ...

    async def read(self, names: Collection[str] | None = None, app: str | None = None) -> Timesheet:
        """Return the schedules of these names, or all, of this app or any, by name."""
        ...

    async def declare(
        self, app: str, version: int, names: Collection[str], by: Declarer, retire: Collection[str] = ()
    ) -> Standing:
        """Record the schedules that a process has in its code, and find those that no live process has any more.

        These are retired, if they are in ``retire``: what a worker that restarts has is back a moment later. Only
        schedules that code of this app has defined, in this version or an older one, are found (invariant 13). A
        process is live until it deregisters, except after a silence of ``SILENT_AFTER`` while ``by`` was not silent;
        one of an older version than a schedule does not keep it. Occurrences of a retired schedule that no worker has
        claimed yet are cancelled, except those asked for by hand; what another session has locked is left alone. One
        that this process has and that is retired is returned to it; if a newer version has defined it, only when no
        process of a newer version than this one is live. If nothing differs, and that was recorded lately, it only
        reads.
        """
        ...

    async def declarers(self, name: str) -> list[Declarer]:
        """Return the processes that have the schedule in their code and have said so lately."""
        ...

    async def freeze(self, app: str, by: str, reason: str) -> None:
        """Stop all schedules of this app (empty: of every app) until they are thawed."""
        ...

    async def thaw(self, app: str, by: str) -> bool:
        """End a freeze. Occurrences that came due in between are late. False: there was none."""
        ...


class Inbox(Protocol):
    """Records received messages, so that each is processed once however often it is sent."""

    async def admit(
        self, key: InboxKey, hash: bytes | None, status: AdmitStatus, retry_after: timedelta | None
    ) -> Admission:
        """Admit a message, unless it was admitted: true for exactly one of any number of concurrent callers.

        Its status is *done* at once where it ends with the enclosing transaction, else *processing*. A message is
        admitted again if it failed, or if it has been processing for at least ``retry_after``; ``attempts`` grows by
        one each time. A message with another hash than the first time is never admitted.
        """
        ...

    async def mark(
        self, key: InboxKey, attempt: int, status: MarkStatus, error: str | None, admitted_at: datetime | None = None
    ) -> bool:
        """Record the outcome of an admitted message, under the number of that attempt, and its time if known.

        False: it was admitted again since, or an operator has released it, so the caller may not mark it any more. The
        same call again returns True again.
        """
        ...

    async def receive(self, group: str, source: str, received: Mapping[str, Draft]) -> InboxReceipt:
        """Store messages from outside, by the sender's ids, each with its mark as *done*: all or none.

        Those that are not stored are repeats: they are marked already, and not as failed or released. Of concurrent
        callers with the same id one stores it. A repeat with another payload is noted, and reported the first time.
        """
        ...

    async def release(self, key: InboxKey, by: str) -> bool:
        """Admit a message again when it next comes, although it is processing or dead. Audited.

        False: there is no such message, or it is neither of the two.
        """
        ...

    async def browse(self, filter: InboxFilter) -> list[InboxView]:
        """List messages, the latest change first; reads only."""
        ...


class Leases(Protocol):
    """Named exclusive holds: one holder at a time, by the storage's clock (invariant 16).

    The epoch of a lease grows with every acquisition and never goes back, even if its row was removed in between: it is
    the fence, together with its holder. An expired lease is lost, even if no other holder has acquired it since.
    """

    async def acquire(self, name: str, holder: str, ttl: timedelta) -> Granted | None:
        """Acquire the lease for ``ttl``. None: it is held, or being acquired by another.

        ``holder`` differs for every acquisition, so a lease is not re-entrant; and a call that is sent again after a
        lost reply finds its own hold, which it renews under the same epoch.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        """Extend each hold by its own time from now, all in one trip."""
        ...

    async def release(self, name: str, epoch: int, holder: str) -> bool:
        """Release it. False: it is not held by this holder under this epoch any more."""
        ...

    async def confirm(self, name: str, epoch: int, holder: str) -> bool:
        """Whether it is held by this holder under this epoch now.

        As a script in a caller's transaction it also blocks other acquisitions until that transaction ends.
        """
        ...

    async def find(self, name: str) -> LeaseView | None:
        """Return one lease; None: there is no row of it."""
        ...

    async def browse(self, after: str | None, limit: int) -> list[LeaseView]:
        """List leases by name; ``after`` is the name of the last row of the page before."""
        ...

    async def revoke(self, name: str, by: str, reason: str) -> bool:
        """Release it on its holder's behalf, audited. False: it is not held."""
        ...


class Fanouts(Protocol):
    """Cursors, the progress of each shard; and policies, how shards are planned.

    A cursor never goes back by itself, neither the window that is planned nor the one that is completed.
    """

    async def plan(self, batch: Batch, choose: Choose) -> Published | None:
        """Publish the slices that ``choose`` makes of these shards, and record them as planned, atomically.

        It runs under the coordinator's lease, which no other acquires until the transaction ends. None: that hold is
        over, and nothing was done.
        """
        ...

    async def advance(self, key: CursorKey, window: datetime) -> bool:
        """Record the window as completed. False: the cursor is there or beyond, or it was never planned."""
        ...

    async def seek(
        self,
        topic: str,
        work: str,
        shards: Sequence[str],
        to: datetime | None,
        consumer: str | None,
        note: Note | None,
        about: str,
    ) -> SeekResult:
        """Move the cursors of these shards by hand, back or ahead: ``to`` is planned and completed; None is the start.

        One whose slice is unfinished for ``consumer`` (None: for any group) stays. The note is written if any moves.
        """
        ...

    async def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> FanoutPolicy:
        """Set the given fields of the policy, for one shard or for EVERYTHING. Returns the policy as it is now."""
        ...

    async def reset(self, topic: str, work: str, shard: str, note: Note) -> bool:
        """Remove its policy. False: there was none."""
        ...

    async def policies(self, topic: str, work: str, after: str | None, limit: int) -> Sequence[FanoutPolicyView]:
        """List the policies of a work by shard, its own first; ``after`` is the shard of the last one before."""
        ...

    async def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Sequence[CursorView]:
        """List the cursors of a work by shard, all or those that are behind."""
        ...

    async def tally(self, topic: str | None = None, work: str | None = None) -> Sequence[CursorTally]:
        """Count the cursors of every topic and work, or of some."""
        ...
