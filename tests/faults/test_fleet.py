"""One app on many databases: servers killed and restarted, workers killed, and functions that name databases badly."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.faults.plan import NEVER_LAPSES
from tests.faults.report import Report
from tests.faults.shards import Run, prepare, rows
from tests.faults.waiting import until
from tests.services.cluster import Cluster
from tests.services.postgres import new_database, private_server

_SERVERS, _EACH = 4, 5
_WITHIN = 10.0
"""Seconds within which an order is handled, whatever happens to other databases."""
_GONE = "is no database of the fleet any more"
_FAILED, _AGAIN = "failed to ask for the databases of the fleet", "the databases of the fleet are known again"
_REJECTED = "a database of the fleet cannot be used"


@contextmanager
def servers(tmp_path: Path) -> Iterator[list[Cluster]]:
    with ExitStack() as stack:
        found = []
        for number in range(_SERVERS):
            (folder := tmp_path / f"server-{number}").mkdir()
            # A process that is killed loses nothing that it has written, synced or not.
            small = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "200"}
            found.append(stack.enter_context(private_server(folder, **small)))
        yield found


async def databases(found: list[Cluster]) -> dict[str, str]:
    """Make the databases, each a copy of the first of its server."""
    urls: dict[str, str] = {}
    for number, server in enumerate(found):
        names = [f"s{number}_{each}" for each in range(_EACH)]
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {names[0]}".encode())
            await prepare(_url(server, names[0]))
            for name in names[1:]:
                connection.execute(f"CREATE DATABASE {name} TEMPLATE {names[0]}".encode())
        urls |= {name: _url(server, name) for name in names}
    return urls


def _url(server: Cluster, name: str) -> str:
    return f"{server.url.removesuffix('postgres')}{name}"


@pytest.mark.timeout(900)
async def test_a_server_with_five_of_twenty_databases_dies_and_the_others_go_on(
    tmp_path: Path, seed: int, report: Report, large: bool, margin: float
) -> None:
    outages, window, rate, workers = (12, 20.0, 100.0, 3) if large else (2, 3.0, 40.0, 2)
    with servers(tmp_path) as found:
        urls = await databases(found)
        run = Run(tmp_path, urls, seed)
        victim = run.chance.choice(found)
        others = [name for name in urls if not name.startswith(f"s{found.index(victim)}_")]
        windows: dict[str, list[tuple[float, float]]] = {"before": [], "away": []}

        async def watched(which: str) -> None:
            began = time.monotonic()
            await asyncio.sleep(window)
            windows[which].append((began, time.monotonic()))
            # With nothing that helps: no process is started, and no server is back.
            await until("the orders of the others", lambda: inf not in run.took(others, *windows[which][-1]))

        async with run.open():
            run.start(workers)
            async with run.load(rate, nap=0.3):
                await until("every database to be served", lambda: {e.key for e in run.executions()} == set(urls))
                await watched("before")
                for _ in range(outages):
                    await asyncio.to_thread(victim.kill)
                    await watched("away")
                    for _ in range(2):
                        run.kill()
                        await asyncio.sleep(run.chance.uniform(0.2, 1.0))
                    await asyncio.to_thread(victim.start)
                    await asyncio.sleep(run.chance.uniform(0.0, 1.0))
            await run.drained()
            outcome = run.found()
            inside = sum(each.outcome is None for each in run.executions())

    said, late = [], 0
    for which, spans in windows.items():
        took = [seconds for span in spans for seconds in run.took(others, *span)]
        per_second = len(took) / sum(end - began for began, end in spans)
        late += sum(seconds > _WITHIN + margin for seconds in took)
        said.append(f"others-{which}={per_second:.0f}/s slowest={max(took):.1f}s")
    report(
        f"fleet of {len(urls)} databases on {_SERVERS} servers, one killed −9",
        f"seed={seed} outages={outages} kills={run.killed} killed-inside={inside}",
        outcome.line(),
        *said,
        f"late={late} (≤{_WITHIN:g}s and {margin:g}s for the machine)",
    )
    assert outcome.flawless, outcome
    assert late == 0
    assert inside


@pytest.mark.timeout(600)
async def test_databases_that_are_named_badly_lose_nothing_and_work_in_hand_is_finished(
    tmp_path: Path, postgres_url: str, seed: int, report: Report, large: bool
) -> None:
    rounds = 60 if large else 8
    with ExitStack() as stack:
        urls = {f"file{n}": f"sqlite:///{tmp_path}/file{n}.db" for n in range(3)}
        for n in range(3):
            urls[f"server{n}"] = stack.enter_context(new_database(postgres_url, f"shard_{uuid4().hex[:12]}"))
        for url in urls.values():
            await prepare(url)
        run = Run(tmp_path, urls, seed)
        in_hand = 0
        async with run.open():
            # No claim lapses, and no process dies: every order is handled in its first attempt.
            run.start(2, claim_time=NEVER_LAPSES)
            async with run.load(rate=20, nap=1.0):
                await until("every database to be served", lambda: {e.key for e in run.executions()} == set(urls))
                for _ in range(rounds):
                    before = run.count(_FAILED), run.count(_AGAIN), run.count(_REJECTED)
                    for failing in ("there is no directory", None, [1, 2]):
                        run.answer(failing)
                    await run.logged(_FAILED, before[0])
                    run.answer(urls)
                    await run.logged(_AGAIN, before[1])

                    # Under more than one name: those that it has keep them.
                    run.answer({**urls, **{f"again-{name}": url for name, url in urls.items()}})
                    await run.logged(_REJECTED, before[2])
                    run.answer(urls)

                    chosen = run.chance.sample(list(urls), 2)
                    await until("work to be in hand there", partial(in_hand_of, run, chosen))
                    gone = run.count(_GONE)
                    run.answer({name: url for name, url in urls.items() if name not in chosen})
                    in_hand += in_hand_of(run, chosen)
                    await run.logged(_GONE, gone)
                    run.answer(urls)  # while it may still be finishing there
            await run.drained()
            outcome = run.found()
            began = run.executions()
            parked = sum(rows(url, "SELECT count(*) FROM {}parked")[0][0] for url in urls.values())

    interrupted = sum(each.outcome != "ok" for each in began)
    report(
        "fleet, discovery that fails, flaps and answers duplicates",
        f"seed={seed} rounds={rounds}",
        outcome.line(),
        f"executions={len(began)} interrupted={interrupted} in-hand-when-gone={in_hand}",
    )
    assert outcome.flawless, outcome
    assert (outcome.unknown, outcome.revived, parked) == (0, 0, 0)
    assert (interrupted, len(began)) == (0, outcome.published)
    assert in_hand


def in_hand_of(run: Run, shards: list[str]) -> int:
    """How many orders of these databases are being handled."""
    return sum(each.outcome is None and each.key in shards for each in run.executions())


@pytest.mark.parametrize("bug", ["apart", "astray"])
async def test_effects_that_are_written_apart_or_elsewhere_are_reported(
    tmp_path: Path, seed: int, report: Report, bug: str
) -> None:
    urls = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("acme", "bolt")}
    for url in urls.values():
        await prepare(url)
    run = Run(tmp_path, urls, seed)
    async with run.open():
        run.start(1, bug=bug)
        for name in urls:
            await run.publish(name)
        await until("every first effect", lambda: run.found().effects == 2)
        run.kill()
        await run.drained()
        found = run.found()

    report(f"teeth: effects of a fleet {bug}", f"seed={seed} kills={run.killed}", found.line(), "(must be reported)")
    assert not found.flawless
    assert (len(found.doubled), len(found.astray)) == ((2, 0) if bug == "apart" else (len(found.doubled), 2))
