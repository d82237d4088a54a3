"""A worker process that outlives its database: `python -m tests.faults.survivor PLAN`.

What a handler returns is the id of its message, and is kept with the run: a run that has another id was settled by a
verdict on something else.
"""

import asyncio
import logging
import sys
from pathlib import Path

from mainspring import Context, Done, Mainspring, exponential
from tests.faults.ledger import Effects
from tests.faults.plan import TOPIC, Job, Plan, read_plan

_STEP = 0.02


def build(plan: Plan) -> Mainspring:
    app = Mainspring(
        plan.url,
        name=plan.app,
        schema=plan.schema,
        auto_migrate=True,
        claim_time=f"{plan.claim_time}s",
        idle_poll=f"{plan.idle_poll}s",
        keep="all",
    )
    effects = Effects(plan.effects)

    @app.consumer(TOPIC, group=plan.group, concurrency=plan.concurrency, retry=exponential("20ms", attempts=10))
    async def work(job: Job, ctx: Context) -> Done:
        effects.begin(ctx.message_id, job.n, ctx.fence, ctx.attempt)
        if job.act == "hold":
            # In hand when the database is lost, and over before another has taken its place.
            await _there(plan.frozen)
        elif job.act == "hang" and ctx.attempt == 1:
            await _there(plan.gate)
            effects.end(ctx.message_id, ctx.fence, "failed")
            raise RuntimeError("its first attempt fails: who settled it before has lost it")
        effects.end(ctx.message_id, ctx.fence, "ok")
        return Done(str(ctx.message_id))

    return app


async def _there(sign: Path) -> None:
    while not sign.exists():
        await asyncio.sleep(_STEP)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    build(read_plan(sys.argv[1])).run()
