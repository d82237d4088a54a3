"""What keeps an app in order: its tables, its declarations, its health, its numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from mainspring.app.bulk import Progress
from mainspring.app.config import Options
from mainspring.app.consumers import Consumers
from mainspring.app.door import Door
from mainspring.app.health import Health, HealthLimits, examine, unopened
from mainspring.app.names import check_pattern
from mainspring.app.post import Post
from mainspring.app.retaining import read_retention
from mainspring.app.storages import Address
from mainspring.model.errors import StorageError
from mainspring.model.views import AuditView, Declaration, Pruned, Retention, Roster, Tally
from mainspring.storage.contract import Storage

if TYPE_CHECKING:
    from mainspring.runtime.schedules.reconciling import Declared
    from mainspring.runtime.worker import Worker

_logger = logging.getLogger("mainspring.schedules")
_PRUNE_BATCH = 1000
_PRUNED = tuple(field.name for field in fields(Pruned))


class Operations:
    """Operates one app through one door; its methods are documented where ``Mainspring`` shows them."""

    def __init__(
        self,
        door: Door,
        post: Post,
        consumers: Consumers,
        options: Options,
        address: Address,
        workers: list[Worker],
        scheduled: Callable[[], Mapping[str, Declared]],
    ) -> None:
        self._scheduled = scheduled
        self._door = door
        self._post = post
        self._names = post.names
        self._consumers = consumers
        self._options = options
        self._address = address
        self._workers: Sequence[Worker] = workers

    async def migrate(self) -> list[str]:
        """See ``Mainspring.migrate``."""
        await self._door.enter()
        try:
            opening = await self._door.opening("app.migrate()")
            applied, opening.applied = opening.applied, []
            return applied + await opening.storage.schema.migrate()
        finally:
            await self._door.leave()

    async def declare(self) -> list[Declaration]:
        """See ``Mainspring.declare``."""
        declarations = [each.declaration(self._post, self._options.name) for each in self._consumers]
        declarations += self._consumers.reserved.declarations
        await self._door.enter()
        try:
            storage = await self._door.storage("app.declare()")
            await storage.upkeep.declare(declarations)
            if schedules := self._scheduled():
                await self._reconcile(storage, schedules)
        finally:
            await self._door.leave()
        return declarations

    async def _reconcile(self, storage: Storage, schedules: Mapping[str, Declared]) -> None:
        from mainspring.runtime.schedules.timekeeper import Scheduling, Timekeeper

        scheduling = Scheduling(self._names.stored(self._options.name), schedules, self._options.version)
        await Timekeeper(storage.timetable, scheduling, _complain).reconcile()

    async def health(self, limits: HealthLimits | None) -> Health:
        """See ``Mainspring.health``."""
        if self._address.missing and self._door.stand_in is None:
            # Opening would make the file, and an empty new database is always well.
            return unopened(StorageError(f"there is no file {self._address.target}"))
        try:
            await self._door.enter()
        except StorageError as error:
            return unopened(error)
        try:
            storage = await self._door.storage("app.health()")
            return await examine(storage, self._names, self._workers, limits or HealthLimits())
        finally:
            await self._door.leave()

    async def prune(self, retention: Retention | None, topic: str | None, by: str, progress: Progress | None) -> Pruned:
        """See ``Mainspring.prune``."""
        stored = None if topic is None else self._names.stored(check_pattern(topic))
        kept = self._names.retention(self._options.retention if retention is None else read_retention(retention))
        storage = await self._door.storage("app.prune()")
        total = Pruned()
        try:
            while (batch := await storage.upkeep.prune(kept, _PRUNE_BATCH, stored)).total:
                total = replace(total, **{name: getattr(total, name) + getattr(batch, name) for name in _PRUNED})
                if progress is not None:
                    progress(total.total)
        finally:
            # However it ends: what is gone was removed by somebody.
            if total.total:
                await storage.controls.noted("purge", stored or "all topics", by, _counted(total))
        return total

    async def tally(self, cap: int) -> Tally:
        """See ``Mainspring.tally``."""
        tally = await (await self._door.storage("app.tally()")).ledger.tally(cap, self._names.prefix)
        groups = (each for each in tally.groups if self._names.owns(each.group))
        return replace(tally, groups=tuple(replace(each, group=self._names.shown(each.group)) for each in groups))

    async def roster(self) -> Roster:
        """See ``Mainspring.roster``."""
        roster = await (await self._door.storage("app.roster()")).ledger.roster()
        groups = tuple(self._names.group(each) for each in roster.groups if self._names.owns(each.name))
        workers = tuple(self._names.worker(each) for each in roster.workers if self._names.owns(each.app))
        return Roster(roster.now, groups, workers)

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """See ``Mainspring.audit``."""
        return await (await self._door.storage("app.audit()")).ledger.audit(before, limit)


def _counted(removed: Pruned) -> str:
    counts = ((name, getattr(removed, name)) for name in _PRUNED)
    return ", ".join(f"{name} {count}" for name, count in counts if count)


def _complain(name: str, why: str) -> None:
    _logger.warning("schedule %s: %s", name, why)
