"""A worker process of the fault tests: `python -m tests.faults.worker PLAN`, run by the library's own `run`."""

import asyncio
import ctypes
import logging
import os
import sys
import time

from mainspring import Context, Done, Mainspring
from tests.faults.ledger import Effects
from tests.faults.plan import TOPIC, Job, Plan, read_plan

_STEP = 0.02


def build(plan: Plan) -> Mainspring:
    """The app under test, as a user would write it."""
    app = Mainspring(
        plan.url,
        name=plan.app,
        version=plan.version,
        schema=plan.schema,
        auto_migrate=True,
        claim_time=f"{plan.claim_time}s",
        grace=f"{plan.grace}s",
        idle_poll=f"{plan.idle_poll}s",
        keep="all",
    )
    effects = Effects(plan.effects)

    @app.consumer(TOPIC, group=plan.group, concurrency=plan.concurrency, retry=plan.retry, timeout=f"{plan.timeout}s")
    async def work(job: Job, ctx: Context) -> Done:
        # The output is kept with the run: it tells which execution's verdict the database accepted.
        said = Done(f"{ctx.fence}:{os.getpid()}")
        if plan.bug == "early":
            from tests.faults import seeded

            seeded.later(perform(effects, plan, job, ctx))
            return said
        await perform(effects, plan, job, ctx)
        return said

    if plan.schedules:
        from tests.faults import recurring

        recurring.declare(app, plan, effects)
    if plan.joins:
        from tests.faults import joining

        joining.declare(app, effects)
    if plan.limits:
        from tests.faults import limiting

        limiting.declare(app, plan, effects)
    if plan.bank:
        from tests.faults import banking

        banking.declare(app, plan, effects)
    if plan.shards:
        from tests.faults import fanning

        fanning.declare(app, plan, effects)
    return app


async def perform(effects: Effects, plan: Plan, job: Job, ctx: Context) -> None:
    id, epoch = ctx.message_id, ctx.fence
    effects.begin(id, job.n, epoch, ctx.attempt)
    try:
        await _act(plan, job, first=epoch == 1)
    except asyncio.CancelledError:
        effects.end(id, epoch, "told")
        try:
            await asyncio.sleep(plan.tidying)
        except asyncio.CancelledError:
            effects.end(id, epoch, "told again")
        raise
    effects.end(id, epoch, "ok")


async def _act(plan: Plan, job: Job, *, first: bool) -> None:
    match job.act:
        case "nap":
            await asyncio.sleep(job.seconds if first or job.again is None else job.again)
        case "hold" if first:
            # It is over while the process is frozen, which then goes on to settle at once.
            while not plan.frozen.exists():
                await asyncio.sleep(_STEP)
        case "hang" if first:
            await asyncio.Event().wait()
        case "hold" | "hang":
            while not plan.gate.exists():
                await asyncio.sleep(_STEP)
        case "block":
            time.sleep(job.seconds)
        case "exit":
            await asyncio.sleep(job.seconds)
            os._exit(1)
        case "crash":
            await asyncio.sleep(job.seconds)
            ctypes.string_at(0)


def main(plan: Plan) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if plan.bug is not None:
        from tests.faults import seeded

        seeded.seed(plan)
    app = build(plan)
    if not plan.skew:
        app.run()
        return
    # Imported only by who needs it: hundreds of these processes are started, and it brings pytest along.
    import time_machine

    true = time.time()
    with time_machine.travel(true + plan.skew, tick=True):
        logging.getLogger("clock").info("the clock is wrong by %.0f s", time.time() - true)
        app.run()


if __name__ == "__main__":
    main(read_plan(sys.argv[1]))
