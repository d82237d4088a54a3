"""Workers that divide the databases of a fleet among themselves, and take over from the dead."""

import asyncio
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Fleet, FleetWorker, Mainspring
from mainspring.app.fleet import share
from mainspring.model.errors import Misuse, UnknownDatabase
from tests.integration.fleet.conftest import Make, Urls, until
from tests.services.postgres import new_database, private_server

QUICK: dict[str, Any] = {"longest_pause": "1s", "idle": "1s", "share": True}
SLACK = 10
"""Seconds that a busy machine may add."""
NAMES = [f"t{n:02}" for n in range(12)]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the shares of others read often."""
    monkeypatch.setattr(share, "_ROUND", 0.1)


class Held:
    """A message whose handlers wait."""

    def __init__(self) -> None:
        self.count = 0
        self.release = asyncio.Event()

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None:
        self.release.set()


def shop(urls: Any, done: list[str] | None = None, held: Held | None = None, **options: Any) -> Fleet:
    """The fleet as another process has it."""
    app = Mainspring("fleet://", name="shop", grace="60s")

    @app.consumer("orders.placed")
    async def receipts(order: str) -> None:
        if order == "held" and held is not None:
            held.count += 1
            await held.release.wait()
        if done is not None:
            done.append(order)

    return Fleet(app, urls, home="t00", **options)


def are_divided(workers: Collection[FleetWorker], names: Iterable[str] = NAMES) -> bool:
    """Whether each worker has a share, and each database is served by one of them."""
    shares = [each.databases for each in workers]
    return all(shares) and sorted(itertools.chain.from_iterable(shares)) == sorted(names)


async def migrated(urls: Urls) -> Urls:
    """Migrate beforehand: several workers that begin would wait for each other."""
    assert (await shop(urls).migrate()).ok
    return urls


@pytest.mark.usefixtures("often")
async def test_workers_divide_the_databases_and_a_change_moves_only_what_it_must(files: Make) -> None:
    urls = await migrated(files(*NAMES))
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(shop(urls).worker(**QUICK))
        await until(lambda: first.databases == tuple(NAMES))
        second = await stack.enter_async_context(shop(urls).worker(**QUICK))
        await until(lambda: are_divided([first, second]))
        assert first.databases
        assert second.databases
        before = {"first": set(first.databases), "second": set(second.databases)}

        async with shop(urls).worker(**QUICK) as third:
            await until(lambda: are_divided([first, second, third]))
            # What the third has was given up for it; nothing moved between the two others.
            assert third.databases
            assert set(first.databases) == before["first"] - set(third.databases)
            assert set(second.databases) == before["second"] - set(third.databases)

        await until(lambda: are_divided([first, second]))
        assert {"first": set(first.databases), "second": set(second.databases)} == before


@pytest.mark.usefixtures("often")
async def test_a_worker_gives_its_share_up_before_its_handlers_have_finished(files: Make) -> None:
    urls = await migrated(files(*NAMES))
    done, held = list[str](), Held()
    fleet = shop(urls, done, held)
    async with fleet.worker(**QUICK) as stopping, shop(urls, done, held).worker(**QUICK) as other, held:
        await until(lambda: are_divided([stopping, other]))
        name = stopping.databases[0]
        await fleet.publish("orders.placed", "held", database=name)
        await until(lambda: held.count == 1)

        stop = asyncio.create_task(stopping.stop())
        await until(lambda: other.databases == tuple(NAMES))
        assert stopping.databases == ()
        await fleet.publish("orders.placed", "next", database=name)
        await until(lambda: done == ["next"])
        held.release.set()
        await stop

    assert done == ["next", "held"]


@pytest.mark.usefixtures("often")
async def test_what_is_given_up_is_drained_and_served_again_if_it_comes_back(files: Make) -> None:
    urls = await migrated(files(*NAMES))
    done, elsewhere, held = list[str](), list[str](), Held()
    fleet = shop(urls, done, held)
    async with fleet.worker(**QUICK) as first, held:
        await until(lambda: first.databases == tuple(NAMES))
        for name in NAMES:
            await fleet.publish("orders.placed", "held", database=name)
        await until(lambda: held.count == len(NAMES))
        async with shop(urls, elsewhere).worker(**QUICK) as second:
            await until(lambda: are_divided([first, second]))
            moved = second.databases[0]
            count = 0
            while not elsewhere:  # the first may have been about to claim one
                await fleet.publish("orders.placed", "elsewhere", database=moved)
                count += 1
                await asyncio.sleep(0.1)
            claimed = len(done)
            for more in range(count + 1, count + 11):
                await fleet.publish("orders.placed", "elsewhere", database=moved)
                await until(lambda more=more: len(done) + len(elsewhere) == more)  # type: ignore[misc]
            assert len(done) == claimed
            assert moved in first.open  # it finishes what it has in hand
        await until(lambda: first.databases == tuple(NAMES))
        # That still runs, and holds nothing up.
        await fleet.publish("orders.placed", "back", database=moved)
        await until(lambda: "back" in done)
        assert "held" not in done
        held.release.set()
        await until(lambda: done.count("held") == len(NAMES))


async def test_a_database_that_is_new_belongs_to_one_of_them(files: Make) -> None:
    urls = files(*NAMES)
    known = {"t00": urls["t00"]}
    await migrated(urls)
    fleets = [shop(lambda: dict(known)), shop(lambda: dict(known))]
    async with fleets[0].worker(**QUICK) as first, fleets[1].worker(**QUICK) as second:
        await until(lambda: [*first.databases, *second.databases] == ["t00"])
        known.update(urls)
        await asyncio.gather(*(each.refresh() for each in fleets))

        await until(lambda: are_divided([first, second]))


@pytest.mark.usefixtures("often")
async def test_workers_of_other_groups_or_databases_divide_on_their_own(files: Make) -> None:
    urls = await migrated(files(*NAMES))
    app = Mainspring("fleet://", name="shop")
    app.consumer("orders.sent")(shop)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(shop(urls).worker(**QUICK))
        newer = await stack.enter_async_context(Fleet(app, urls, home="t00").worker(**QUICK))
        some = await stack.enter_async_context(shop(urls).worker(databases="t0*", **QUICK))

        await until(lambda: one.databases == newer.databases == tuple(NAMES))
        await until(lambda: some.databases == tuple(NAMES[:10]))


async def test_while_the_home_is_away_each_keeps_what_it_has(
    tmp_path: Path, files: Make, often: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(share, "_TTL", timedelta(seconds=2))
    with private_server(tmp_path) as server, new_database(server.url, f"fleet_{uuid4().hex[:8]}") as url:
        urls = await migrated({**files(*NAMES), "t00": url})
        done: list[str] = []
        fleet = shop(urls, done)
        async with fleet.worker(**QUICK) as first, shop(urls, done).worker(**QUICK) as second:
            await until(lambda: are_divided([first, second]))
            had = first.databases, second.databases
            server.kill()
            await until(lambda: sum("keeps its share" in each.message for each in caplog.records) == 2)
            # Longer than the leases last: they are lost, and nothing is given up.
            async with shop(urls, done).worker(**QUICK) as late:
                await until(lambda: late.databases == tuple(NAMES))  # it has never had a share
            assert (first.databases, second.databases) == had
            for name in NAMES[1:]:
                await fleet.publish("orders.placed", name, database=name)
            await until(lambda: sorted(done) == NAMES[1:])

            caplog.set_level(logging.INFO, "mainspring.fleet")
            server.start()
            await until(
                lambda: sum("home of the fleet can be used again" in each.message for each in caplog.records) == 2
            )
            await until(lambda: are_divided([first, second]))
            assert len(first.databases) < len(NAMES)


@pytest.mark.usefixtures("often")
async def test_a_share_that_an_operator_released_is_acquired_again(files: Make) -> None:
    urls = await migrated(files(*NAMES))
    fleet = shop(urls)
    async with fleet.worker(**QUICK) as first, shop(urls).worker(**QUICK) as second:
        await until(lambda: are_divided([first, second]))
        leases = await fleet["t00"].leases.list()
        assert [each.name.rpartition(":")[2] for each in leases] == ["1", "2"]

        for each in leases:
            await fleet["t00"].leases.release(each.name)
        await until(lambda: are_divided([first, second]))

        async with asyncio.timeout(60):
            while not all(each.state == "held" for each in await fleet["t00"].leases.list()):
                await asyncio.sleep(0.05)
        await until(lambda: are_divided([first, second]))


async def test_a_share_needs_a_home(files: Make) -> None:
    urls = files("acme")
    app = Mainspring("fleet://", name="shop")
    app.consumer("orders.placed")(shop)

    with pytest.raises(Misuse, match=r"fleet\.worker\(\) with share=True needs a database .* home='acme'"):
        async with Fleet(app, urls).worker(share=True):
            pass
    with pytest.raises(UnknownDatabase, match=r"'acne' is no database of the fleet\. Did you mean 'acme'"):
        async with Fleet(app, urls, home="acne").worker(share=True):
            pass
    with pytest.raises(UnknownDatabase, match="'acne' is no database of the fleet"):
        async with Fleet(app, lambda: urls, home="acne").worker(share=True):
            pass


SCRIPT = """
import asyncio, sys, time
from mainspring import Fleet, Mainspring

app = Mainspring("fleet://", name="shop")


@app.consumer("orders.placed")
async def receipts(order: str) -> None: ...


async def main() -> None:
    urls = dict(each.split("=", 1) for each in sys.argv[1:])
    async with Fleet(app, urls, home="t00").worker(share=True, longest_pause="1s") as worker:
        said = None
        while True:
            if worker.databases != said:
                said = worker.databases
                print(time.time(), *said, flush=True)
            await asyncio.sleep(0.05)


asyncio.run(main())
"""


class Child:
    """A worker in a process of its own, and since when it has said to serve what."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[tuple[float, frozenset[str]]] = []
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            at, *names = line.decode().split()
            self.said.append((float(at), frozenset(names)))

    @property
    def serves(self) -> frozenset[str]:
        return self.said[-1][1] if self.said else frozenset()

    async def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        at = time.time()
        await self.reading
        self.said.append((at, frozenset()))
        await self.process.wait()


def longest(children: Collection[Child], name: str, since: float, is_wrong: Callable[[int], bool]) -> float:
    """Return for how long the number of those that serve it was wrong at most, in seconds, from then on."""
    changes = sorted({since, *(at for each in children for at, _ in each.said if at > since)})
    most, began = 0.0, None
    for at in changes:
        before = [[names for told, names in each.said if told <= at] for each in children]
        wrong = is_wrong(sum(name in names[-1] for names in before if names))
        most = most if began is None else max(most, at - began)
        began = (began or at) if wrong else None
    assert began is None, f"{name} is served by the wrong number to the end"
    return most


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_a_killed_worker_is_replaced_and_no_database_waits_for_long(
    engine: str, tmp_path: Path, files: Make, servers: Make
) -> None:
    names = NAMES if engine == "sqlite" else NAMES[:6]
    urls = await migrated((files if engine == "sqlite" else servers)(*names))
    script = tmp_path / "worker.py"
    script.write_text(SCRIPT)
    said = [f"{name}={url}" for name, url in urls.items()]
    children: list[Child] = []

    def are_settled(workers: Collection[Child]) -> bool:
        return all(each.serves for each in workers) and sorted(
            itertools.chain.from_iterable(each.serves for each in workers)
        ) == sorted(names)

    try:
        for _ in range(3):
            process = await asyncio.create_subprocess_exec(
                sys.executable, script, *said, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
            )
            children.append(Child(process))
        await until(lambda: are_settled(children))
        settled_at = time.time()
        victim = children[1]
        orphans, others = victim.serves, [each for each in children if each is not victim]
        kept = {each: each.serves for each in others}
        await victim.kill()
        await until(lambda: are_settled(others))

        # Only what it had has moved.
        assert all(each.serves >= kept[each] for each in others)
        assert frozenset().union(*(each.serves - kept[each] for each in others)) == orphans
        for name in names:
            unserved = longest(children, name, settled_at, lambda count: count == 0)
            twice = longest(children, name, settled_at, lambda count: count > 1)
            assert unserved <= (15 + 3 + SLACK if name in orphans else 0)
            assert twice <= 3 + SLACK
    finally:
        for each in children:
            if each.process.returncode is None:
                await each.kill()
