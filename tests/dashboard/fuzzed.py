"""A shop that is served until its input ends: a process of its own, for what draws requests watches all randomness."""

import asyncio
import json
import sys

from tests.dashboard.scene import at_work, opened
from tests.dashboard.served import served


async def main() -> None:
    url, schema = sys.argv[1:]
    async with (
        opened(url, schema=schema, trust_proxy=True, dead=20, waiting=20) as scene,
        at_work(scene),
        served(scene.dashboard) as address,
    ):
        print(json.dumps({"url": address, "ids": [*scene.dead, *scene.waiting]}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
