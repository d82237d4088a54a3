"""A scene with schedules: how they are made, what the tables say of them, and the judgement of what fired."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tests.faults.fleet import Member
from tests.faults.plan import Entry
from tests.faults.recurring import timing
from tests.faults.scene import Scene
from tests.faults.tables import as_uuid
from tests.faults.timekeeping import Occasion, Stored, Timekeeping, due_of, judge_occurrences
from tests.faults.waiting import until as wait_until
from tests.faults.worker import build

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Line(NamedTuple):
    """A schedule as its row has it; instants are microseconds of the epoch."""

    name: str
    created: int
    next: int | None
    retired: int | None
    paused: int | None
    version: int
    definition: str
    fired: int
    missed: int
    skipped: int


class Timetable:
    """The schedules of one scene: ``coded`` are in the workers' code, ``made`` are put by a call while they run."""

    def __init__(self, scene: Scene, coded: Sequence[Entry]) -> None:
        self.scene = scene
        self.coded = tuple(coded)
        self.made: tuple[Entry, ...] = ()
        groups = {entry.group for entry in coded}
        scene.plan = replace(scene.plan, schedules=self.coded)
        self._hands = 2 * scene.plan.concurrency * len(groups)
        # On the machine that the database is on as well. What comes between the two readings makes it less, never more.
        self._clock_offset = max(time.time() - time.monotonic() for _ in range(10))

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.coded + self.made

    async def workers(self, count: int, **changes: Any) -> list[Member]:
        """Start so many workers, and wait until every schedule has its row."""
        started = await self.scene.workers(count, **changes)
        wanted = {entry.name for entry in self.coded}
        await wait_until("every schedule to be declared", lambda: wanted <= self.lines().keys())
        return started

    async def put(self, *entries: Entry) -> None:
        """Make schedules while the workers run."""
        self.made += entries
        async with build(self.scene.plan) as app:
            for entry in entries:
                await app.schedules.put(entry.name, entry.rhythm, entry.group, **timing(entry))

    def lines(self) -> dict[str, Line]:
        """Every schedule's row, by name."""
        rows = self._rows(
            "SELECT name, created_at, next_at, retired_at, paused_at, version, definition, fired, missed, skipped "
            "FROM {}schedule"
        )
        return {
            name: Line(name, _micros(at), _maybe(next), _maybe(retired), _maybe(paused), *rest)
            for name, at, next, retired, paused, *rest in rows
        }

    def now(self) -> int:
        """What time it is by the database's clock."""
        if self.scene.engine == "SQLite":
            return time.time_ns() // 1000
        return _micros(self._rows("SELECT clock_timestamp()")[0][0])

    def stored(self) -> list[Stored]:
        """Every occurrence that any table has."""
        found: list[Stored] = []
        for table, is_end in (
            ("run", "status = 'done'"),
            ("dead", "1 = 1"),
            ("delivery", "1 = 0"),
            ("parked", "1 = 0"),
        ):
            rows = self._rows(
                f"SELECT schedule, scheduled_for, message_id, {is_end} FROM {{}}{table} WHERE schedule IS NOT NULL"
            )
            found += [Stored(row[0], _micros(row[1]), as_uuid(row[2]), bool(row[3])) for row in rows]
        return found

    async def passed(self, until: int, of: Sequence[Entry] | None = None) -> None:
        """Wait until all schedules, or some, are past this instant, and what was published until then is handled."""
        names = {entry.name for entry in (self.entries if of is None else of)}

        def has_passed() -> bool:
            if any(
                line.next is not None and line.next <= until for line in self.lines().values() if line.name in names
            ):
                return False
            # Of those meant only: what a killed process of another app had in hand waits for that app.
            due = self._rows("SELECT schedule, scheduled_for FROM {}delivery WHERE schedule IS NOT NULL")
            return all(_micros(row[1]) > until for row in due if row[0] in names)

        await wait_until("every occurrence so far to be handled", has_passed, step=0.1)

    def judge(
        self,
        until: int,
        *,
        kills: int = 0,
        since: int | None = None,
        of: Sequence[Entry] | None = None,
        expected: set[Occasion] | None = None,
    ) -> Timekeeping:
        """Judge what was due until then, by all schedules or some: from their beginning, or from an instant on."""
        entries = self.entries if of is None else of
        begun = {name: line.created if since is None else since for name, line in self.lines().items()}
        names = {entry.name for entry in entries} if of is not None else begun.keys()
        return judge_occurrences(
            due_of(entries, begun, until) if expected is None else expected,
            [each for each in self.scene.executions() if each.schedule in names],
            [each for each in self.stored() if each.schedule in names],
            since=since or 0,
            until=until,
            bound=kills * self._hands,
            clock_offset=self._clock_offset,
        )

    def _rows(self, query: str) -> Sequence[Any]:
        return self.scene.tables.rows(query.format(self.scene.tables.prefix))


def _micros(value: datetime | int) -> int:
    return value if isinstance(value, int) else (value - _EPOCH) // timedelta(microseconds=1)


def _maybe(value: datetime | int | None) -> int | None:
    return None if value is None else _micros(value)
