"""Workers killed −9 and frozen within transactions: every message has one effect, and no money is made or lost."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from mainspring import Mainspring
from tests.faults.banking import ACCOUNTS, OPENING, TRANSFERS, Transfer, table
from tests.faults.fleet import Member
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.tables import as_uuid
from tests.faults.waiting import TooLateError, until

ENGINES = ("postgres",)  # SQLite has a test of its own, with fewer processes
_TABLES = {
    "account": "id integer PRIMARY KEY, balance integer NOT NULL",
    "effect": "message_id text, epoch integer",
    "receipt": "n integer",
}


@dataclass
class Books:
    """What the bank's own tables say, once everything is over."""

    messages: int
    effects: int
    lost: int
    doubled: int
    stale: int
    receipts: int
    balance: int
    revived: int = 0

    @property
    def flawless(self) -> bool:
        faults = self.lost or self.doubled or self.stale
        return not faults and self.effects == self.receipts == self.messages and self.balance == ACCOUNTS * OPENING

    def line(self) -> str:
        return (
            f"messages={self.messages} effects={self.effects} lost={self.lost} doubled={self.doubled} "
            f"stale={self.stale} receipts={self.receipts} revived={self.revived} "
            f"balance={self.balance}={ACCOUNTS * OPENING}"
        )


class Bank:
    """The bank's tables, and a client of the bank."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        scene.plan = replace(scene.plan, bank=True)
        self._ids: set[UUID] = set()

    def run(self, statement: str, *args: Any) -> list[Any]:
        plan = self.scene.plan
        if self.scene.engine == "SQLite":
            with closing(sqlite3.connect(plan.url.removeprefix("sqlite:///"), timeout=20)) as client, client:
                return client.execute(statement, args).fetchall()
        with psycopg.connect(plan.url) as connection:
            cursor = connection.execute(statement.replace("?", "%s").encode(), args)
            return cursor.fetchall() if cursor.description else []

    def rows(self, name: str, columns: str) -> list[Any]:
        return self.run(f"SELECT {columns} FROM {table(self.scene.plan, name)}")

    async def publish(self, app: Mainspring, count: int, seconds: float) -> None:
        chance = self.scene.chance
        for _ in range(count):
            source, target = chance.sample(range(ACCOUNTS), 2)
            job = Transfer(len(self._ids), source, target, chance.randrange(1, 50), seconds)
            id = uuid4()
            await app.publish(TRANSFERS, job, message_id=id)
            self._ids.add(id)

    def judge(self) -> Books:
        effects = [(as_uuid(row[0]), row[1]) for row in self.rows("effect", "message_id, epoch")]
        settled = {run.id: run.output for run in self.scene.tables.runs() if run.status == "done"}
        counted = Counter(id for id, _ in effects)
        return Books(
            messages=len(self._ids),
            effects=len(effects),
            lost=len(self._ids - counted.keys()),
            doubled=sum(count - 1 for count in counted.values()),
            # Written under one claim, and settled under another.
            stale=sum(not (settled.get(id) or "").startswith(f"{epoch}:") for id, epoch in effects),
            receipts=len(self.rows("receipt", "n")),
            balance=sum(row[0] for row in self.rows("account", "balance")),
        )


@contextmanager
def bank_of(scene: Scene) -> Iterator[Bank]:
    bank = Bank(scene)
    for name, columns in _TABLES.items():
        bank.run(f"CREATE TABLE {table(scene.plan, name)} ({columns})")
    for number in range(ACCOUNTS):
        bank.run(f"INSERT INTO {table(scene.plan, 'account')} VALUES (?, ?)", number, OPENING)
    try:
        yield bank
    finally:
        for name in _TABLES:
            bank.run(f"DROP TABLE {table(scene.plan, name)}")


async def _lapse(scene: Scene, frozen: Member) -> None:
    """Wait until the claims of one that stands still have lapsed, or others have taken them.

    It may hold the accounts that all the others wait for: then nobody takes over before it goes on.
    """
    held = {each.id: each.epoch for each in scene.executions() if each.pid == frozen.pid and each.outcome is None}

    def lapsed() -> bool:
        found = scene.tables.rows(f"SELECT message_id, epoch FROM {scene.tables.prefix}delivery WHERE due_at > now()")
        return not any(held.get(as_uuid(id)) == epoch for id, epoch in found)

    def begun_again() -> bool:
        return any(each.epoch > held.get(each.id, each.epoch) for each in scene.executions())

    await until("the claims of who stands still to lapse", lapsed)
    with suppress(TooLateError):
        await until("somebody to take over", begun_again, 1)


async def _kill_within(bank: Bank, workers: int, kills: int, freezes: int) -> Books:
    """Kill and freeze whoever is within a transfer, and settle up when all is over."""
    scene = bank.scene
    await scene.workers(workers)
    async with scene.publishing() as app:
        for n in range(kills + freezes):
            await bank.publish(app, 4, 0.2)
            victim = await scene.running()
            if n < freezes:
                victim.freeze()
                try:
                    await _lapse(scene, victim)
                finally:
                    victim.thaw()
            else:
                scene.kill(victim)
                scene.fleet.replace(victim)
    await scene.fleet.ready()
    await scene.drained(120)
    return await _revived(bank)


async def _revived(bank: Bank) -> Books:
    """Settle up when what was in hand at three kills has been given another life, as by an operator."""
    scene = bank.scene
    buried = scene.tables.buried()
    # Who is killed again and again with one message in hand is taken to be killed by it: nothing else is buried.
    assert {each.kind for each in buried} <= {"poison"}, buried
    if buried:
        async with scene.publishing() as app:
            await app.dead.revive(everything=True, by="the test")
        await scene.drained(120)
    return replace(bank.judge(), revived=len(buried))


@pytest.mark.timeout(1800)
async def test_every_transfer_has_one_effect_while_workers_are_killed(
    scene: Scene, report: Report, large: bool
) -> None:
    kills, freezes = (200, 10) if large else (8, 1)
    with bank_of(scene) as bank:
        found = await _kill_within(bank, 3, kills, freezes)

        hits = sum(each.outcome is None and each.pid in scene.deaths for each in scene.executions())
        report(
            "transactional, kill −9, PostgreSQL",
            f"seed={scene.seed} kills={kills} freezes={freezes} killed-inside={hits}",
            found.line(),
        )
        assert found.flawless, found
        assert hits


@pytest.mark.timeout(600)
async def test_every_transfer_has_one_effect_on_one_sqlite_file(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    kills = 60 if large else 4
    with (
        scene_on(tmp_path, seed, url=f"sqlite:///{tmp_path}/bank.db", schema="mainspring") as scene,
        bank_of(scene) as bank,
    ):
        found = await _kill_within(bank, 2, kills, 0)

        report("transactional, kill −9, SQLite", f"seed={seed} kills={kills}", found.line())
        assert found.flawless, found


async def test_writes_that_are_committed_apart_are_reported_as_doubled(scene: Scene, report: Report) -> None:
    with bank_of(scene) as bank:
        (victim,) = await scene.workers(1, bug="piecemeal")
        async with scene.publishing() as app:
            await bank.publish(app, 3, 0.0)
            await until("every first effect", lambda: len(bank.rows("effect", "epoch")) == 3)
            scene.kill(victim)
            scene.fleet.replace(victim)
        await scene.drained(120)

        found = bank.judge()
        report("teeth: effects committed apart", f"seed={scene.seed} kills=1", found.line(), "(must be doubled>0)")
        assert found.doubled == 3
        assert not found.flawless
