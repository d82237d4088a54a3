"""Counters never go back while a process lives, and a forked child begins at nothing."""

import subprocess
import sys

from mainspring import Mainspring
from tests.integration.app.measuring import of, scraped, until_measured


async def test_the_turns_of_loops_never_go_back_when_workers_leave() -> None:
    app = Mainspring("memory://")

    @app.consumer("work")
    async def work(number: int) -> None: ...

    async with app:
        async with app.worker(name="first"), app.worker(name="second"):
            await app.publish("work", 1)
            await until_measured(app, 1)
            there = of(scraped(await app.metrics()), "mainspring_loop_turns_total")
        gone = scraped(await app.metrics())
        async with app.worker(name="third"):
            again = of(scraped(await app.metrics()), "mainspring_loop_turns_total")

    left = of(gone, "mainspring_loop_turns_total")
    assert min(there["settler"], there["fetcher"]) > 0
    assert all(there[loop] <= left[loop] <= again[loop] for loop in there)
    assert set(there) == set(left) == set(again) == set(of(gone, "mainspring_loop_failures_total"))
    assert of(gone, "mainspring_in_hand") == {"": 0}


_FORKING = """
import asyncio, os
from mainspring import Mainspring
from tests.integration.app.measuring import of, scraped, until_measured

app = Mainspring("memory://")

@app.consumer("work")
async def work(number: int) -> None: ...

async def main(all_in_all: int) -> None:
    async with app.worker():
        await app.publish("work", 1)
        await until_measured(app, all_in_all)

def told(who: str) -> None:
    numbers = scraped(asyncio.run(tell()))
    published, settled = (of(numbers, f"mainspring_{name}_total") for name in ("published", "settled"))
    turned, ran = of(numbers, "mainspring_loop_turns_total"), of(numbers, "mainspring_run_seconds_count")
    print(who, *(sum(each.values()) > 0 for each in (published, settled, turned, ran)), flush=True)

async def tell() -> str:
    async with app:
        return await app.metrics()

asyncio.run(main(1))
if (child := os.fork()) == 0:
    told("child")
    asyncio.run(main(2))  # what is stored in memory was copied with it
    told("at work")
    os._exit(0)
os.waitpid(child, 0)
told("parent")
"""


def test_a_forked_child_counts_from_nothing() -> None:
    said = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True, check=False)

    assert said.stderr == ""
    assert said.stdout.splitlines() == [
        "child False False False False",
        "at work True True True True",
        "parent True True True True",
    ]
