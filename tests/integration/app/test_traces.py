"""Traces: a span for every publish and every attempt, in one trace wherever the handler runs."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from mainspring import Context, Mainspring, Slice, every, intervals
from tests.integration.app.shop import Seen, eventually
from tests.integration.app.tracing import Spans, context_of, links_of, parent_of, told

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GIVEN_CONTEXT = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    return Mainspring(urls[request.param], name="shop", namespace="test", schema=postgres_schema, auto_migrate=True)


async def test_a_message_is_handled_in_the_trace_in_which_it_was_published(app: Mainspring, spans: Spans) -> None:
    @app.consumer("orders.placed")
    async def ship(order: str, ctx: Context) -> None:
        await ctx.publish("parcels.sent", order)

    async with app.worker():
        with trace.get_tracer("shop").start_as_current_span("checkout"):
            receipt = await app.publish("orders.placed", "tea", correlation_id="basket:7")
        await spans.named("process orders.placed")

    checkout, published = await spans.one("checkout"), await spans.one("publish orders.placed")
    processed, forwarded = await spans.one("process orders.placed"), await spans.one("publish parcels.sent")
    assert parent_of(published) == context_of(checkout)
    assert parent_of(processed) == context_of(published)
    assert links_of(processed) == [context_of(published)]
    assert parent_of(forwarded) == context_of(processed)
    assert (published.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert published.attributes == {
        "messaging.system": "mainspring",
        "messaging.destination.name": "orders.placed",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.message.id": str(receipt.id),
        "messaging.message.body.size": 5,
        "messaging.message.conversation_id": "basket:7",
        "mainspring.in_transaction": False,
    }
    waited = told(processed, "mainspring.wait")["mainspring.wait"]
    assert waited >= 0
    assert processed.attributes == {
        "messaging.system": "mainspring",
        "messaging.destination.name": "orders.placed",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "ship",
        "messaging.message.id": str(receipt.id),
        "messaging.message.body.size": 5,
        "messaging.message.conversation_id": "basket:7",
        "mainspring.attempt": 1,
        "mainspring.wait": waited,
        "mainspring.outcome": "done",
    }
    assert told(forwarded, "mainspring.causation_id") == {"mainspring.causation_id": str(receipt.id)}


async def test_a_plain_function_runs_in_its_span_in_its_thread(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed")
    def ship(order: str, ctx: Context) -> None:
        with trace.get_tracer("shop").start_as_current_span("pack"):
            ctx.sync.publish("parcels.sent", order)

    async with shop.worker():
        await shop.publish("orders.placed", "tea")
        processed = await spans.one("process orders.placed")

    packed, forwarded = await spans.one("pack"), await spans.one("publish parcels.sent")
    assert parent_of(packed) == context_of(processed)
    assert parent_of(forwarded) == context_of(packed)


async def test_several_messages_of_one_call_have_a_context_each(shop: Mainspring, spans: Spans) -> None:
    done: Seen[str] = Seen()

    @shop.consumer("orders.placed")
    async def ship(order: str) -> None:
        done.add(order)

    async with shop.worker():
        with trace.get_tracer("shop").start_as_current_span("import"):
            await shop.publish_many([("orders.placed", "tea"), ("orders.placed", "jam")])
        processed = await spans.named("process orders.placed", 2)

    whole, sent = await spans.one("import"), await spans.one("publish orders.placed")
    created = await spans.named("create orders.placed", 2)
    assert [parent_of(each) for each in (*created, sent)] == [context_of(whole)] * 3
    assert {parent_of(each) for each in processed} == {context_of(each) for each in created}
    assert links_of(sent) == [context_of(each) for each in created]
    assert (sent.kind, {each.kind for each in created}) == (SpanKind.CLIENT, {SpanKind.PRODUCER})
    assert told(sent, "messaging.batch.message_count") == {"messaging.batch.message_count": 2}


async def test_no_messages_make_no_span(shop: Mainspring, spans: Spans) -> None:
    async with shop:
        assert await shop.publish_many([]) == []

    assert spans.get_finished_spans() == ()


async def test_a_context_that_the_publisher_gives_is_left_as_it_is(shop: Mainspring, spans: Spans) -> None:
    seen: Seen[Any] = Seen()

    @shop.consumer("orders.placed")
    async def ship(order: str, ctx: Context) -> None:
        seen.add(dict(ctx.headers))

    async with shop.worker():
        await shop.publish("orders.placed", "tea", headers={"traceparent": GIVEN})
        await shop.publish_many([("orders.placed", "jam")] * 2, headers={"traceparent": GIVEN})
        processed = await spans.named("process orders.placed", 3)

    assert seen.items == [{"traceparent": GIVEN}] * 3
    assert {parent_of(each) for each in processed} == {GIVEN_CONTEXT}
    published = await spans.named("publish orders.placed", 2)
    assert {link for each in published for link in links_of(each)} == {GIVEN_CONTEXT}
    assert [span.name for span in spans.get_finished_spans() if span.name.startswith("create")] == []


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
async def test_a_header_that_is_no_context_hurts_nobody(shop: Mainspring, spans: Spans, header: str) -> None:
    @shop.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    async with shop.worker():
        await shop.publish("orders.placed", "tea", headers={"traceparent": header})
        processed = await spans.one("process orders.placed")

    assert (parent_of(processed), links_of(processed)) == (None, [])
    assert told(processed, "mainspring.outcome") == {"mainspring.outcome": "done"}


async def test_the_state_of_a_trace_travels_with_its_context(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    async with shop.worker():
        await shop.publish("orders.placed", "tea", headers={"traceparent": GIVEN, "tracestate": "vendor=7"})
        processed = await spans.one("process orders.placed")

    assert processed.parent is not None
    assert processed.parent.trace_state.get("vendor") == "7"


async def test_an_occurrence_of_a_schedule_begins_a_trace_of_its_own(shop: Mainspring, spans: Spans) -> None:
    @shop.recurring(every("100ms"), name="daily.report")
    async def report(ctx: Context) -> None:
        await ctx.publish("reports.made")

    async with shop.worker():
        await spans.named("publish reports.made")

    made, processed = (await spans.named("publish reports.made"))[0], (await spans.named("process daily.report"))[0]
    assert parent_of(processed) is None
    assert parent_of(made) == context_of(processed)
    said = told(processed, "mainspring.schedule", "mainspring.scheduled_for", "messaging.consumer.group.name")
    assert said.pop("mainspring.scheduled_for").endswith("+00:00")
    assert said == {"mainspring.schedule": "daily.report", "messaging.consumer.group.name": "report"}


async def test_members_of_a_join_and_what_follows_are_in_its_trace(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("photos.resize")
    async def resize(photo: str) -> None: ...

    @shop.consumer("albums.publish")
    async def publish_album() -> None: ...

    async with shop.worker():
        with trace.get_tracer("shop").start_as_current_span("upload"):
            await shop.join([(resize, "sea"), (resize, "sky")], then=publish_album)
        followed = await spans.one("process albums.publish")

    upload = await spans.one("upload")
    members = await spans.named("process photos.resize", 2)
    assert {context_of(each)[0] for each in (*members, followed)} == {context_of(upload)[0]}


async def test_the_slices_of_a_fan_out_are_in_the_trace_of_their_window(app: Mainspring, spans: Spans) -> None:
    @app.fanout("metrics", "hourly", every="100ms")
    async def tenants() -> list[str]:
        return ["ann", "bob"]

    @tenants.slices()
    async def measure(slice: Slice) -> None: ...

    async with app.worker():
        first, *_ = await spans.named("process fanout:metrics:hourly", 2)
        planned, *_ = await spans.named("process plan:metrics:hourly")

    assert parent_of(first) == context_of(planned)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the user's to the app's own file."""
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        yield connection


async def test_a_publish_that_is_rolled_back_says_that_it_was_in_a_transaction(
    tmp_path: Path, spans: Spans, ledger: sqlite3.Connection
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    @app.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    async with app.worker():
        ledger.execute("BEGIN IMMEDIATE")
        app.sync.publish("orders.placed", "tea", tx=ledger)
        ledger.execute("ROLLBACK")
        ledger.execute("BEGIN IMMEDIATE")
        app.sync.publish("orders.placed", "jam", tx=ledger)
        ledger.execute("COMMIT")
        processed = await spans.one("process orders.placed")

    undone, kept = await spans.named("publish orders.placed", 2)
    assert [told(each, "mainspring.in_transaction") for each in (undone, kept)] == [
        {"mainspring.in_transaction": True}
    ] * 2
    assert parent_of(processed) == context_of(kept)


async def test_a_handlers_own_transaction_that_is_undone_leaves_no_process_span_behind(
    tmp_path: Path, spans: Spans
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")
    ended: Seen[int] = Seen()

    @app.consumer("orders.placed", transactional=True, retry=intervals("10ms"))
    async def ship(order: str, ctx: Context) -> None:
        await ctx.publish("parcels.sent", order)
        if ctx.attempt == 1:
            raise ValueError("the parcel fell off")

    @app.consumer("parcels.sent")
    async def follow(order: str) -> None:
        ended.add(1)

    async with app.worker():
        await app.publish("orders.placed", "tea")
        await spans.named("process parcels.sent")

    undone, kept = await spans.named("publish parcels.sent", 2)
    failed, done = await spans.named("process orders.placed", 2)
    assert [parent_of(each) for each in (undone, kept)] == [context_of(failed), context_of(done)]
    assert parent_of(await spans.one("process parcels.sent")) == context_of(kept)
    assert told(done, "mainspring.outcome") == {"mainspring.outcome": "done"}
    assert ended.items == [1]


async def test_a_publish_that_fails_is_an_error(tmp_path: Path, spans: Spans, postgres_url: str) -> None:
    app = Mainspring(postgres_url, schema="nowhere")

    async with app:
        with pytest.raises(Exception, match="mainspring migrate"):
            await app.publish("orders.placed", "tea")

    published = await spans.one("publish orders.placed")
    assert published.status.status_code is StatusCode.ERROR
    assert told(published, "error.type") == {"error.type": "mainspring.model.errors.SchemaMissing"}


async def test_blocking_code_publishes_within_its_own_span(tmp_path: Path, spans: Spans) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    def view() -> None:
        with trace.get_tracer("shop").start_as_current_span("request"):
            app.sync.publish("orders.placed", "tea")

    await asyncio.to_thread(view)
    await asyncio.to_thread(app.sync.close)

    published = await spans.one("publish orders.placed")
    assert parent_of(published) == context_of(await spans.one("request"))


async def test_a_worker_inside_of_a_trace_handles_in_that_one(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    async with shop:
        await shop.publish("orders.placed", "tea")
        with trace.get_tracer("shop").start_as_current_span("nightly"):
            async with shop.worker():
                await spans.named("process orders.placed")

    processed = await spans.one("process orders.placed")
    assert parent_of(processed) == context_of(await spans.one("nightly"))
    assert links_of(processed) == [context_of(await spans.one("publish orders.placed"))]


async def test_in_a_test_of_the_users_there_are_spans_as_well(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    with shop.testing() as kit:
        await shop.publish("orders.placed", "tea")
        await kit.drain()

    processed = await spans.one("process orders.placed")
    assert parent_of(processed) == context_of(await spans.one("publish orders.placed"))


async def test_an_app_that_wants_none_makes_none(spans: Spans) -> None:
    app = Mainspring("memory://", tracing=False)

    @app.consumer("orders.placed", keep="all")
    async def ship(order: str, ctx: Context) -> str:
        assert ctx.headers == {}
        return order

    async with app.worker():
        await app.publish("orders.placed", "tea")

        async def handled() -> bool:
            return [run.status for run in await app.messages.runs()] == ["done"]

        await eventually(handled)

    assert spans.get_finished_spans() == ()
