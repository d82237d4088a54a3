"""Maintenance of an app: its tables, its declarations, and what is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mainspring.app.admin.bulk import Progress
from mainspring.app.admin.search import check_texts
from mainspring.app.config import Options, read_retention
from mainspring.app.connection import Connection
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import Consumers
from mainspring.app.names import check_pattern
from mainspring.app.page import Page, Paging, Seq
from mainspring.model.retention import CHORES, COUNTED, KINDS, Pruned, Retention
from mainspring.model.views import AuditView, Declaration
from mainspring.model.worker import Declarer
from mainspring.storage.contract import Storage

if TYPE_CHECKING:
    from mainspring.runtime.schedules.declarations import Declared

_logger = logging.getLogger("mainspring.schedules")
_PRUNE_BATCH = 1000
_AUDIT_AT_ONCE = 1000
"""How many lines of the audit are read at a time where some are sought."""

AUDIT: Paging[AuditView, int] = Paging("app.audit()", lambda line: line.id, Seq)


class Operations:
    """Maintenance operations of one app; its methods are documented in ``Mainspring``."""

    def __init__(
        self,
        connection: Connection,
        consumers: Consumers,
        options: Options,
        scheduled: Callable[[], Mapping[str, Declared]],
        elsewhere: Callable[[], Collection[str]],
        own: Sequence[Registration] = (),
    ) -> None:
        self._own = own
        self._scheduled = scheduled
        self._elsewhere = elsewhere
        self._connection = connection
        self._consumers = consumers
        self._options = options

    async def migrate(self) -> list[str]:
        """See ``Mainspring.migrate``."""
        async with self._connection:
            opening = await self._connection.opening("app.migrate()")
            applied, opening.applied = opening.applied, []
            return applied + await opening.storage.schema.migrate()

    async def declare(self) -> list[Declaration]:
        """See ``Mainspring.declare``."""
        name, version = self._options.name, self._options.version
        declarations = [each.declaration(name, version) for each in self._consumers]
        declarations += self._consumers.queues.declarations
        async with self._connection:
            storage = await self._connection.storage("app.declare()")
            await storage.upkeep.declare([*declarations, *(each.declaration(name, version) for each in self._own)])
            schedules = self._scheduled()
            # What another database declares alone is no worker's that only restarts: it is retired at once.
            standing = await storage.timetable.declare(name, version, schedules, Declarer(name, ""), self._elsewhere())
            for each in standing.retired:
                _warn(each, "retired here, since it runs once for the fleet, in another database")
            if schedules:
                await self._reconcile(storage, schedules)
        return declarations

    async def _reconcile(self, storage: Storage, schedules: Mapping[str, Declared]) -> None:
        from mainspring.runtime.schedules.declarations import Scheduling, reconcile

        scheduling = Scheduling(self._options.name, schedules, self._options.version)
        await reconcile(storage.timetable, scheduling, _warn)

    async def prune(self, retention: Retention | None, topic: str | None, by: str, progress: Progress | None) -> Pruned:
        """See ``Mainspring.prune``."""
        if topic is not None:
            check_pattern(topic)
        kept = self._options.retention if retention is None else read_retention(retention)
        storage = await self._connection.storage("app.prune()")
        total = Pruned()
        try:
            found = True
            while found:  # one may free what another keeps: a dead letter its runs
                found = False
                for chore in CHORES if topic is None else KINDS:
                    batch = Pruned(last="")
                    while batch.total or batch.last is not None:
                        batch = await storage.upkeep.prune(kept, _PRUNE_BATCH, topic, chore, batch.last)
                        total += batch
                        found = found or batch.total > 0
                        if progress is not None and batch.total:
                            progress(total.total)
        finally:
            # Also after an error: every removal is audited.
            if total.total:
                await storage.controls.note("prune", topic or "all topics", by, _counted(total))
        return replace(total, last=None)

    async def audit(self, cursor: str | None, limit: int, sought: Mapping[str, str | None]) -> Page[AuditView]:
        """See ``Mainspring.audit``."""
        before = AUDIT.start(cursor, limit)
        check_texts(**sought)
        texts = {name: text.casefold() for name, text in sought.items() if text is not None}
        storage = await self._connection.storage("app.audit()")
        if not texts:
            return AUDIT.page(await storage.ledger.audit(before, limit + 1), limit)
        found: list[AuditView] = []
        while len(found) <= limit:
            lines = await storage.ledger.audit(before, _AUDIT_AT_ONCE)
            found += [line for line in lines if _tells_of(line, texts)]
            if len(lines) < _AUDIT_AT_ONCE:
                break
            before = lines[-1].id
        return AUDIT.page(found, limit)

    async def note(self, action: str, subject: str, by: str, detail: str) -> None:
        """See ``Mainspring.note``."""
        await (await self._connection.storage("app.note()")).controls.note(action, subject, by, detail)


def _tells_of(line: AuditView, texts: Mapping[str, str]) -> bool:
    whole = f"{line.by}\n{line.action}\n{line.subject}\n{line.detail}"
    return all(text in getattr(line, name, whole).casefold() for name, text in texts.items())


def _counted(removed: Pruned) -> str:
    counts = ((name, getattr(removed, name)) for name in COUNTED)
    return ", ".join(f"{name} {count}" for name, count in counts if count)


def _warn(name: str, why: str) -> None:
    _logger.warning("schedule %s: %s", name, why)
