"""Work over many databases of a fleet at once, and what came of it for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mainspring.app.fleet.member import Member
from mainspring.app.mainspring import Mainspring
from mainspring.model.errors import MainspringError
from mainspring.model.health import Check, Health, Status, health_of
from mainspring.model.text import described

T = TypeVar("T")
AT_ONCE = 8
"""How many databases are worked on at a time."""


@dataclass(frozen=True, slots=True)
class FleetReport(Generic[T]):
    """What came of an operation on each database: its result, or the error."""

    results: Mapping[str, T] = field(default_factory=dict)
    errors: Mapping[str, Exception] = field(default_factory=dict)
    """Those that failed: call the operation again with ``databases=report.errors`` for these alone."""

    @property
    def ok(self) -> bool:
        """Whether none has failed."""
        return not self.errors

    def __str__(self) -> str:
        """Return a summary with a line for each that failed."""
        failed = [f"  {name}: {described(error)}" for name, error in sorted(self.errors.items())]
        return "\n".join([f"{len(self.results)} done, {len(self.errors)} failed", *failed])


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The health of a fleet: degraded when some of its databases are not well, unhealthy when all are."""

    status: Status
    databases: Mapping[str, Health]
    """The health of each."""
    checks: tuple[Check, ...] = ()
    """The checks of the fleet itself, and the application's own."""
    seconds: float | None = None
    """How long all checks took."""


async def over(members: Sequence[Member], work: Callable[[Mainspring], Awaitable[T]]) -> FleetReport[T]:
    """Do the work on each, some at a time, and never stop at a failure."""
    turns = asyncio.Semaphore(AT_ONCE)
    results: dict[str, T] = {}
    errors: dict[str, Exception] = {}

    async def one(member: Member) -> None:
        async with turns:
            try:
                results[member.name] = await work(member.app)
            except (MainspringError, OSError, TimeoutError) as error:
                errors[member.name] = error

    await asyncio.gather(*(one(each) for each in members))
    order = [each.name for each in members]
    return FleetReport(
        {name: results[name] for name in order if name in results},
        {name: errors[name] for name in order if name in errors},
    )


_NEEDLESS = ("workers", "groups")
"""Checks that are about idle workers: a database of a fleet without work has none, and what is overdue is a check."""


def of_member(health: Health) -> Health:
    """Return the health of an app as that of one database of a fleet."""
    return health_of([each for each in health.checks if each.name not in _NEEDLESS], health.seconds)


def fleet_health(
    databases: Mapping[str, Health],
    checks: Sequence[Check],
    trouble: str | None,
    rejected: Mapping[str, str],
    begun: float,
) -> FleetHealth:
    """Return the health of the fleet, from that of each database and of what names them."""
    own = list(checks)
    if trouble is not None:
        own.append(
            Check("discovery", "degraded", f"failed to ask for the databases, which stay the known ones: {trouble}")
        )
    own += [Check(f"database {name}", "degraded", why) for name, why in sorted(rejected.items())]
    unwell = [each.status for each in databases.values() if each.status != "healthy"]
    status: Status = "healthy"
    if (databases and all(each.status == "unhealthy" for each in databases.values())) or any(
        each.status == "unhealthy" for each in checks
    ):
        status = "unhealthy"
    elif unwell or any(each.status != "healthy" for each in own):
        status = "degraded"
    return FleetHealth(status, databases, tuple(own), time.monotonic() - begun)
