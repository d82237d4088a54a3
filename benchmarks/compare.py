"""Compare this checkout with another: ``python -m benchmarks.compare OTHER [--rounds 5] [--messages 10000]``.

OTHER is a checkout of another commit. Each figure is taken from both in turn, each time in a new process, and shown as
medians and their ratio. Both use the installed dependencies and the same PostgreSQL.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.server import postgres

HERE = Path(__file__).resolve().parent.parent
UNITS = {
    "publish, CPU": "µs/message",
    "publish, database CPU": "µs/message",
    "publish, WAL": "bytes/message",
    "publish, round trips": "per 1,000",
    "drain, CPU": "µs/message",
    "drain, database CPU": "µs/message",
    "drain, WAL": "bytes/message",
    "drain, round trips": "per 1,000",
    "idle pick-up": "ms",
    "start to first claim": "ms",
    "import": "ms",
}

# Runs in both checkouts, so it uses only what both have: the public API, and the driver.
PROGRAM = '''
import asyncio, json, os, resource, statistics, subprocess, sys, time
import asyncpg
from mainspring import Mainspring

url, schema, messages = sys.argv[1], sys.argv[2], int(sys.argv[3])
trips = 0

def count(original):
    async def call(self, *args, **kwargs):
        global trips
        trips += 1
        return await original(self, *args, **kwargs)
    return call

for kind in ("fetch", "fetchrow", "fetchval", "execute", "executemany"):
    setattr(asyncpg.Connection, kind, count(getattr(asyncpg.Connection, kind)))

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def server_cpu(postmaster):
    """Seconds of the postmaster, its children, and those of them that have ended."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(pid) == postmaster:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            total += int(fields[11]) + int(fields[12])
    return total / tick

async def main():
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    stats = getattr(app, "stats", app)  # earlier commits have these calls on the app itself
    handled, wanted, done, at = 0, messages, asyncio.Event(), 0.0

    @app.consumer("bench.noop", concurrency=1000)
    async def noop(_: dict) -> None:
        nonlocal handled, at
        handled += 1
        at = time.perf_counter()
        if handled >= wanted:
            done.set()

    watch = await asyncpg.connect(url)
    postmaster = int(open(await watch.fetchval("SHOW data_directory") + "/postmaster.pid").readline())
    lsn = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
    result = {}

    async def begin():
        return cpu(), server_cpu(postmaster), await watch.fetchval(lsn), trips

    async def end(name, begun):
        after = cpu(), server_cpu(postmaster), await watch.fetchval(lsn), trips
        own, server, wal, sent = (b - a for a, b in zip(begun, after))
        result[f"{name}, CPU"] = own / messages * 1e6
        result[f"{name}, database CPU"] = server / messages * 1e6
        result[f"{name}, WAL"] = wal / messages
        result[f"{name}, round trips"] = sent / messages * 1000

    async with app:
        await app.migrate()
        await app.declare()
        await watch.execute("CHECKPOINT")
        begun = await begin()
        await app.publish_many(("bench.noop", {"text": "x" * 190}) for _ in range(messages))
        await end("publish", begun)
        await watch.execute(f"VACUUM ANALYZE {schema}.delivery")
        await watch.execute(f"ANALYZE {schema}.message")
        await watch.execute("CHECKPOINT")
        begun, started = await begin(), time.perf_counter()
        async with app.worker():
            while not handled:
                await asyncio.sleep(0)
            result["start to first claim"] = (time.perf_counter() - started) * 1e3
            await done.wait()
            while any(each.ready + each.running for each in (await stats.tally()).groups):
                await asyncio.sleep(0.005)
            await end("drain", begun)
            waits = []
            for _ in range(20):
                done.clear()
                wanted = handled + 1
                await asyncio.sleep(0.05)
                sent = time.perf_counter()
                await app.publish("bench.noop", {"text": "x"})
                await done.wait()
                waits.append((at - sent) * 1e3)
            result["idle pick-up"] = statistics.median(waits)
    await watch.execute(f"DROP SCHEMA {schema} CASCADE")
    await watch.close()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "from mainspring import Mainspring"], check=True)
        times.append((time.perf_counter() - started) * 1e3)
    result["import"] = min(times)
    print(json.dumps(result))

asyncio.run(main())
'''


def measure(checkout: Path, url: str, schema: str, messages: int) -> dict[str, float]:
    """Return the figures of one checkout, from a process of its own."""
    command = [sys.executable, "-c", PROGRAM, url, schema, str(messages)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both in turn, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="This checkout beside another.")
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured [5]")
    parser.add_argument("--messages", type=int, default=10_000, help="messages of one measurement [10000]")
    options = parser.parse_args(arguments)
    found: dict[str, list[dict[str, float]]] = {"other": [], "this": []}
    for checkout in (options.other, HERE):
        compileall.compile_dir(checkout / "src", quiet=1)
    with postgres() as url:
        for number in range(options.rounds + 1):  # the first one warms up and does not count
            # In turns also as to which is first: what one leaves behind, such as a vacuum, falls to the next.
            pair = [("other", options.other), ("this", HERE)]
            for name, checkout in pair if number % 2 else reversed(pair):
                figures = measure(checkout, url, f"bench_{name}_{number}", options.messages)
                if number:
                    found[name].append(figures)
    print(f"{'':26}{'other':>12}{'this':>12}{'ratio':>8}")
    for key, unit in UNITS.items():
        before, after = (statistics.median(each[key] for each in found[name]) for name in ("other", "this"))
        print(f"{key:26}{before:>12,.1f}{after:>12,.1f}{after / before:>8.3f}   {unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
