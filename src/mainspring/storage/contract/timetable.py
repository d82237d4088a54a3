"""Schedules: what every storage must do with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Protocol

from mainspring.model.message import Published
from mainspring.model.schedule import Decide, Note, Occurrence, Rewrite, Schedule, ScheduleTick, Timesheet


class Timetable(Protocol):
    """Schedules: when each is due next, and what it publishes then.

    What has to be decided in between, what follows from a cron expression or from an operator's wish, is decided by a
    pure function that is handed in. It runs within the transaction, while the row is locked; storages know nothing of
    cron. Any node may look at any time: no occurrence is published twice and none is passed over (invariant 5).
    """

    async def look(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> ScheduleTick:
        """Let up to ``limit`` due schedules of this app go on as ``decide`` says, each with what it publishes, as one.

        Rows that another node is looking at are passed over. Paused, retired and frozen schedules are not due; those
        in ``leave`` are not looked at. Then deliveries that waited are released: of every schedule of this app that has
        nothing unfinished (``Due.unfinished``), those of its oldest waiting message; so is what is left of a schedule
        that is gone, whichever app looks. Then joins that are complete are over, each with the one message that
        follows it, as one: whoever looks, and whoever dies meanwhile.
        """
        ...

    async def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> list[Schedule | None]:
        """Write the rows of these names as ``how`` says, as one, and answer with what is stored now.

        ``revision`` grows by one with every row written. Whoever is asleep anywhere is woken. Where a schedule is
        paused, what it has published and no worker has taken yet is cancelled, parked or not, but for what somebody
        asked for by hand; where it is removed, that too. A note is kept for each row written. Without ``waits``,
        what others have locked is left as it is, and answered by None.
        """
        ...

    async def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Published:
        """Publish occurrences of one schedule outside of its rhythm, all or none, with a note of it.

        Those that are to wait do so only if something of the schedule is unfinished.
        """
        ...

    async def read(self, names: Collection[str] | None = None, app: str | None = None) -> Timesheet:
        """The schedules of these names, or all, of this app or any, by name."""
        ...

    async def declared(self, app: str, names: Collection[str], every: timedelta) -> None:
        """Say that a worker's code has these schedules; nothing is written where that was said within ``every``."""
        ...

    async def retire(self, app: str, silent: timedelta) -> list[str]:
        """Retire what was defined by this app's code and was not declared for so long. Returns their names."""
        ...

    async def freeze(self, app: str, by: str, reason: str) -> None:
        """Let all schedules of this app (empty: of every app) stand still until they are thawed."""
        ...

    async def thaw(self, app: str, by: str) -> bool:
        """End a freeze. What was due meanwhile is late. False: there was none."""
        ...
