"""One of two services with a broker between them: `python -m tests.faults.relaying [ROLE, URL, SCHEMA, BROKER, BUG]`.

The shop relays what is published; billing reads it, and writes an effect for each message, in its own transaction. With
a bug, messages count as sent before the broker has them, or are acknowledged before they are stored.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mainspring import Context, Mainspring
from mainspring.brokers import Broker
from mainspring.brokers.contract import SENT, BrokerConnection, Received, SendResult, WireMessage

TOPIC = "orders.placed"
IN_HAND = 20
"""How many messages one process of the shop has in hand at most."""
CLAIM_TIME = "2s"
DELAY = 0.5
"""Seconds by which a bug is too early."""


def broker(spec: tuple[str, str, list[Any], dict[str, Any]]) -> Broker:
    """The broker that was described: its module, class and arguments."""
    module, name, args, options = spec
    made: Broker = getattr(import_module(module), name)(*args, **options)
    return made


def shop(url: str, schema: str, to: Broker) -> Mainspring:
    app = Mainspring(url, name="shop", schema=schema, claim_time=CLAIM_TIME, grace="1s")
    app.route(TOPIC, to=to, group="broker", batch=IN_HAND, linger="1ms", concurrency=1)
    return app


def billing(url: str, schema: str, source: Broker) -> Mainspring:
    app = Mainspring(url, name="billing", schema=schema, claim_time=CLAIM_TIME, grace="1s")

    @app.consumer(TOPIC, source=source, transactional=True, concurrency=4, retry="messages")
    async def bill(order: int, ctx: Context) -> None:
        await ctx.tx.execute("INSERT INTO effect (number) VALUES (?)", (order,))

    return app


def hasty(made: Broker) -> Broker:
    """The same broker with both bugs: the shop only sends, and billing only reads."""
    connect = made.connect

    async def connected() -> BrokerConnection:
        connection = await connect()
        send, receive = connection.send, connection.receive
        tasks: set[asyncio.Task[object]] = set()

        async def send_later(messages: Sequence[WireMessage], within: float) -> None:
            await asyncio.sleep(DELAY)
            await send(messages, within)

        async def unconfirmed(messages: Sequence[WireMessage], within: float) -> list[SendResult]:
            tasks.add(asyncio.create_task(send_later(messages, within)))
            return [SENT] * len(messages)

        async def acknowledged(limit: int, wait: float) -> list[Received]:
            found = await receive(limit, wait)
            if found:
                await connection.ack(found)
                await asyncio.sleep(DELAY)
            return found

        vars(connection).update(send=unconfirmed, receive=acknowledged)
        return connection

    object.__setattr__(made, "connect", connected)
    return made


def main(role: str, url: str, schema: str, spec: tuple[str, str, list[Any], dict[str, Any]], bug: bool) -> None:
    made = hasty(broker(spec)) if bug else broker(spec)
    (shop if role == "shop" else billing)(url, schema, made).run()


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
