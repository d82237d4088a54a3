"""What roles are tried with: an operation for each row of the page about them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from mainspring import NO_RETRY, Mainspring, Slice, unique
from mainspring.model.errors import NotGranted
from mainspring.model.message import ALL_LEVELS, Cancelled, Claim, ClaimRequest
from mainspring.model.retention import CHORES, Retention
from mainspring.model.search import Filter
from mainspring.model.verdict import Done, Settlement
from mainspring.model.views import Beat, Declaration
from mainspring.storage.postgres import PostgresStorage

HOLD = timedelta(seconds=30)
WORKER = "host:1:0000000000000000"


class Shop:
    """An app with a queue, a consumer and a fan-out; it runs none of them by itself."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.app = app = Mainspring(url, name="shop", schema=schema)
        self.storage = PostgresStorage(url, schema=schema)
        self.jobs: Any = app.queue("jobs", "jobs", retry=NO_RETRY)
        app.queue("bounded", "bounded", pending_limit=1000)

        @app.consumer("orders")
        async def ship(order: int) -> None: ...

        @app.fanout("etl", "payments", every="1h")
        async def tenants() -> list[str]:
            return ["a"]

        @tenants.slices()
        async def load(each: Slice) -> None: ...

        self.ship: Any = ship


@dataclass
class Scene:
    """One role at its operations, and the owner of the tables, who prepares what is acted on."""

    schema: str
    shop: Shop
    owners: Shop
    serial: list[int]

    @property
    def app(self) -> Mainspring:
        return self.shop.app

    @property
    def storage(self) -> PostgresStorage:
        return self.shop.storage

    @property
    def owner(self) -> Mainspring:
        return self.owners.app

    def new(self, what: str) -> str:
        self.serial.append(0)
        return f"{what}-{len(self.serial)}"

    async def claimed(self) -> Claim:
        """A job that the owner has claimed."""
        await self.owner.publish("jobs", 1)
        (delivery, *_) = await self.owners.storage.mailbox.claim([ClaimRequest("jobs", 1, ALL_LEVELS)], WORKER, HOLD)
        return delivery.claim

    async def dead(self) -> UUID:
        receipt = await self.owner.publish("jobs", 1)
        await self.owners.jobs.fail(*await self.owners.jobs.claim(100), error="no")
        return receipt.id

    async def schedule(self) -> str:
        name = self.new("daily")
        await self.owner.schedules.put(name, "0 9 * * *", topic="orders", payload=1)
        return name

    async def worker(self) -> str:
        await self.owners.storage.upkeep.beat(
            Beat(WORKER, "shop", "host", 1, ("jobs",), 0, "poll", start_id="a", number=1)
        )
        return next(each.name for each in await self.owner.workers.list())

    async def each(self, *calls: Awaitable[Any]) -> None:
        """Await all of them; raise NotGranted unless all are allowed, and something else unless they agree."""
        denied: list[NotGranted] = []
        for call in calls:
            try:
                await call
            except NotGranted as error:
                denied.append(error)
        assert len(denied) in (0, len(calls)), denied
        if denied:
            raise denied[0]


Operation = Callable[[Scene], Awaitable[Any]]
OPERATIONS: dict[str, Operation] = {}


def row(name: str) -> Callable[[Operation], Operation]:
    def register(operation: Operation) -> Operation:
        OPERATIONS[name] = operation
        return operation

    return register


@row("publish, with or without a delay")
async def publish(scene: Scene) -> None:
    assert (await scene.app.publish("orders", 1, key="a")).status == "stored"
    await scene.app.publish_many([("orders", number) for number in range(3)], delay="1h")
    await scene.app.publish("parked", 1)
    await scene.app.publish("bounded", 1)


@row("publish the same id again")
async def publish_again(scene: Scene) -> None:
    first = await scene.app.publish("orders", 1)
    assert (await scene.app.publish("orders", 1, message_id=first.id)).id == first.id


@row("publish with `unique=`")
async def publish_unique(scene: Scene) -> None:
    key = scene.new("key")
    await scene.app.publish("orders", 1, key=key, unique="key")
    assert (await scene.app.publish("orders", 1, key=key, unique="key")).status == "duplicate"
    replaced = await scene.app.publish("orders", 1, key=key, unique=unique("key", keep="last"))
    assert replaced.status == "replaced"


@row("publish in a caller's transaction")
async def publish_in_transaction(scene: Scene) -> None:
    client = await asyncpg.connect(scene.shop.url)
    try:
        async with client.transaction():
            await scene.app.publish("orders", 1, tx=client)
    finally:
        await client.close()


@row("`SELECT mainspring.publish(…)`")
async def publish_from_sql(scene: Scene) -> None:
    client = await asyncpg.connect(scene.shop.url)
    try:
        await client.execute(f"SELECT {scene.schema}.publish('orders', '1')")
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotGranted(str(error)) from error
    finally:
        await client.close()


@row("publish a join")
async def join(scene: Scene) -> None:
    await scene.app.join([(scene.shop.ship, 1), (scene.shop.ship, 2)], then=(scene.shop.ship, 3))


@row("`app.cancel`")
async def cancel(scene: Scene) -> None:
    key = scene.new("key")
    await scene.owner.publish("orders", 1, key=key)
    joined = await scene.owner.join([(scene.owners.ship, 1)], then=(scene.owners.ship, 3))
    assert await scene.app.cancel("orders", key=key) == Cancelled(1, 0)
    assert await scene.app.cancel(joined.members[0]) == Cancelled(1, 0)


@row("declare groups and schedules")
async def declare(scene: Scene) -> None:
    name = scene.new("group")
    await scene.storage.upkeep.declare([Declaration(name, "shop", (name,), "shop.handler")])


@row("claim, extend and settle")
async def claim(scene: Scene) -> None:
    await scene.owner.publish("jobs", 1)
    (delivery, *_) = await scene.storage.mailbox.claim([ClaimRequest("jobs", 1, ALL_LEVELS)], WORKER, HOLD)
    await scene.storage.mailbox.extend([delivery.claim], WORKER, HOLD)
    await scene.storage.mailbox.settle([Settlement(delivery.claim, Done())], WORKER)


@row("report a worker's heartbeat")
async def beat(scene: Scene) -> None:
    await scene.storage.upkeep.beat(Beat(WORKER, "shop", "host", 1, ("jobs",), 0, "poll", start_id="b", number=1))


@row("hold a lease")
async def lease(scene: Scene) -> None:
    async with scene.app.leases.hold(scene.new("lease"), "30s"):
        pass


@row("admit to the inbox")
async def admit(scene: Scene) -> None:
    assert (await scene.app.inbox.admit(scene.new("m"), "bank", group="jobs")).admitted


@row("prune as a worker does")
async def prune(scene: Scene) -> None:
    for chore in CHORES:
        await scene.storage.upkeep.prune(Retention(), 10, None, chore)


@row("list, search and read messages and payloads")
async def read_messages(scene: Scene) -> None:
    receipt = await scene.owner.publish("orders", 1)
    messages = scene.app.messages
    await scene.each(
        messages.list("ready"),
        messages.search(text="1"),
        messages.get(receipt.id),
        messages.chain(receipt.id),
        messages.runs(),
        messages.failures(),
    )


@row("list dead letters, groups, workers, schedules and joins")
async def read_lists(scene: Scene) -> None:
    app = scene.app
    await scene.each(
        app.dead.list(),
        app.dead.causes(),
        app.groups.list(),
        app.workers.list(),
        app.schedules.list(),
        app.joins.list(),
        app.fanouts.list(),
    )


@row("list the inbox, leases and the audit log")
async def read_more(scene: Scene) -> None:
    await scene.each(scene.app.inbox.list(), scene.app.leases.list(), scene.app.audit())


@row("statistics")
async def stats(scene: Scene) -> None:
    found = scene.app.stats
    await scene.each(found.tally(), found.roster(), found.measures(), found.rates())


@row("pause and resume a group")
async def pause(scene: Scene) -> None:
    await scene.owner.groups.pause("ship")
    await scene.each(scene.app.groups.pause("jobs"), scene.app.groups.resume("ship"), scene.app.groups.resume("jobs"))
    await scene.owner.groups.resume("ship")


@row("release the claims of a group")
async def release(scene: Scene) -> None:
    await scene.claimed()
    await scene.app.groups.release("jobs")


@row("retire a group")
async def retire(scene: Scene) -> None:
    queue: Any = scene.owner.queue(scene.new("spare"), "spare")
    await queue.declare()
    await scene.owner.publish("spare", 1)
    assert await scene.app.groups.retire(queue.group) >= 1


@row("revive and discard dead letters")
async def revive(scene: Scene) -> None:
    first, second = await scene.dead(), await scene.dead()
    await scene.each(scene.app.dead.revive(first), scene.app.dead.discard(second))


@row("cancel, run now and publish as an operator")
async def operate_messages(scene: Scene) -> None:
    first, second = [await scene.owner.publish("orders", 1, delay="1h") for _ in range(2)]
    messages = scene.app.messages
    await scene.each(
        messages.apply("run_now", Filter("scheduled", group="ship")),
        messages.cancel([(second.id, "ship")]),
        messages.publish("orders", 5, by="ann"),
    )
    await messages.cancel(first.id)


@row("put, alter, pause, trigger and delete schedules")
async def schedules(scene: Scene) -> None:
    name, paused, schedules = await scene.schedule(), await scene.schedule(), scene.app.schedules
    await scene.owner.schedules.pause(paused)
    await scene.each(
        schedules.put(scene.new("weekly"), "0 9 * * 1", topic="orders", payload=1),
        schedules.alter(name, "0 10 * * *"),
        schedules.trigger(name),
        schedules.pause(name),
        schedules.resume(paused),
        schedules.delete(name),
    )


@row("freeze and thaw schedules")
async def freeze(scene: Scene) -> None:
    await scene.owner.schedules.freeze()
    await scene.each(scene.app.schedules.thaw(), scene.app.schedules.freeze())
    await scene.owner.schedules.thaw()


@row("drain and resume a worker")
async def drain(scene: Scene) -> None:
    name, workers = await scene.worker(), scene.app.workers
    await scene.each(workers.drain(name), workers.resume(name))


@row("release a lease or an inbox message of another process")
async def release_others(scene: Scene) -> None:
    name, message = scene.new("lease"), scene.new("m")
    assert await scene.owner.leases.acquire(name, "30s") is not None
    await scene.owner.inbox.admit(message, "bank", group="jobs")
    await scene.each(scene.app.leases.release(name), scene.app.inbox.release(message, "bank", group="jobs"))


@row("edit and reset a fan-out")
async def fanout(scene: Scene) -> None:
    fanouts = scene.app.fanouts
    await scene.each(fanouts.edit("etl", "payments", every="2h"), fanouts.reset("etl", "payments"))


@row("write to the audit log")
async def note(scene: Scene) -> None:
    await scene.app.note("looked", "jobs", by="ann")


@row("`mainspring migrate`")
async def migrate(scene: Scene) -> None:
    client = await asyncpg.connect(scene.owners.url)
    await client.execute(f"DROP FUNCTION {scene.schema}.searchable(bytea)")
    await client.close()
    try:
        assert await scene.storage.schema.migrate() == [f"function {scene.schema}.searchable"]
    finally:
        await scene.owners.storage.schema.migrate()
