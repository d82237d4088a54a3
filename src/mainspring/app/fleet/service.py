"""The worker of a fleet as a service: it prints what it serves when it is ready, and when it has stopped."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mainspring.app.fleet.databases import Chosen, is_chosen
from mainspring.app.process.banner import listed, written
from mainspring.app.process.service import announcing
from mainspring.model.text import described

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet

_logger = logging.getLogger("mainspring.fleet")


@asynccontextmanager
async def announced(
    fleet: Fleet,
    what: str,
    groups: Collection[str] | None = None,
    line: int | None = None,
    *,
    databases: Chosen = None,
    migrate: bool = False,
    brief: bool | None = None,
    concurrency: int | None = None,
    **options: Any,
) -> AsyncIterator[Any]:
    """Run a worker of the fleet with these options, as ``mainspring.app.process.service`` runs one of an app."""

    async def details() -> list[str]:
        code = fleet._code  # noqa: SLF001 - same package
        return written(
            code,
            groups,
            concurrency,
            place=("databases", listed(_served(fleet, databases)) or "none yet"),
            span="over all groups of a database",
            schedules=listed(code.registry.scheduled()),
        )

    async with fleet:
        if migrate:
            await _migrate(fleet, databases)
        worker = fleet.worker(databases=databases, groups=groups or None, concurrency=concurrency, **options)
        more = f", {_counted(fleet, databases)}"
        async with announcing(worker, what, line, details, brief=brief, more=more) as working:
            yield working


def _served(fleet: Fleet, databases: Chosen) -> list[str]:
    return [name for name in fleet if is_chosen(name, databases)]


def _counted(fleet: Fleet, databases: Chosen) -> str:
    known = f"{len(fleet):,} database{'' if len(fleet) == 1 else 's'}"
    return known if databases is None else f"{len(_served(fleet, databases)):,} of {known}"


async def _migrate(fleet: Fleet, databases: Chosen) -> None:
    """Migrate those that are there; one that fails waits, and the others are served."""
    names = _served(fleet, databases)
    report = await fleet.migrate(databases=names) if names else None
    for name, error in report.errors.items() if report is not None else ():
        _logger.warning("%s: failed to migrate, the others go on: %s", name, described(error))
