"""One of two services with a broker between them: `python -m tests.faults.relaying [ROLE, URL, SCHEMA, BROKER, BUG]`.

The shop relays what is published; billing reads it, and writes an effect for each message, in its own transaction. With
a bug, messages count as sent before the broker has them, or are acknowledged before they are stored.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mainspring import Context, Mainspring
from mainspring.brokers import Broker
from mainspring.brokers.contract import SENT, BrokerConnection, Received, SendResult, WireMessage

Spec = tuple[str, str, list[Any], dict[str, Any]]
"""A broker as text: its module, class and arguments."""
TOPIC = "orders.placed"
IN_HAND = 20
"""How many messages one process of the shop has in hand at most."""
DEADLY = -1
"""An order that ends the process of its consumer."""
COUNTS = "counts:"
"""What begins the last line of a process of billing."""
CLAIM_TIME = "2s"
DELAY = 0.5
"""Seconds by which a bug is too early."""


def broker(spec: Spec) -> Broker:
    """The broker that was described."""
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
        if order == DEADLY:
            os._exit(1)
        await ctx.tx.execute(f"INSERT INTO effect (number) VALUES ({order:d})")

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


def main(role: str, url: str, schema: str, spec: Spec, bug: bool) -> None:
    made = hasty(broker(spec)) if bug else broker(spec)
    if role == "shop":
        shop(url, schema, made).run()
    else:
        asyncio.run(read(billing(url, schema, made)))


async def read(app: Mainspring) -> None:
    """Work until SIGTERM, and then say what was counted."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with app.worker() as worker:
        await stopped.wait()
    ((_, link),) = worker.links()
    print(COUNTS, json.dumps(link.counts), flush=True)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
