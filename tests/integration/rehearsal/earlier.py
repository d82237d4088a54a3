"""What the earlier release does in the rehearsal, under the names it had: run with its source on PYTHONPATH.

``write`` fills a database with something of everything, and prints what it reads there. ``charge`` is a worker that
is killed while it handles a card. ``work`` is a worker beside one of the present release, until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import mainspring
from mainspring import unique
from tests.integration.rehearsal.shop import Order, Shop, Ticket, everything, shop

HEADERS = {"tenant": "acme", "naïve": "ça va"}
HANDLED = ["mail", "books", "support", "ledger", "labels", "fax", "resize", "report", "load", "plan:etl:payments"]
"""The groups that a worker of the earlier release serves before the upgrade."""


async def write(url: str, options: dict[str, Any]) -> None:
    """Write the database, print what is in it, and end as a process that is killed: nothing is released."""
    there = shop(fail, url, **options)
    app = there.app
    await app.migrate()
    await app.declare()
    await app.__aenter__()
    await ended(there)
    await killed(url, options)
    await begun(there)
    await waiting(there)
    await coordinated(app)
    await staging(url, options)
    await steered(there)
    await until(partial(lapsed, app))
    read = await everything(app, app.messages.show, held="running")
    print(json.dumps({"from": mainspring.__file__, "read": read}), flush=True)
    os._exit(0)


async def fail(group: str, payload: Any, ctx: Any) -> None:
    """Succeed, or fail as the payload asks."""
    match payload:
        case Order(note="fail") | "torn" | "globex" | -1:
            raise ValueError(f"{group} cannot handle {payload!r}")
        case 41:
            await ctx.publish("orders.billed", {"number": 41})


async def ended(there: Shop) -> None:
    """What a worker has handled: done, retrying, dead, with a breaker that has tripped, slices of a fan-out."""
    app = there.app
    await app.publish(Order(1), correlation_id="done")
    await app.publish(Order(2, "fail"), headers=HEADERS, correlation_id="retrying")
    await app.publish("labels.printed", "torn", key="label:1", headers=HEADERS)
    await app.publish("labels.printed", "torn", key="label:2")
    await app.publish("payments.made", 41, key="account:1", correlation_id="cause")
    await app.publish_many([("faxes.sent", -1), ("faxes.sent", -1), ("faxes.sent", 3)])
    async with app.worker(groups=[*HANDLED]):
        await app.schedules.trigger("report", payload="by hand")
        planned = await app.fanouts.run("etl", "payments")
        assert planned.published == 3
        await until(lambda: counted(app, done=8, retrying=4, dead=2))
    discarded = (await app.dead.list(limit=1))[0]
    await app.dead.discard(discarded.message_id, by="ann")


async def counted(app: Any, **counts: int) -> bool:
    found = {state: len(await app.messages.list(state, limit=500)) for state in counts}

    return found == counts


async def lapsed(app: Any) -> bool:
    """Whether all claims and the lease of the killed worker have lapsed."""
    claims = [each.lapsed for each in await app.messages.list("running")]
    return claims == [True, True] and (await app.leases.get("expired")).state == "expired"


async def killed(url: str, options: dict[str, Any]) -> None:
    """A worker that dies over a card."""
    arguments = [sys.executable, "-m", __spec__.name, "charge", url, json.dumps(options)]
    worker = await asyncio.create_subprocess_exec(*arguments)
    assert await worker.wait() == -signal.SIGKILL


async def charge(url: str, options: dict[str, Any]) -> None:
    """Be killed once the progress of the handler is stored."""

    async def die(_group: str, _card: Any, ctx: Any) -> None:
        ctx.progress("half")
        await until(progress)
        os.kill(os.getpid(), signal.SIGKILL)

    async def progress() -> bool:
        return [each.progress for each in await there.app.messages.list("running", group="charge")] == ["half"]

    there = shop(die, url, **options)
    async with there.app.worker(groups=["charge"], name="unlucky"):
        await there.app.leases.acquire("expired", ttl="2s")
        await there.app.publish("cards.charged", "4711", key="card:1", headers=HEADERS)
        await asyncio.Event().wait()


async def begun(there: Shop) -> None:
    """What is half done: a join with one member left, and items of a queue."""
    app = there.app
    members = [(there.resize, 1), (there.resize, 2)]
    await app.join(members, then=(there.album, "Summer"), key="album:1", correlation_id="album")
    await there.resize.send(3, then=(there.album, "Autumn"), headers=HEADERS)
    await app.publish_many([("parcels.packed", number) for number in (1, 2, 3)])
    done, _held = await there.parcels.claim(2, hold="2s", owner="packer")
    assert (await there.parcels.ack(done)).settled


async def waiting(there: Shop) -> None:
    """What no worker has begun."""
    app = there.app
    await app.publish(Order(10), headers=HEADERS, correlation_id="c-10")
    await app.publish(Order(11, "später"), delay="1h", key="order:11", expires="2h")
    await app.publish(Order(12), priority="urgent", message_id=UUID(int=12))
    await app.publish(Order(13), key="order:13", unique=unique(scope="1h"))
    await app.publish(Ticket("torn"), key="ticket:1")
    for amount in (1, 2, 3):
        await app.publish("payments.made", amount, key="account:1")
    await app.publish("returns.arrived", 5, headers=HEADERS, key="return:5")
    await app.publish(Order(14), key="order:14")
    await app.cancel("orders.placed", key="order:14", reason="sold out")


async def coordinated(app: Any) -> None:
    """An inbox with every status, and leases that are held, expired and free."""
    for number in range(1, 6):
        await app.inbox.admit(f"evt_{number}", "bank", hash=f"hash {number}")
    await app.inbox.admit("evt_1", "bank", hash="another")
    await app.inbox.done("evt_2", "bank", attempt=1)
    await app.inbox.failed("evt_3", "bank", "timeout", attempt=1)
    await app.inbox.dead("evt_4", "bank", "unknown account", attempt=1)
    await app.leases.acquire("held", ttl="1h")
    await (await app.leases.acquire("free")).release()


async def staging(url: str, options: dict[str, Any]) -> None:
    """Another namespace: in this release a prefix of names, in the same tables."""
    other = shop(fail, url, namespace="staging", **options).app
    await other.declare()
    async with other:
        await other.publish(Order(20), headers=HEADERS)
        await other.publish("returns.arrived", 21)


async def steered(there: Shop) -> None:
    """What operators have set."""
    app, soon = there.app, datetime.now(UTC) + timedelta(seconds=3)
    await app.groups.pause("books", by="ann", reason="audit")
    await app.schedules.pause("cleanup", by="ann", reason="holidays")
    await app.schedules.alter("report", "30 6 * * *", timezone="Europe/Paris", by="ann")
    await app.schedules.put("digest", "0 8 * * mon", there.album, "weekly", jitter="10m", by="ann")
    await app.schedules.once("reminder", soon, there.album, "reminder", by="ann")
    await app.schedules.freeze(app="warehouse", reason="stocktaking", by="ann")
    await app.fanouts.edit("etl", "payments", "initech", every="60d", by="ann")
    await app.workers.drain("unlucky", by="ann", reason="it hangs")


async def work(url: str, options: dict[str, Any]) -> None:
    """Work beside the present release until the input ends; each line printed is one handled, or one published."""

    async def handle(group: str, payload: Any, ctx: Any) -> None:
        say("handled", group, str(ctx.message_id), time.monotonic(), payload if isinstance(payload, int) else None)

    app = shop(handle, url, **options).app
    await app.migrate()
    async with app.worker():
        await app.leases.acquire("shared", ttl="1h")
        say("ready", mainspring.__file__)
        while await asyncio.to_thread(sys.stdin.readline):
            for receipt in await app.publish_many([Order(number) for number in range(10)]):
                say("published", str(receipt.id))


def say(*words: object) -> None:
    print(json.dumps(words), flush=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run({"write": write, "charge": charge, "work": work}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3])))
