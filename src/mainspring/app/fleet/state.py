"""The state of a fleet in this process, without any reading: what is known, open, in trouble, and waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainspring.model.health import Check, Status

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet

_MOST_NAMED = 5
"""How many databases a summary names."""


class FleetState:
    """What a fleet knows of itself: cheap, whatever its databases do."""

    def __init__(self, fleet: Fleet) -> None:
        self.is_open: bool = fleet._inside > 0  # noqa: SLF001 - a part of the fleet
        self._members = fleet._members  # noqa: SLF001
        self._home = fleet._home_name  # noqa: SLF001
        self._databases = fleet._databases  # noqa: SLF001
        self._attendances = tuple(fleet._attendances)  # noqa: SLF001
        self._survey = fleet._survey  # noqa: SLF001

    @property
    def names(self) -> tuple[str, ...]:
        """The databases."""
        return tuple(self._members)

    @property
    def home(self) -> str | None:
        """The database that keeps what concerns all, or else the first; None: there is none."""
        return self._home if self._home in self._members else next(iter(self._members), None)

    @property
    def open(self) -> int:
        """How many are open in this process."""
        return sum(each.connection.is_open for each in tuple(self._members.values()))

    @property
    def attended(self) -> int:
        """How many the workers of this process attend to."""
        return len({each.member.name for attendances in self._attendances for each in attendances})

    @property
    def waiting(self) -> int:
        """How many wait for a place for a worker."""
        return sum(each.waiting for each in self._attendances)

    @property
    def troubles(self) -> dict[str, str]:
        """The databases that the workers of this process cannot use, or that could not be read, and why."""
        found = {name: each.error for name, each in self._survey.read().items() if each and each.error is not None}
        return found | self.unattended

    @property
    def unattended(self) -> dict[str, str]:
        """The databases that the workers of this process cannot use, and why."""
        tried = (each for attendances in self._attendances for each in attendances)
        return {each.member.name: each.trouble for each in tried if each.trouble is not None}

    @property
    def discovery_age(self) -> float:
        """Seconds since the databases were last named."""
        return self._databases.age

    @property
    def discovery_trouble(self) -> str | None:
        """Why the databases could not be asked for again."""
        return self._databases.trouble

    @property
    def rejected(self) -> Mapping[str, str]:
        """Entries that are no database, and why."""
        return self._databases.rejected

    def checks(self) -> list[Check]:
        """Return whether this process works for the fleet: unhealthy if it can use none of its databases."""
        if not self.is_open:
            return [Check("fleet", "unhealthy", "the fleet is not open: it is starting, or has been closed")]
        return [self.discovery(), *self._of_databases()]

    def discovery(self) -> Check:
        """Return whether the databases are named."""
        trouble, known = self._databases.trouble, len(self._members)
        if trouble is None:
            return Check("discovery", "healthy", f"{known} databases")
        why = f"failed to ask for the databases, which stay the {known} known: {trouble}"
        return Check("discovery", "degraded" if known else "unhealthy", why)

    def _of_databases(self) -> list[Check]:
        if not (attended := self.attended):
            return []
        return [summary("databases", attended, self.unattended)]


def summary(name: str, total: int, troubles: Mapping[str, str]) -> Check:
    """Return one check for many databases: degraded if some are in trouble, unhealthy if all are."""
    if not troubles:
        return Check(name, "healthy", f"all {total} can be used")
    status: Status = "unhealthy" if len(troubles) >= total else "degraded"
    named = "; ".join(f"{each}: {troubles[each]}" for each in sorted(troubles)[:_MOST_NAMED])
    more = "" if len(troubles) <= _MOST_NAMED else f"; and {len(troubles) - _MOST_NAMED} more"
    return Check(name, status, f"{len(troubles)} of {total} cannot be used: {named}{more}", {"count": len(troubles)})
