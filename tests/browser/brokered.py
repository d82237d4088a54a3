"""A shop between brokers of every kind, as its workers report it: nothing connects, and no worker runs."""

from datetime import UTC, datetime, timedelta

from mainspring import Mainspring
from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams
from mainspring.model.verdict import Bury, Failure
from mainspring.model.views import Beat, BrokerLink
from tests.contract.acting import claim, settle

RABBIT = "amqp://shop:s3cr3t-in-the-address@rabbitmq.shop.internal/"
KAFKA = "kafka-1.shop.internal:9092,kafka-2.shop.internal:9092"
REFUSED = "Redis at redis.shop.internal:6379 refused the connection"
UNROUTED = "RabbitMQ rejected it: no queue is bound for 'orders.cancelled' at the exchange shop"


def between_brokers(url: str = "memory://") -> Mainspring:
    """The code of the shop: routes out, and intakes in."""
    app = Mainspring(url, name="shop")
    app.route("orders.*", to=RabbitMQ(RABBIT, exchange="shop"))
    app.route("parcels.packed", "parcels.shipped", to=Kafka(KAFKA, topic="parcels"), group="kafka:parcels")
    app.route("prices.#", to=RedisStreams("redis://:s3cr3t@redis.shop.internal:6379/0", stream="{topic}"))
    app.route("reports.made", to=Nats("nats://nats.shop.internal:4222", subject="shop.{topic}"))
    app.intake(Kafka(KAFKA, topics=["payments", "refunds"], group_id="shop"), {"payments": "payments.received"})

    @app.consumer("returns.announced", source=RabbitMQ(RABBIT, queue="returns"))
    async def take_back(parcel: dict[str, int]) -> None: ...

    return app


async def report(app: Mainspring) -> None:
    """Let two workers report what a busy day looks like, with one broker that is away."""
    storage = await app._connection.storage("the scene")
    storage.now = datetime.now(UTC) - timedelta(seconds=190)
    await app.declare()
    for number in range(214):
        await app.publish("prices.changed", {"item": number})
    for number in range(3):
        await app.publish("orders.cancelled", {"order": number})
    for each in await claim(storage, "rabbitmq:orders.*"):
        await settle(storage, each, Bury(Failure("rejected", UNROUTED)))
    storage.now = None
    groups = tuple(each.group for each in await app.brokers.list())
    for number, worker in enumerate(("worker-7d9f", "worker-b2c4")):
        links = (
            BrokerLink(
                "rabbitmq:orders.*", "out", connected=True, counts={"sent": 41_207 - 900 * number, "rejected": 3}
            ),
            BrokerLink(
                "kafka:parcels", "out", connected=True, counts={"sent": 18_442 + number, "later": 12, "reconnected": 1}
            ),
            BrokerLink(
                "redis:prices.#",
                "out",
                connected=False,
                error=REFUSED,
                down_for=187.4 - number,
                counts={"sent": 9_310, "later": 41},
            ),
            BrokerLink("nats:reports.made", "out", connected=False),
            BrokerLink(
                "rabbitmq:returns", "in", connected=True, lag=0, counts={"received": 812, "stored": 809, "repeat": 3}
            ),
            BrokerLink(
                "kafka:shop:payments,refunds",
                "in",
                connected=number == 0,
                lag=1_482 if number == 0 else None,
                counts={"received": 27_118, "stored": 27_101, "repeat": 17, "reconnected": 2},
            ),
        )
        await storage.upkeep.beat(Beat(f"shop/{worker}", "shop", worker, 7, groups, 0, "notify", links=links))
