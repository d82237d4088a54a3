"""The operator's desk: reading and steering what is stored, with names as the user wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mainspring.app.blocking import Face, blocking
from mainspring.app.bulk import BATCH, Action, Errand, Progress
from mainspring.app.door import Door
from mainspring.app.envelope import MISSING, PriorityName, read_identity
from mainspring.app.issuing import IssueOptions, issue
from mainspring.app.options import closest
from mainspring.app.paging import Deliveries, Standing, check_pages, check_texts, checked, listed, page
from mainspring.app.picking import Picks, hasten, withdraw
from mainspring.app.post import REASON, Post
from mainspring.model.browsing import Chain, Filter, Page
from mainspring.model.errors import BadOption
from mainspring.model.headers import public
from mainspring.model.message import Cancelled, Priority, Receipt
from mainspring.model.views import GroupView, MessageView, RunView
from mainspring.timing.duration import Duration

# Named here, since inside the classes ``list`` is their own verb.
Runs = list[RunView]
GroupViews = list[GroupView]


class Messages:
    """``app.messages``: what is stored, under way and kept."""

    def __init__(self, door: Door, post: Post) -> None:
        self._door = door
        self._post = post

    async def list(
        self,
        state: Standing = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Deliveries, newest first; ``before`` is the ``seq`` of the last row of the page before."""
        wanted = checked(Filter(state, group, topic, key, None, before, limit))
        storage = await self._door.storage("app.messages.list()")
        return await listed(storage.ledger, wanted)

    async def search(
        self,
        state: Standing = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        text: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        held_by: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Page:
        """Deliveries that match, newest first, in a small part of a second however many there are.

        So a page may be short, or empty: the next one begins at its ``before``, until that is None. ``text`` is looked
        for in payloads, ``error`` in errors, ``since`` and ``until`` mean when it was published, ``held_by`` is a
        worker's name, ``fingerprint`` one of ``app.dead.causes()``.
        """
        narrowed = (group, topic, key, error, before, limit, text, since, until, held_by, fingerprint)
        wanted = checked(Filter(state, *narrowed))
        storage = await self._door.storage("app.messages.search()")
        return await page(storage.ledger, wanted)

    async def apply(
        self,
        action: Action,
        filter: Filter,
        *,
        by: str = "app",
        reason: str = REASON,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Do this to everything that a search would find, in batches, and return to how many it was done.

        What is dead is revived or discarded; what is alive or parked is cancelled, with the ``reason``; what is
        scheduled is due now by ``run_now``. What comes while it goes on is left alone, also if it is revived and dies
        again. It ends early when ``stop`` says so, or after the batch in hand when the caller is cancelled. All of it
        together is one line of the audit, which tells after every batch how many it was done to.
        """
        checked(filter)
        storage = await self._door.storage("app.messages.apply()")
        errand = Errand(storage, action, filter, reason, self._door.rouse)
        return await errand.run(by, progress, stop or _never)

    async def show(self, message_id: UUID | str) -> MessageView | None:
        """One message with its deliveries and kept runs; None when there is no such message."""
        storage = await self._door.storage("app.messages.show()")
        found = await storage.ledger.find(read_identity(message_id))
        return None if found is None else replace(found, headers=public(found.headers))

    async def chain(self, message_id: UUID | str, *, limit: int = 50) -> Chain:
        """What a message came of, and what came of it; empty where it is unknown."""
        check_pages(None, limit)
        storage = await self._door.storage("app.messages.chain()")
        return await storage.ledger.chain(read_identity(message_id), limit)

    async def runs(self, group: str | None = None, *, before: int | None = None, limit: int = 50) -> Runs:
        """The kept runs, newest first; ``before`` is the id of the last row of the page before."""
        check_texts(group=group)
        check_pages(before, limit)
        storage = await self._door.storage("app.messages.runs()")
        return await storage.ledger.runs(group, before, limit)

    async def failures(self, *, limit: int = 50) -> Runs:
        """The latest kept runs that failed, for good or not, the last to end first."""
        check_pages(None, limit)
        storage = await self._door.storage("app.messages.failures()")
        return await storage.ledger.failures(limit)

    async def cancel(self, message_id: UUID | str, *, reason: str = REASON) -> Cancelled:
        """Cancel every delivery of one message."""
        return await self._post.cancel(read_identity(message_id), None, reason, None)

    async def withdraw(self, picks: Picks, *, by: str = "app", reason: str = REASON) -> Cancelled:
        """Cancel these deliveries, each named by its message's id and its group. Audited with ``by``."""
        storage = await self._door.storage("app.messages.withdraw()")
        return await withdraw(storage, picks, by, reason, self._door.rouse)

    async def hasten(self, picks: Picks, *, by: str = "app") -> int:
        """Let those of these deliveries that are scheduled be due now, and return how many. Audited with ``by``."""
        storage = await self._door.storage("app.messages.hasten()")
        return await hasten(storage, picks, by, self._door.rouse)

    async def issue(
        self,
        topic: str,
        payload: object = MISSING,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        priority: Priority | PriorityName | int | None = None,
        delay: Duration | None = None,
        group: str | None = None,
        copy_of: UUID | str | None = None,
        by: str = "app",
    ) -> Receipt:
        """Publish by hand, to all who subscribe or to one group. Audited with ``by``.

        With ``copy_of`` it has the payload, key and headers of that message, but for what is given here.
        """
        storage = await self._door.storage("app.messages.issue()")
        options: IssueOptions = {"key": key, "headers": headers, "priority": priority, "delay": delay}
        return await issue(storage, self._post, topic, payload, options, group, copy_of, by)


class Groups:
    """``app.groups``: the declared groups. Every change is audited with ``by``."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def list(self) -> GroupViews:
        """Every declared group of this namespace, whichever app declared it."""
        roster = await (await self._door.storage("app.groups.list()")).ledger.roster()
        return list(roster.groups)

    async def pause(self, group: str, *, by: str = "app", reason: str = "") -> None:
        """Stop handing out its deliveries, until someone resumes it: restarts and deploys do not."""
        storage = await self._door.storage("app.groups.pause()")
        if not await storage.controls.pause(group, by, reason):
            raise await self._unknown(group)

    async def resume(self, group: str, *, by: str = "app") -> None:
        """Hand out its deliveries again."""
        storage = await self._door.storage("app.groups.resume()")
        if not await storage.controls.resume(group, by):
            raise await self._unknown(group)

    async def retire(self, group: str, *, by: str = "app", progress: Progress | None = None) -> int:
        """Remove the group with its undone deliveries, and return how many those were; its dead letters stay."""
        storage = await self._door.storage("app.groups.retire()")
        total = 0
        while dropped := await storage.controls.retire(group, by, BATCH):
            total += dropped
            if progress is not None:
                progress(total)
        if dropped is None and not total:
            raise await self._unknown(group)
        return total

    async def _unknown(self, group: str) -> BadOption:
        names = [each.name for each in await self.list()]
        return BadOption(f"there is no group {group!r}.{closest(group, names)} There are: {', '.join(names) or 'none'}")


def _never() -> bool:
    return False


class SyncMessages(Face[Messages]):
    """``app.sync.messages``: as ``app.messages``, without await."""

    list: Final = blocking(Messages.list)
    search: Final = blocking(Messages.search)
    apply: Final = blocking(Messages.apply)
    show: Final = blocking(Messages.show)
    chain: Final = blocking(Messages.chain)
    runs: Final = blocking(Messages.runs)
    failures: Final = blocking(Messages.failures)
    cancel: Final = blocking(Messages.cancel)
    withdraw: Final = blocking(Messages.withdraw)
    hasten: Final = blocking(Messages.hasten)
    issue: Final = blocking(Messages.issue)


class SyncGroups(Face[Groups]):
    """``app.sync.groups``: as ``app.groups``, without await."""

    list: Final = blocking(Groups.list)
    pause: Final = blocking(Groups.pause)
    resume: Final = blocking(Groups.resume)
    retire: Final = blocking(Groups.retire)
