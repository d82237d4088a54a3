"""``app.groups``: consumer groups, to list, pause, resume and retire."""

from __future__ import annotations

from typing import Final

from mainspring.app.admin.bulk import BATCH, Progress
from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.options import unknown
from mainspring.model.errors import BadOption
from mainspring.model.views import GroupView

GroupViews = list[GroupView]  # defined here: inside the class ``list`` is a method


class Groups:
    """``app.groups``: the declared groups. Every change is audited with ``by``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        return unknown("there is no group", group, [each.name for each in await self.list()])


class SyncGroups(Face[Groups]):
    """``app.sync.groups``: as ``app.groups``, without await."""

    list: Final = blocking(Groups.list)
    pause: Final = blocking(Groups.pause)
    resume: Final = blocking(Groups.resume)
    retire: Final = blocking(Groups.retire)
