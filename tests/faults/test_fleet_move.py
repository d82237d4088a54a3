"""A customer moved under load, its mover killed −9 at every step: every order has one effect, in one place."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from mainspring import Fleet
from mainspring.model.errors import BadHandle, DatabaseMoved, MainspringError
from tests.faults.moving import REROUTED, STOPS, TOPIC, create, fleet_of, numbers
from tests.faults.nursery import Born, nursery
from tests.faults.report import Report
from tests.faults.waiting import TooLateError, until
from tests.services.postgres import new_database

_AT_ONCE = 3
_ENOUGH = 40
"""Orders with an effect before the mover starts, and orders that are published after the move."""


@dataclass
class Load:
    """Publishers of numbered orders, with and without a transaction of their own, that know of no move."""

    fleet: Fleet
    urls: Mapping[str, str]
    published: set[int] = field(default_factory=set)
    enlisted: set[int] = field(default_factory=set)
    refused: int = 0
    stopped: bool = False
    _next: int = 0

    def number(self) -> int:
        self._next += 1
        return self._next

    async def plain(self) -> None:
        while not self.stopped:
            number, id = self.number(), uuid4()
            while not await self._published(number, id):
                await asyncio.sleep(0.1)
            self.published.add(number)
            await asyncio.sleep(0.01)

    async def _published(self, number: int, id: UUID) -> bool:
        try:
            # With an id of its own: after an error it is sent again, and stored once.
            await self.fleet.publish(TOPIC, number, database="acme", message_id=id)
        except DatabaseMoved:
            self.refused += 1
            return False
        return True

    async def transactions(self) -> None:
        """Orders in a table, and their messages in the same transaction, in whichever place accepts them."""
        place = "acme"
        while not self.stopped:
            number = self.number()
            while True:
                try:
                    await self._ordered(self.urls[place], number)
                except DatabaseMoved as error:
                    self.refused += 1
                    place = "eu-2" if error.is_over else "acme"
                except BadHandle:  # the old place is no database of the fleet any more
                    place = "eu-2"
                except (sqlite3.OperationalError, psycopg.errors.DeadlockDetected):
                    pass  # locked by another writer; or ended by a server that looks for deadlocks after 50 ms
                else:
                    break
                await asyncio.sleep(0.1)
            self.published.add(number)
            self.enlisted.add(number)
            await asyncio.sleep(0.01)

    async def _ordered(self, url: str, number: int) -> None:
        if url.startswith("sqlite"):
            await asyncio.to_thread(self._ordered_in_file, url.removeprefix("sqlite:///"), number)
            return
        async with await psycopg.AsyncConnection.connect(url) as server:
            await server.execute(f"INSERT INTO placed VALUES ({number:d})")
            await self.fleet.publish(TOPIC, number, tx=server)

    def _ordered_in_file(self, path: str, number: int) -> None:
        app = self.fleet["acme"]
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("INSERT INTO placed VALUES (?)", (number,))
            app.sync.publish(TOPIC, number, tx=file)
            file.execute("COMMIT")


@dataclass
class Found:
    """What came of a run."""

    published: int
    handled: int
    lost: int
    doubled: int
    apart: int
    """Orders in a table without their message, or the reverse."""
    refused: int

    @property
    def flawless(self) -> bool:
        return not (self.lost or self.doubled or self.apart) and self.handled == self.published

    def line(self) -> str:
        return (
            f"published={self.published} handled={self.handled} lost={self.lost} doubled={self.doubled} "
            f"apart={self.apart} refused={self.refused}"
        )


@contextmanager
def _places(engine: str, folder: Path, server: str) -> Iterator[dict[str, str]]:
    names = ("home", "acme", "eu-2")
    folder.mkdir()
    with ExitStack() as stack:
        if engine == "sqlite":
            urls = {name: f"sqlite:///{folder}/{name}.db" for name in names}
        else:
            made = uuid4().hex[:8]
            urls = {name: stack.enter_context(new_database(server, f"move_{made}_{name[:2]}")) for name in names}
        for name in ("acme", "eu-2"):
            create(urls[name])
        yield urls


async def _ended(process: Born, log: Path) -> int:
    await until(f"the end of a mover:\n{log.read_text()[-3000:]}", lambda: process.poll() is not None)
    assert process.returncode is not None
    return process.returncode


async def _moved(folder: Path, engine: str, server: str, stop: str, *, undone: bool) -> Found:
    with _places(engine, folder, server) as urls, ExitStack() as stack:

        def start(role: str, stop: str = "") -> tuple[Born, Path]:
            log = folder / f"{role}-{stop or 'on'}.log".replace(" ", "-")
            process = nursery().start(
                "tests.faults.moving", json.dumps([role, urls, stop]), stack.enter_context(log.open("wb"))
            )
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            return process, log

        fleet = fleet_of(urls)
        assert (await fleet.migrate()).ok
        async with fleet:
            # There is something to copy, however fast the worker is.
            await fleet["acme"].declare()
            await fleet["acme"].publish(TOPIC, 0, delay="1d")
        async with fleet, asyncio.TaskGroup() as group:
            load = Load(fleet, urls)
            start("worker")
            tasks = [group.create_task(each) for each in (load.plain(), load.plain(), load.transactions())]
            place = urls["acme"]
            await until("the first effects", lambda: len(numbers(place, "effect")) >= _ENOUGH)
            assert await _ended(*start("mover", stop)) == -9
            if undone:
                await fleet.undo_move("acme")
            else:
                code = await _ended(*start("mover"))
                assert code == 0, (folder / "mover-on.log").read_text()
                place = urls["eu-2"]
            since = len(load.published)
            await until("orders after the move", lambda: len(load.published) >= since + _ENOUGH)
            load.stopped = True
            await asyncio.wait(tasks)
            try:
                await until("all effects", lambda: load.published <= set(numbers(place, "effect")))
            except TooLateError as error:
                raise TooLateError(f"{stop}, undone={undone}: {await _state(fleet, load, place, folder)}") from error
        effects = Counter(numbers(place, "effect"))
        with suppress(MainspringError):
            await fleet.refresh()
        return Found(
            published=len(load.published),
            handled=effects.total(),
            lost=len(load.published - effects.keys()),
            doubled=effects.total() - len(effects),
            apart=len(load.enlisted ^ set(numbers(place, "placed"))),
            refused=load.refused,
        )


async def _state(fleet: Fleet, load: Load, place: str, folder: Path) -> str:
    """What is known of a run that does not end."""
    missing = sorted(load.published - set(numbers(place, "effect")))
    app, shown = fleet["acme"], list[object]()
    shown += [f"missing {missing[:20]}", load.enlisted & set(missing), await fleet.moves()]
    shown += [await app.groups.list(), await app.stats.tally(), (await app.messages.list(limit=20))]
    return "\n".join([*map(str, shown), *(each.read_text()[-3000:] for each in folder.glob("*.log"))])


@pytest.mark.timeout(900)
async def test_a_customer_moved_under_load_loses_and_doubles_nothing_wherever_its_mover_is_killed(
    engine: str, tmp_path: Path, postgres_url: str, report: Report, large: bool
) -> None:
    cases = [(stop, undone) for stop in STOPS for undone in (False, True) if not (undone and stop in REROUTED)]
    if not large:  # each step, and half of them undone
        cases = [(stop, undone) for place, (stop, undone) in enumerate(cases) if undone == (place % 4 == 1)]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def run(number: int, stop: str, undone: bool) -> Found:
        async with turns:
            return await _moved(tmp_path / str(number), engine, postgres_url, stop, undone=undone)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(number, *case)) for number, case in enumerate(cases)]

    for (stop, undone), task in zip(cases, tasks, strict=True):
        found = task.result()
        report(f"{engine}, mover killed −9 at “{stop}”, {'undone' if undone else 'resumed'}", found.line())
        assert found.flawless, (stop, undone, found)
