"""Between workers and a broker: a slow network, and connections that go dead without a word."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.places import Place, shared_place
from tests.faults.proxy import Proxy, proxy_to
from tests.faults.report import Report
from tests.faults.services import declare, services

LATENCY = 0.2
GRACE = 1.0
NOTICED_WITHIN = {"redis": 18.0, "nats": 20.0, "rabbitmq": 52.0}
"""Seconds: what confirms nothing is lost after 15, and opened again in 2; what only reads, by pings or heartbeats."""
KINDS = ["redis", *(pytest.param(each, marks=pytest.mark.large) for each in ("rabbitmq", "nats"))]


def through(proxy: Proxy, at: Place) -> Place:
    """The same place, which shop and billing reach by the proxy; the witness does not."""
    to, source = ((*spec[:2], [proxy.url], spec[3]) for spec in (at.to, at.source))
    return replace(at, to=to, source=source)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_network_costs_time_and_nothing_else(
    kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report, large: bool
) -> None:
    count = 500 if large else 100
    async with shared_place(kind) as at:
        await declare(at.source, at.witness)
        with proxy_to(at.to[2][0], LATENCY) as proxy:
            async with services(tmp_path, postgres_url, postgres_schema, through(proxy, at)) as running:
                since = time.monotonic()
                await running.publish(range(count), together=count)
                dead = await running.drained()
                await running.effective(range(count))
                found = await running.found(dead, since=since, bound=0)

    report(f"brokers, {LATENCY * 1000:g} ms per packet, {at.kind}", found.line())
    assert (dead, found.flaws) == (0, [])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_half_open_connection_is_noticed_and_does_not_keep_a_worker_from_stopping(
    kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report, margin: float
) -> None:
    async with shared_place(kind) as at:
        await declare(at.source, at.witness)
        with proxy_to(at.to[2][0]) as proxy:
            async with services(tmp_path, postgres_url, postgres_schema, through(proxy, at)) as running:
                await running.publish(range(20), together=20)
                await running.effective(range(20))
                await asyncio.to_thread(proxy.black_hole, also_new=False)
                since = time.monotonic()
                await running.publish(range(20, 40), together=20)
                await running.effective(range(40))
                noticed = time.monotonic() - since

                await asyncio.to_thread(proxy.black_hole, also_new=True)
                await running.publish(range(40, 60), together=20)
                stopped = [await asyncio.to_thread(each.stop) for each in (running.relays, running.intakes)]
                await asyncio.to_thread(proxy.heal)
                since = time.monotonic()
                for each in (running.relays, running.intakes):
                    assert each.replace_dead() == 1
                dead = await running.drained()
                await running.effective(range(60))
                found = await running.found(dead, since=since, bound=40)

    within = NOTICED_WITHIN[kind]
    report(
        f"brokers, half-open connection, {at.kind}",
        f"noticed={noticed:.1f}s≤{within:g}s exit-after={max(stopped):.1f}s≤{GRACE + 5:g}s",
        found.line(),
    )
    assert noticed <= within + margin
    assert max(stopped) <= GRACE + 5 + margin
    assert (dead, found.flaws) == (0, [])
