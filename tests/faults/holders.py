"""Processes that contend for one lease, what is done to them, and the judgement of what they wrote."""

import contextlib
import sqlite3
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg

from mainspring import Mainspring
from tests.faults.fleet import Member
from tests.faults.holder import NAME
from tests.faults.plan import Bug
from tests.faults.scene import Scene
from tests.faults.waiting import until

_FROZEN_INSIDE = 3.0
"""Claim times after which nobody can have taken over: it was frozen in a transaction that has confirmed."""


class Effect(NamedTuple):
    """A write that was accepted: under which epoch, and from when to when its work went on."""

    epoch: int
    pid: int
    began: float
    ended: float


class Note(NamedTuple):
    what: str
    epoch: int
    pid: int


@dataclass(frozen=True, slots=True)
class Found:
    """What became of it all; the last three are zero when all is well."""

    holds: int
    writes: int
    refused: int
    """Stale writes that the database refused, or that their process knew to be stale."""
    told: int
    overlapping: int
    """Accepted writes whose work went on while that of another holder did."""
    backward: int
    """Accepted writes under a smaller epoch than the one before."""
    twice: int
    """Epochs that were given to two holders."""

    @property
    def flawless(self) -> bool:
        return not (self.overlapping or self.backward or self.twice)

    def line(self) -> str:
        return (
            f"holds={self.holds} writes={self.writes} stale-refused={self.refused} told={self.told} "
            f"overlapping={self.overlapping} epochs-backward={self.backward} epochs-twice={self.twice}"
        )


class Contest:
    """Some processes and one lease."""

    def __init__(self, scene: Scene, bug: Bug | None = None) -> None:
        self.scene = scene
        self.freezes = self.kills = self.revocations = 0
        self._plan = replace(scene.plan, claim_time=1.0, bug=bug)

    async def begin(self, blocking: int, asynchronous: int = 0) -> None:
        """Make the tables and start so many processes."""
        async with self._app() as app:
            await app.migrate()
        self._make_table()
        for number in range(blocking + asynchronous):
            self._start("blocking" if number < blocking else "async")

    async def freeze_at_work(self, kind: str = "blocking") -> None:
        """Freeze one in the middle of its work until another has written, and let it try to write then."""
        member = self._any(kind)
        epoch = await self._halted(member)
        member.freeze()
        self.freezes += 1
        self._sign(member).unlink()
        await self._taken_over(epoch)
        noted = self._noted(member)
        written = self._written(member)
        member.thaw()
        await until(
            "the frozen one to write or to be told",
            lambda: self._noted(member) > noted or self._written(member) > written,
        )

    async def freeze_anywhere(self) -> None:
        """Freeze whoever has it, wherever it stands, until another has written."""
        epoch, member = await self._holder()
        member.freeze()
        self.freezes += 1
        # In a transaction that has confirmed the lease it keeps everybody else from it.
        with contextlib.suppress(AssertionError):
            await self._taken_over(epoch, _FROZEN_INSIDE * self._plan.claim_time)
        member.thaw()

    async def kill(self) -> None:
        """Kill −9 whoever has it; another takes over when its time is over."""
        epoch, member = await self._holder()
        member.kill()
        self.kills += 1
        self.scene.fleet.members.remove(member)
        self._start(member.plan.group)
        await self._taken_over(epoch)

    async def revoke(self) -> None:
        """Release it behind the back of one that is at work, and let it try to write when another has."""
        member = self._any("blocking")
        epoch = await self._halted(member)
        async with self._app() as app:
            await app.leases.release(NAME, by="the test")
        self.revocations += 1
        await self._taken_over(epoch)
        self._sign(member).unlink()

    def judge(self) -> Found:
        rows = self._effects()
        notes = Counter(note.what for note in self._notes())
        held = Counter(note.epoch for note in self._notes() if note.what == "held")
        return Found(
            holds=notes["held"],
            writes=len(rows),
            refused=notes["refused"] + notes["known"],
            told=notes["told"],
            overlapping=overlapping(rows),
            backward=sum(after.epoch < before.epoch for before, after in pairwise(rows)),
            twice=sum(count > 1 for count in held.values()),
        )

    # --- the processes -------------------------------------------------------------------------------------

    def _app(self) -> Mainspring:
        return Mainspring(self._plan.url, name="referee", schema=self._plan.schema, auto_migrate=True)

    def _start(self, kind: str) -> None:
        fleet = self.scene.fleet
        member = Member(
            replace(self._plan, group=kind),
            Path(self._plan.folder) / f"holder-{len(fleet.ever)}.log",
            "tests.faults.holder",
        )
        fleet.members.append(member)
        fleet.ever.append(member)

    def _any(self, kind: str) -> Member:
        return self.scene.chance.choice([each for each in self.scene.fleet.members if each.plan.group == kind])

    async def _halted(self, member: Member) -> int:
        """Wait until this one has the lease and stands still at its work; answers the epoch."""
        before = self._count("halted", member)
        self._sign(member).touch()
        await until(f"{member.pid} to be at work", lambda: self._count("halted", member) > before)
        return [note.epoch for note in self._notes() if note.what == "halted" and note.pid == member.pid][-1]

    async def _holder(self) -> tuple[int, Member]:
        found: list[tuple[int, Member]] = []

        def there() -> bool:
            query = f"SELECT epoch, holder FROM {self.scene.tables.prefix}lease WHERE holder IS NOT NULL"
            by_pid = {member.pid: member for member in self.scene.fleet.members}
            pids = [(epoch, int(holder.split(":")[1])) for epoch, holder in self.scene.tables.rows(query)]
            found[:] = [(epoch, by_pid[pid]) for epoch, pid in pids if pid in by_pid]
            return bool(found)

        await until("somebody to hold it", there, step=self.scene.chance.uniform(0.001, 0.05))
        return found[0]

    async def _taken_over(self, epoch: int, *seconds: float) -> None:
        def there() -> bool:
            return any(effect.epoch > epoch for effect in self._effects())

        await until(f"a write after epoch {epoch}", there, *seconds)

    def _sign(self, member: Member) -> Path:
        return Path(self._plan.folder) / f"halt-{member.pid}"

    # --- what they did -------------------------------------------------------------------------------------

    def _notes(self) -> list[Note]:
        diary = Path(self._plan.folder) / "diary"
        lines = diary.read_text().splitlines() if diary.exists() else []
        return [Note(what, int(epoch), int(pid)) for what, epoch, pid in map(str.split, lines)]

    def _count(self, what: str, member: Member) -> int:
        return sum(note.what == what and note.pid == member.pid for note in self._notes())

    def _noted(self, member: Member) -> int:
        return sum(note.pid == member.pid for note in self._notes())

    def _written(self, member: Member) -> int:
        return sum(effect.pid == member.pid for effect in self._effects())

    def _effects(self) -> list[Effect]:
        """In the order in which they were accepted: whoever writes has the lease's row locked, or should have."""
        query = f"SELECT epoch, pid, began, ended FROM {self.scene.tables.prefix}effect ORDER BY id"
        return [Effect(*row) for row in self.scene.tables.rows(query)]

    def _make_table(self) -> None:
        if self.scene.engine == "SQLite":
            columns = "(id integer PRIMARY KEY, epoch integer, pid integer, began real, ended real)"
            with contextlib.closing(sqlite3.connect(self._plan.url.removeprefix("sqlite:///"))) as lite:
                lite.execute(f"CREATE TABLE {self._plan.schema}_effect {columns}")
            return
        columns = "(id bigserial PRIMARY KEY, epoch bigint, pid integer, began float8, ended float8)"
        with psycopg.connect(self._plan.url) as connection:
            connection.execute(f"CREATE TABLE {self._plan.schema}.effect {columns}")


def overlapping(effects: list[Effect]) -> int:
    """How many began before the work of another epoch had ended."""
    found = 0
    latest: dict[int, float] = {}
    for effect in sorted(effects, key=lambda each: each.began):
        found += any(ended > effect.began for epoch, ended in latest.items() if epoch != effect.epoch)
        latest[effect.epoch] = max(effect.ended, latest.get(effect.epoch, 0.0))
    return found
