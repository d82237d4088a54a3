"""``app.groups``: consumer groups, to list, pause, resume, release and retire."""

from __future__ import annotations

from typing import Final

from mainspring.app.admin.bulk import BATCH, Progress
from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.consume.consumers import Consumers
from mainspring.app.options import unknown, whole
from mainspring.model.errors import BadOption
from mainspring.model.message import Lapse, ReleasedClaims
from mainspring.model.views import GroupView

GroupViews = list[GroupView]  # defined here: inside the class ``list`` is a method


class Groups:
    """``app.groups``: the declared groups. Every change is audited with ``by``."""

    def __init__(self, connection: Connection, consumers: Consumers) -> None:
        self._connection = connection
        self._consumers = consumers

    async def list(self) -> GroupViews:
        """Return every declared group of this namespace, whichever app declared it."""
        roster = await (await self._connection.storage("app.groups.list()")).ledger.roster()
        return list(roster.groups)

    async def pause(self, group: str, *, by: str = "app", reason: str = "") -> None:
        """Stop handing out its deliveries until ``resume``: restarts and deploys keep it paused."""
        storage = await self._connection.storage("app.groups.pause()")
        if not await storage.controls.pause(group, by, reason):
            raise await self._unknown(group)

    async def resume(self, group: str, *, by: str = "app") -> None:
        """Hand out its deliveries again."""
        storage = await self._connection.storage("app.groups.resume()")
        if not await storage.controls.resume(group, by):
            raise await self._unknown(group)

    async def release(
        self, group: str, *, limit: int | None = None, by: str = "app", progress: Progress | None = None
    ) -> ReleasedClaims:
        """Release its lapsed claims, at most ``limit`` [all]: their deliveries are due at once, for any holder.

        Otherwise they are taken over one by one, as suspects: a message among them may have killed its holder. Release
        them when you know that none did, because a machine was lost. A delivery is released once: when it lapses again
        it is left to be taken over, and so are suspects (invariant 15). No live claim is changed.
        """
        most = None if limit is None else whole(limit, "limit", least=1, most=2**31)
        storage = await self._connection.storage("app.groups.release()")
        released = left = busy = 0
        after: Lapse | None = None
        while most is None or released < most:
            size = BATCH if most is None else min(BATCH, most - released)
            answer = await storage.controls.release(group, by, size, after)
            if answer is None:
                raise await self._unknown(group)
            batch, after = answer
            released, left, busy = released + batch.released, left + batch.left, busy + batch.busy
            if progress is not None:
                progress(released)
            if after is None:
                break
        return ReleasedClaims(released, left, busy)

    async def retire(self, group: str, *, by: str = "app", progress: Progress | None = None) -> int:
        """Remove the group with its undone deliveries, and return how many those were; its dead letters stay."""
        storage = await self._connection.storage("app.groups.retire()")
        total = 0
        while dropped := await storage.controls.retire(group, by, BATCH):
            total += dropped
            if progress is not None:
                progress(total)
        if dropped is None and not total:
            raise await self._unknown(group)
        return total

    async def _unknown(self, group: str) -> BadOption:
        declared = [each.name for each in await self.list()]
        is_in_code = any(each.group == group for each in self._consumers) or group in self._consumers.queues
        if is_in_code and group not in declared:
            return BadOption(
                f"group {group!r} is in the code and not declared yet: run `mainspring declare MODULE:APP`"
            )
        return unknown("there is no group", group, declared)


class SyncGroups(Face[Groups]):
    """``app.sync.groups``: as ``app.groups``, without await."""

    list: Final = blocking(Groups.list)
    pause: Final = blocking(Groups.pause)
    resume: Final = blocking(Groups.resume)
    release: Final = blocking(Groups.release)
    retire: Final = blocking(Groups.retire)
