"""A publisher on a disk that fills up: `python -m tests.faults.filler PLAN LEDGER`.

The disk is full when a file would pass the limit of this process; it has space again when the limit is raised.
"""

import asyncio
import resource
import sys
from pathlib import Path
from uuid import uuid4

from mainspring import Mainspring
from tests.faults.ledger import Ledger
from tests.faults.plan import TOPIC, Plan, read_plan

_ENOUGH = 2_000
_AFTERWARDS = 20
_PADDING = {"padding": "x" * 4_000}


async def main(plan: Plan, ledger: Ledger) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with Mainspring(plan.url, name="clients", schema=plan.schema) as app:
        assert plan.file_limit is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (plan.file_limit, hard))
        n = 0
        while n < _ENOUGH and (error := await publish(app, ledger, n)) is None:
            n += 1
        print(f"full after {n}: {type(error).__name__}: {error}", flush=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        for later in range(n + 1, n + 1 + _AFTERWARDS):
            if (error := await publish(app, ledger, later)) is not None:
                raise error
        print("space again", flush=True)


async def publish(app: Mainspring, ledger: Ledger, n: int) -> Exception | None:
    id = uuid4()
    ledger.note("invoked", [id])
    try:
        await app.publish(TOPIC, {"n": n}, message_id=id, headers=_PADDING)
    except Exception as error:
        ledger.note("unknown", [id])
        return error
    ledger.note("ok", [id])
    return None


if __name__ == "__main__":
    # The ledger is on the same disk: its file is small enough to stay below the limit.
    asyncio.run(main(read_plan(sys.argv[1]), Ledger(Path(sys.argv[2]))))
