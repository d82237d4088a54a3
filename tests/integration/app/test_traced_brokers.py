"""Traces across a broker: sending and receiving are beside the handler in the publisher's trace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from mainspring import Mainspring
from mainspring.brokers.contract import Received
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from tests.integration.app.tracing import Spans, context_of, events_of, parent_of, told

TOPIC = "orders.placed"


@pytest.fixture
def queues() -> MemoryQueues:
    return MemoryQueues({"billing": [TOPIC]})


@asynccontextmanager
async def billing(queues: MemoryQueues) -> AsyncIterator[None]:
    app = Mainspring("memory://", name="billing")

    @app.consumer(TOPIC, source=MemoryBroker(queues, read="billing"))
    async def bill(order: str) -> None: ...

    async with app.worker():
        yield


async def test_one_trace_has_the_request_what_went_to_the_broker_and_what_came_of_it(
    shop: Mainspring, queues: MemoryQueues, spans: Spans
) -> None:
    shop.route("orders.*", to=MemoryBroker(queues), group="broker")

    async with shop.worker(), billing(queues):
        with trace.get_tracer("shop").start_as_current_span("checkout") as checkout:
            receipt = await shop.publish(TOPIC, "tea")
        processed = await spans.one(f"process {TOPIC}")
        sent, received = await spans.one(f"send {TOPIC}"), await spans.one(f"receive {TOPIC}")

    published = await spans.one(f"publish {TOPIC}")
    assert parent_of(published) == context_of(checkout)  # type: ignore[arg-type] # it has ended
    assert {parent_of(each) for each in (sent, received, processed)} == {context_of(published)}
    assert len(spans.get_finished_spans()) == 5
    assert (sent.kind, received.kind, processed.kind) == (SpanKind.CLIENT, SpanKind.CLIENT, SpanKind.CONSUMER)
    assert told(sent, "messaging.message.id", "messaging.consumer.group.name", "mainspring.attempt") == {
        "messaging.message.id": str(receipt.id),
        "messaging.consumer.group.name": "broker",
        "mainspring.attempt": 1,
    }
    common = {"messaging.system": "memory", "messaging.destination.name": TOPIC}
    operation = ("messaging.operation.name", "messaging.operation.type")
    assert told(sent, *common, *operation, "mainspring.outcome") == {
        **common,
        **dict.fromkeys(operation, "send"),
        "mainspring.outcome": "done",
    }
    assert told(received, *common, *operation, "mainspring.source", "mainspring.outcome") == {
        **common,
        **dict.fromkeys(operation, "receive"),
        "mainspring.source": "memory:billing",
        "mainspring.outcome": "stored",
    }


async def test_messages_that_are_sent_together_stay_in_their_own_traces(
    shop: Mainspring, queues: MemoryQueues, spans: Spans
) -> None:
    shop.route("orders.*", to=MemoryBroker(queues), batch=3, linger="1m")

    async with shop.worker(), billing(queues):
        for order in ("tea", "jam", "rum"):
            await shop.publish(TOPIC, order)
        processed = await spans.named(f"process {TOPIC}", 3)
        sent, received = await spans.named(f"send {TOPIC}", 3), await spans.named(f"receive {TOPIC}", 3)

    published = {context_of(each) for each in await spans.named(f"publish {TOPIC}", 3)}
    assert len({trace_id for trace_id, _ in published}) == 3
    for each in (sent, received, processed):
        assert {parent_of(span) for span in each} == published


async def test_a_send_tells_what_the_broker_said(shop: Mainspring, queues: MemoryQueues, spans: Spans) -> None:
    queues.refuses = "the queue is full"
    shop.route("orders.*", to=MemoryBroker(queues))

    async with shop.worker():
        await shop.publish(TOPIC, "tea")
        (put_off,) = await spans.named(f"send {TOPIC}")
        queues.refuses = None
        sent = (await spans.named(f"send {TOPIC}", 2))[-1]
        await shop.publish("orders.cancelled", "tea")
        rejected = await spans.one("send orders.cancelled")

    assert told(put_off, "mainspring.outcome") == {"mainspring.outcome": "snoozed"}
    ((name, said),) = events_of(put_off)
    assert (name, said["mainspring.reason"]) == ("snoozed", "the queue is full")
    assert told(sent, "mainspring.outcome") == {"mainspring.outcome": "done"}
    assert parent_of(sent) == parent_of(put_off)
    assert told(rejected, "mainspring.outcome", "error.type") == {
        "mainspring.outcome": "failed",
        "error.type": "rejected",
    }
    assert rejected.status.status_code is StatusCode.ERROR
    assert rejected.status.description == "memory://broker rejected it: no queue is bound to 'orders.cancelled'"


async def test_a_repeat_is_received_again_and_not_processed(queues: MemoryQueues, spans: Spans) -> None:
    event = Received(b'"tea"', {"ce-id": "7", "ce-type": TOPIC}, "application/json", "", "")

    async with billing(queues):
        queues.put("billing", event)
        await spans.named(f"process {TOPIC}")
        queues.put("billing", event)
        first, again = await spans.named(f"receive {TOPIC}", 2)

    assert told(first, "mainspring.outcome") == {"mainspring.outcome": "stored"}
    assert told(again, "mainspring.outcome") == {"mainspring.outcome": "repeat"}
    assert (parent_of(first), parent_of(again)) == (None, None)
    assert len(await spans.named(f"process {TOPIC}")) == 1
