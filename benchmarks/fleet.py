"""A fleet: one worker that drains many databases, that has nothing to do in many, and beside one that is full."""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from benchmarks.bell import counted
from benchmarks.drain import CONCURRENCY, PAYLOAD
from mainspring import Fleet, Mainspring
from mainspring.app.fleet.worker import Attendance

WANTED = 0.8
"""The share of one database's rate that many should reach together."""
MOST_OPEN, MOST_KILOBYTES, MOST_CPU = 32, 100, 0.5
"""What idle databases may cost: connections at once, memory for each, and the share of a core for all."""
TOPIC = "bench.noop"
_PREFIX = "bench_fleet"
_MEGABYTES = 12
"""What an empty, migrated database of PostgreSQL takes on the disk, and the log of making it."""


class Idle(NamedTuple):
    """What idle databases cost in a time."""

    databases: int
    looks: float
    """A second."""
    queries: float | None
    """Round trips a second, on PostgreSQL."""
    connections: int
    """Open at once, at most."""
    megabytes: float
    cpu: float
    """Of a core, by this process."""
    server: float | None
    """Of a core, by PostgreSQL."""


# --- databases ---------------------------------------------------------------------------------------------


class Server:
    """Databases of one PostgreSQL, which go when the block ends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._made: list[str] = []

    def address(self, name: str) -> str:
        """Return the URL of a database."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    async def template(self, name: str, messages: int) -> str:
        """Make a database with our tables and as many messages that wait, and return its name."""
        name = f"{_PREFIX}_{name}"
        connection = await asyncpg.connect(self.url)
        await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await connection.execute(f"CREATE DATABASE {name}")
        self._made.append(name)
        await connection.close()
        app, _ = made()
        member = Fleet(app, {"one": self.address(name)})["one"]
        await member.migrate()
        async with member:
            await member.declare()
            await member.publish_many((TOPIC, PAYLOAD) for _ in range(messages))
        own = await asyncpg.connect(self.address(name))
        for table in ("delivery", "message"):
            await own.execute(f"VACUUM ANALYZE mainspring.{table}")
        await own.close()
        return name

    async def copies(self, template: str, count: int) -> dict[str, str]:
        """Make so many databases like it, and return their URLs by name."""
        connection = await asyncpg.connect(self.url)
        names = [f"{template}_{number}" for number in range(count)]
        for name in names:
            await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            self._made.append(name)
        await connection.execute("CHECKPOINT")
        await connection.close()
        return {name: self.address(name) for name in names}

    async def drop(self, *names: str) -> None:
        """Remove these, or all that were made."""
        connection = await asyncpg.connect(self.url)
        for name in names or tuple(self._made):
            await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            self._made.remove(name)
        await connection.close()

    async def connections(self) -> int:
        """Return how many connections these databases have."""
        connection = await asyncpg.connect(self.url)
        found = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE starts_with(datname, $1) AND backend_type = 'client backend'",
            _PREFIX,
        )
        await connection.close()
        return int(found)


@asynccontextmanager
async def server(url: str) -> AsyncIterator[Server]:
    """Yield the server, without databases of ours before and after."""
    made_there = Server(url)
    try:
        yield made_there
    finally:
        await made_there.drop()


def made() -> tuple[Mainspring, dict[str, int]]:
    """Make the app, and the counts of what it handles."""
    app = Mainspring("fleet://", name="bench")
    handled = {"all": 0}

    @app.consumer(TOPIC, concurrency=CONCURRENCY)
    async def noop(_: dict[str, str]) -> None:
        handled["all"] += 1

    return app, handled


# --- draining ----------------------------------------------------------------------------------------------


async def drain(url: str, databases: int, messages: int) -> float:
    """Return messages per second of one worker, over so many databases, until all of them are acknowledged."""
    each = max(messages // databases, 1)
    async with server(url) as there:
        template = await there.template("drain", each)
        urls = await there.copies(template, databases)
        app, _ = made()
        fleet = Fleet(app, urls)
        started = time.perf_counter()
        async with fleet.worker():
            while _ended(fleet) < each * databases:
                await asyncio.sleep(0.005)
            elapsed = time.perf_counter() - started
        for address in urls.values():
            await _verify(address, each)
    return each * databases / elapsed


def _ended(fleet: Fleet) -> int:
    """Return how many verdicts this process has written, in all databases, without a query."""
    places = [each.place for each in fleet._members.values()]  # noqa: SLF001
    groups = [group for place in places for group in place.metrics.meters.groups().values()]
    return sum(sum(each.statuses.values()) for each in groups)


async def _verify(address: str, messages: int) -> None:
    connection = await asyncpg.connect(address)
    left = await connection.fetchval("SELECT count(*) FROM mainspring.delivery")
    ended = await connection.fetchval("SELECT coalesce(sum(cardinality(message_ids)), 0) FROM mainspring.ended")
    dead = await connection.fetchval("SELECT count(*) FROM mainspring.dead")
    await connection.close()
    if (left, dead, ended) != (0, 0, messages):
        raise RuntimeError(f"not everything was acknowledged: {left=} {dead=} {ended=} of {messages}")


# --- idle --------------------------------------------------------------------------------------------------


async def idle_files(count: int, seconds: float) -> Idle:
    """Return what so many idle files cost."""
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "template.db"
        await Mainspring(f"sqlite:///{template}", name="bench").migrate()
        urls = {}
        for number in range(count):
            shutil.copy(template, Path(folder) / f"{number}.db")
            urls[f"t{number}"] = f"sqlite:///{folder}/{number}.db"

        async def opened() -> int:
            return sum(folder in each.path for each in psutil.Process().open_files() if each.path.endswith(".db"))

        return await _idle(urls, seconds, opened, None)


async def idle_databases(url: str, count: int, seconds: float) -> Idle:
    """Return what as many idle databases of PostgreSQL cost, or 200 where the disk has no room for them."""
    async with server(url) as there:
        template = await there.template("idle", 0)
        connection = await asyncpg.connect(url)
        data = await connection.fetchval("SHOW data_directory")
        await connection.close()
        local = Path(data, "postmaster.pid")
        process = psutil.Process(int(local.read_text().split()[0])) if local.exists() else None
        if process is not None and shutil.disk_usage(data).free < 2 * count * _MEGABYTES * 2**20:
            count = min(count, 200)
        urls = await there.copies(template, count)
        return await _idle(urls, seconds, there.connections, process)


async def _idle(urls: Mapping[str, str], seconds: float, connections: Any, process: psutil.Process | None) -> Idle:
    app, _ = made()
    own = psutil.Process()
    gc.collect()
    before = own.memory_info().rss
    fleet = Fleet(app, urls)
    most = 0
    with looks() as looked, counted() as trips:
        async with fleet.worker():
            while looked["tended"] < len(urls):
                await asyncio.sleep(0.1)
            # Until the pauses between looks have grown to the longest.
            await asyncio.sleep(min(seconds, 30.0))
            looked["all"], trips["trips"] = 0, 0
            used, spent = _cpu(own), None if process is None else _cpu_of_server(process)
            began = time.perf_counter()
            while (lasted := time.perf_counter() - began) < seconds:
                most = max(most, await connections())
                await asyncio.sleep(0.25)
            gc.collect()
            megabytes = (own.memory_info().rss - before) / 2**20
            cpu = (_cpu(own) - used) / lasted
            of_server = None if process is None or spent is None else (_cpu_of_server(process) - spent) / lasted
            queries = None if process is None else trips["trips"] / lasted
            return Idle(len(urls), looked["all"] / lasted, queries, most, megabytes, cpu, of_server)


@contextmanager
def looks() -> Iterator[dict[str, int]]:
    """Count the looks of every fleet's worker in this process, and at how many databases there was one."""
    found = {"all": 0, "tended": 0}
    look, tend = Attendance._look, Attendance._tend  # noqa: SLF001

    async def looked(self: Attendance) -> float | None:
        found["all"] += 1
        return await look(self)

    async def tended(self: Attendance, storage: Any) -> None:
        await tend(self, storage)
        found["tended"] += 1

    Attendance._look, Attendance._tend = looked, tended  # type: ignore[method-assign]  # noqa: SLF001
    try:
        yield found
    finally:
        Attendance._look, Attendance._tend = look, tend  # type: ignore[method-assign]  # noqa: SLF001


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _cpu_of_server(postmaster: psutil.Process) -> float:
    times = postmaster.cpu_times()
    spent = float(times.user + times.system + times.children_user + times.children_system)
    for each in postmaster.children():
        with suppress(psutil.NoSuchProcess):
            spent += _cpu(each)
    return spent


# --- fairness ----------------------------------------------------------------------------------------------


async def fairness(
    url: str, databases: int, pickups: int, rounds: int, rate: float = 20.0
) -> tuple[list[list[float]], list[list[float]]]:
    """Return the seconds from publish to handler in light databases alone, and beside one that is full, in turns."""
    backlog = int(pickups / rate * 25_000) + 25_000
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    async with server(url) as there:
        light = await there.copies(await there.template("light", 0), max(databases - 1, 1))
        full = await there.template("full", backlog)
        for _ in range(rounds):
            alone.append(await _picked(light, None, pickups, rate, 0))
            (name,) = urls = await there.copies(full, 1)
            beside.append(await _picked({**light, **urls}, name, pickups, rate, backlog))
            await there.drop(name)
    return alone, beside


async def _picked(urls: Mapping[str, str], full: str | None, pickups: int, rate: float, backlog: int) -> list[float]:
    app, handled = made()
    arrived: dict[int, float] = {}

    @app.consumer("bench.light")
    async def light(number: int) -> None:
        arrived[number] = time.perf_counter()

    fleet = Fleet(app, urls)
    names = [name for name in urls if name != full]
    sent: dict[int, float] = {}
    with looks() as looked:
        async with fleet.worker():
            while looked["tended"] < len(urls) or (full is not None and not handled["all"]):
                await asyncio.sleep(0.05)
            began = time.perf_counter()
            for number in range(pickups):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                await fleet.publish("bench.light", number, database=random.choice(names))
                sent[number] = time.perf_counter()
            if full is not None and handled["all"] >= backlog:
                raise RuntimeError(f"the full database was empty before the end: {backlog} were too few")
            while len(arrived) < pickups:
                await asyncio.sleep(0.01)
    return [max(arrived[number] - at, 0.0) for number, at in sent.items()]
