"""Run the benchmarks: ``python -m benchmarks [--only drain,load,idle,backlog,dashboard] [--messages N] …``."""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from operator import truediv
from pathlib import Path

import asyncpg
import uvloop

from benchmarks import backlog, bell, brokers, dashboard, dispatch, drain, fleet, handles, lateness, raw_loop
from benchmarks import options as consumer_options
from benchmarks.broker_clients import IN_PROCESS, clients
from benchmarks.kafka_cluster import kafka
from benchmarks.options import Rates
from benchmarks.server import postgres

WANTED_SHARE = 0.25
Section = Callable[[str, argparse.Namespace], Awaitable[None]]


def quantiles(values: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def verdict(ok: object) -> str:
    """Format whether a figure meets its target."""
    return "ok" if ok else "MISSED"


async def drains(url: str, options: argparse.Namespace) -> None:
    """Measure the raw loop and Mainspring alternately, so that both see the same machine."""
    raw, ours = [], []
    for number in range(options.rounds):
        raw.append(await raw_loop.drain(url, options.messages))
        ours.append(await drain.drain(url, f"bench_drain_{number}", options.messages))
        print(f"  round {number + 1}: raw loop {raw[-1]:>9,.0f} msg/s   mainspring {ours[-1]:>9,.0f} msg/s")
    share = statistics.median(mine / bare for mine, bare in zip(ours, raw, strict=True))
    print(f"  raw loop                       {statistics.median(raw):>10,.0f} msg/s (median)")
    print(f"  mainspring, one process        {statistics.median(ours):>10,.0f} msg/s (median), all acknowledged")
    print(f"  share of the raw loop          {share:>10.2f}   (≥ {WANTED_SHARE}: {verdict(share >= WANTED_SHARE)})")
    with tempfile.TemporaryDirectory() as folder:
        rate = await drain.drain(f"sqlite:///{Path(folder) / 'bench.db'}", "mainspring", options.messages // 2)
    print(f"  the same on SQLite             {rate:>10,.0f} msg/s")


async def load(url: str, options: argparse.Namespace) -> None:
    """Measure round trips and notifications per message under load."""
    trips, notifications = await bell.under_load(url, "bench_load", options.messages)
    print(f"  round trips per 1,000 messages {trips:>10.1f}   from publish to settle, 50 concurrent publishers")
    print(f"  notifications per 1,000        {notifications:>10.1f}   (≤ 10: {verdict(notifications <= 10)})")
    await _drop(url, "bench_load")


async def idle(url: str, options: argparse.Namespace) -> None:
    """Measure the time from the publisher's call until a sleeping worker has the message."""
    median, late = quantiles(await bell.idle_pickup(url, "bench_idle", options.pickups))
    kept = verdict(median <= 5 and late <= 20)
    print(f"  PostgreSQL p50 / p99           {median:>6.1f} / {late:.1f} ms (≤ 5 / ≤ 20: {kept})")
    await _drop(url, "bench_idle")
    with tempfile.TemporaryDirectory() as folder:
        waits = await bell.idle_pickup(f"sqlite:///{Path(folder) / 'idle.db'}", "mainspring", options.pickups)
    median, late = quantiles(waits)
    kept = verdict(median <= 25 and late <= 50)
    print(f"  SQLite p50 / p99               {median:>6.1f} / {late:.1f} ms (≤ 25 / ≤ 50: {kept})")


async def behind(url: str, options: argparse.Namespace) -> None:
    """Measure a claim among four million rows of other groups and times."""
    median, late = quantiles(await backlog.claim_times(url, "bench_backlog", options.claims, options.rows))
    print(f"  claim p50 / p99                {median:>6.2f} / {late:.2f} ms (p99 ≤ 5: {verdict(late <= 5)})")
    await _drop(url, "bench_backlog")


async def operating(url: str, options: argparse.Namespace) -> None:
    """Measure the queries of the dashboard's pages, each several times."""
    try:
        for name, times in await dashboard.read(url, "bench_dashboard", options.rows):
            median, worst = statistics.median(times), max(times)
            kept = verdict(worst <= dashboard.MOST)
            print(f"  {name:<30} {median:>7.1f} ms, at worst {worst:>7.1f} ms (≤ {dashboard.MOST:.0f} ms: {kept})")
    finally:
        await _drop(url, "bench_dashboard")


async def joined(url: str, options: argparse.Namespace) -> None:
    """Measure a publish in the caller's transaction, its raw statements, and a minimal outbox by hand, alternately."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "PostgreSQL": await handles.measure("PostgreSQL", url, "bench_handles", options.pairs),
            "SQLite": await handles.measure("SQLite", str(Path(folder) / "bench.db"), "mainspring", options.pairs),
        }
    for database, measured in found.items():
        for handle, publish, raw, by_hand in measured:
            ratio = raw / publish
            print(
                f"  {database:<10} {handle:<24} publish {publish:>4.0f} µs, raw {raw:>4.0f} µs: "
                f"{ratio:.2f} (≥ {handles.WANTED}: {verdict(ratio >= handles.WANTED)}); "
                f"by hand {by_hand:>4.0f} µs: {by_hand / publish:.2f}"
            )
    await _drop(url, "bench_handles")


async def on_time(url: str, options: argparse.Namespace) -> None:
    """Measure how late due work starts, on both databases."""
    with tempfile.TemporaryDirectory() as folder:
        for database, address in (("PostgreSQL", url), ("SQLite", f"sqlite:///{Path(folder) / 'due.db'}")):
            for what, measure in (("delayed", lateness.idle_delayed), ("schedule", lateness.idle_schedule)):
                median, late = quantiles(await measure(address, "bench_due", options.pickups // 2))
                kept = verdict(late <= 20)
                print(f"  {database:<10} idle, {what:<9} p50 / p99 {median:>6.1f} / {late:.1f} ms (p99 ≤ 20: {kept})")
            median, late = quantiles(await lateness.busy_delayed(address, "bench_due", 10))
            kept = verdict(late <= 1_000)
            print(f"  {database:<10} 1,000 due/s     p50 / p99 {median:>6.1f} / {late:.1f} ms (p99 ≤ 1,000: {kept})")
            fired = await lateness.thousand_schedules(address, "bench_due", 10)
            median, late = quantiles(fired.late)
            kept = verdict(fired.fired == fired.expected and late <= 1_000)
            print(
                f"  {database:<10} 1,000 schedules every second: {fired.fired:,} of {fired.expected:,} run in 10 s, "
                f"p50 / p99 {median:.1f} / {late:.1f} ms (all, p99 ≤ 1,000: {kept})"
            )
    await _drop(url, "bench_due")


async def calls(_url: str, options: argparse.Namespace) -> None:
    """Measure a bare call through the executor, a handler, and one with three dependencies, alternately."""
    took = await dispatch.measure(min(options.messages, 5_000), options.rounds * 10)
    median = {kind: statistics.median(values) for kind, values in took.items()}
    share = {kind: statistics.median(map(truediv, values, took["bare"])) for kind, values in took.items()}
    kept = verdict(share["plain"] <= 1.05)
    print(f"  bare call through the executor {median['bare']:>10.2f} µs")
    print(f"  a handler with no dependency   {median['plain']:>10.2f} µs, {share['plain']:.2f} of it (≤ 1.05: {kept})")
    print(f"  a handler with three           {median['three']:>10.2f} µs, {share['three']:.2f} of it")


async def each_option(url: str, options: argparse.Namespace) -> None:
    """Measure every option of a consumer and a plain consumer, alternately, with the same concurrency."""
    count = max(options.messages // 10, 500)
    every = (consumer_options.PLAIN, *consumer_options.OPTIONS)
    rates: dict[str, list[Rates]] = {each.name: [] for each in every}
    for number in range(options.rounds):
        for each in every:
            rates[each.name].append(await consumer_options.measure(url, f"bench_option_{number}", each, count))
    plain = rates.pop("plain")
    hands = f"plain, {consumer_options.CONCURRENCY} hands"
    published, handled = (statistics.median(each) for each in zip(*plain, strict=True))
    print(f"  {hands:<30} published {published:>7,.0f} msg/s        handled {handled:>7,.0f} msg/s")
    for name, found in rates.items():
        published, handled = (statistics.median(each) for each in zip(*found, strict=True))
        shares = [statistics.median(map(truediv, mine, theirs)) for mine, theirs in _columns(found, plain)]
        print(
            f"  {name:<30} published {published:>7,.0f} msg/s, {shares[0]:.2f}  handled {handled:>7,.0f} msg/s, "
            f"{shares[1]:.2f} of plain"
        )


async def beside_clients(url: str, options: argparse.Namespace) -> None:
    """Measure routes and intakes, each broker's own client alone, and with tables by hand, alternately."""
    count = max(options.messages * 2 // 5, 500)  # with fewer, the start of a worker is much of the time
    with kafka() as address:
        made = clients(address)
        rounds: dict[str, list[brokers.Round]] = {name: [] for name in made}
        for number in range(options.rounds):
            for name, make in made.items():
                rounds[name].append(await brokers.measure(url, f"bench_brokers_{number}", make, count, number))
    for way, wanted in brokers.WANTED.items():
        columns = {
            name: list(zip(*(getattr(each, way) for each in found), strict=True)) for name, found in rounds.items()
        }
        bare, _, bare_by_hand = columns.pop(IN_PROCESS)
        print(f"  {way:<6} no broker {_cost(bare)}; by hand {_cost(bare_by_hand)}: {_share(bare, bare_by_hand):.2f}")
        for name, (ours, client, by_hand) in columns.items():
            share = _share(ours, client)
            print(
                f"  {way:<6} {name:<9} {_cost(ours)}; client {_cost(client)}: {share:.2f} "
                f"(≥ {wanted}: {verdict(share >= wanted)}); by hand {_cost(by_hand)}: {_share(ours, by_hand):.2f}; "
                f"of the client, by hand {_share(by_hand, client):.2f}, and without a broker {_share(bare, client):.2f}"
            )


async def many_databases(url: str, options: argparse.Namespace) -> None:
    """Measure one worker over many databases: it drains them, finds nothing there, and beside a full one."""
    total, most = options.messages * 4, max(options.databases // 10, 2)
    rates: dict[tuple[int, int], list[float]] = {}
    for number in range(options.rounds):
        for count, messages in [(1, total), (most // 10, total), (most, total), (most, 400 * most)]:
            if count:
                rates.setdefault((count, messages // count), []).append(await fleet.drain(url, count, messages))
        shown = (f"{count} × {each:,} {found[-1]:,.0f} msg/s" for (count, each), found in rates.items())
        print(f"  round {number + 1}: {', '.join(shown)}")
    one = rates.pop((1, total))
    print(f"  drain, 1 database of {total:,}: {statistics.median(one):,.0f} msg/s (median), all acknowledged")
    for (count, each), found in rates.items():
        share = statistics.median(map(truediv, found, one))
        wanted = f" (≥ {fleet.WANTED}: {verdict(share >= fleet.WANTED)})" if each == total // count else ""
        print(
            f"  drain, {count} databases of {each:,}: {statistics.median(found):,.0f} msg/s, {share:.2f} of one{wanted}"
        )
    seconds = min(60.0, options.pickups * 0.3)
    _print_idle("SQLite", await fleet.idle_files(options.databases, seconds))
    _print_idle("PostgreSQL", await fleet.idle_databases(url, options.databases, seconds))
    alone, beside = await fleet.fairness(url, most, options.pickups, options.rounds)
    median, late = quantiles([wait * 1_000 for each in alone for wait in each])
    print(f"  {most - 1} light databases alone, pick-up p50 / p99 {median:,.0f} / {late:,.0f} ms")
    besides, later = quantiles([wait * 1_000 for each in beside for wait in each])
    kept = verdict(later <= 2 * late)
    print(f"  beside one that is full       p50 / p99 {besides:,.0f} / {later:,.0f} ms (p99 ≤ 2 × alone: {kept})")


def _print_idle(database: str, found: fleet.Idle) -> None:
    each = found.megabytes * 1_024 / found.databases
    queries = "" if found.queries is None else f", {found.queries:.0f} round trips"
    server = "" if found.server is None else f"; the server {found.server:.2f}"
    kept = verdict(
        found.connections <= fleet.MOST_OPEN and each <= fleet.MOST_KILOBYTES and found.cpu <= fleet.MOST_CPU
    )
    print(
        f"  {found.databases:,} idle, {database:<10} {found.looks:.0f} looks{queries} a second, "
        f"at most {found.connections} connections (≤ {fleet.MOST_OPEN}), {each:.0f} KB (≤ {fleet.MOST_KILOBYTES}), "
        f"{found.cpu:.2f} of a core (≤ {fleet.MOST_CPU}): {kept}{server}"
    )


def _share(ours: Sequence[brokers.Cost], theirs: Sequence[brokers.Cost]) -> float:
    return statistics.median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def _cost(found: Sequence[brokers.Cost]) -> str:
    rate, cpu = (statistics.median(column) for column in zip(*found, strict=True))
    return f"{rate:>7,.0f} msg/s, {cpu:>5.1f} µs"


def _columns(found: Sequence[Rates], plain: Sequence[Rates]) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    return zip(zip(*found, strict=True), zip(*plain, strict=True), strict=True)


async def _drop(url: str, schema: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.close()


SECTIONS: dict[str, tuple[str, Section]] = {
    "drain": ("Drain: claim, handle, settle", drains),
    "load": ("Under load", load),
    "idle": ("Idle pick-up", idle),
    "lateness": ("Due work: from due to start", on_time),
    "dispatch": ("Dispatch: the cost of injection", calls),
    "backlog": ("Claim with 1M future, 1M dead, 1M ready of another group, 1M ready on four levels", behind),
    "dashboard": ("The dashboard's queries, with 1M deliveries, 1M runs and 100k dead letters", operating),
    "options": ("Options of a consumer, beside a plain one", each_option),
    "handles": (
        "Publish in the caller's transaction, beside its raw statements and a minimal outbox by hand",
        joined,
    ),
    "fleet": ("Many databases, one worker", many_databases),
    "brokers": ("Routes and intakes, beside each broker's own client alone, and with tables by hand", beside_clients),
}


async def main(options: argparse.Namespace) -> None:
    """Run the selected parts on the same server."""
    with postgres() as url:
        connection = await asyncpg.connect(url)
        version = await connection.fetchval("SHOW server_version")
        await connection.close()
        print(f"Python {platform.python_version()}, PostgreSQL {version}, uvloop, {options.messages:,} messages")
        for name in options.only:
            title, section = SECTIONS[name]
            print(f"\n{title}")
            await section(url, options)


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SECTIONS))
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pickups", type=int, default=200)
    parser.add_argument("--claims", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--databases", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    unknown = set(options.only) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose from {', '.join(SECTIONS)}")
    return options


if __name__ == "__main__":
    arguments = parse()
    sys.exit(uvloop.run(main(arguments)))
