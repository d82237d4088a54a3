"""A broker that is away at the start, killed −9 under load, or back without its data: shop and billing carry on."""

import asyncio
import random
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from tests.brokers.benches.kafka import PrivateKafka
from tests.faults.places import KINDS, private_place
from tests.faults.relaying import IN_HAND
from tests.faults.report import Report
from tests.faults.services import Found, Services, declare, services
from tests.faults.waiting import until
from tests.services.private_brokers import PrivateBroker

AWAY, UNREAD, REST = range(200), range(200, 500), range(500, 600)
LOAD = 1000
"""From what number on orders are placed while the broker is killed."""
PAUSE = 0.005
"""Seconds between two of them."""
SLOW_START = {"rabbitmq": 1}
"""How often a broker is killed in a small run, if starting it is most of the time of the test."""


async def away_at_the_start(server: PrivateBroker | PrivateKafka, running: Services, report: Report) -> None:
    await running.publish(AWAY, together=len(AWAY))
    while not (await running.route())["put off"]:
        await asyncio.sleep(0.02)
    attempts, group = running.attempts(), await running.route()

    await server.start()
    since = time.monotonic()
    dead = await running.drained()
    await running.effective(AWAY)

    found = await running.found(dead, since=since, witness=False)
    report(f"brokers, away at the start, {running.at.kind}", f"attempts={attempts} buried={dead}", found.line())
    assert (attempts, group["waiting"], group["dead"], dead) == (0, len(AWAY), 0, 0)
    assert found.flaws == []


async def killed_under_load(
    server: PrivateBroker | PrivateKafka, running: Services, kills: int, chance: random.Random
) -> Found:
    await declare(running.at.witness)
    running.published.clear()
    ended = asyncio.Event()

    async def load() -> None:
        for order in count(LOAD):
            if ended.is_set():
                return
            await running.publish([order])
            await asyncio.sleep(PAUSE)

    publishing = asyncio.create_task(load())
    for _ in range(kills):
        # In the middle of what is on its way: some of it has arrived, and more of it has not.
        enough = len(running.effects()) + chance.randrange(1, 2 * IN_HAND)
        await until("some to arrive", lambda: len(running.effects()) > enough)  # noqa: B023
        await server.kill()
        await asyncio.sleep(chance.uniform(0, 0.3))
        await server.start()
    since = time.monotonic()
    ended.set()
    await publishing
    dead = await running.drained()
    await running.effective(running.published)
    return await running.found(dead, since=since, bound=kills * IN_HAND)


async def back_without_its_data(server: PrivateBroker | PrivateKafka, running: Services, report: Report) -> None:
    running.published.clear()
    (reader,) = running.intakes.processes
    reader.send_signal(signal.SIGSTOP)
    await running.publish(UNREAD, together=len(UNREAD))
    dead = await running.drained()
    await server.kill()
    await server.wipe()
    await running.publish(REST, together=len(REST))

    await server.start()
    since = time.monotonic()
    reader.send_signal(signal.SIGCONT)
    dead += await running.drained()
    await running.effective(REST)

    found = await running.found(dead, since=since, witness=False)
    gone = found.lost & set(UNREAD)  # confirmed by the broker, which has lost it
    found.published -= gone
    found.sent -= len(gone)
    report(
        f"brokers, back without its data, {running.at.kind}",
        f"gone-with-the-broker={len(gone)} buried={dead}",
        found.line(),
    )
    assert (dead, found.flaws) == (0, [])
    assert gone, "it has come back with its data"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_broker_has_not_confirmed_outlives_its_outages(
    kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report, large: bool, seed: int
) -> None:
    kills = 20 if large else SLOW_START.get(kind, 3)

    async with (
        private_place(kind) as (server, at),
        services(tmp_path, postgres_url, postgres_schema, at) as running,
    ):
        await away_at_the_start(server, running, report)
        found = await killed_under_load(server, running, kills, random.Random(seed))
        report(f"brokers, killed −9 and restarted under load, {at.kind}", f"seed={seed} kills={kills}", found.line())
        assert found.flaws == []
        assert found.sent == len(found.published)
        await back_without_its_data(server, running, report)
