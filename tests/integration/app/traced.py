"""One process of two that share a trace: it publishes or works, and prints its spans as lines of JSON.

python -m tests.integration.app.traced '["publish" or "work", URL, SCHEMA]'
"""

import asyncio
import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mainspring import Context, Done, Mainspring, events
from mainspring.telemetry.tracing import trace_ids

ended = InMemorySpanExporter()


def where(order: str) -> Done:
    """Says which trace and span it runs in: for a process that only has it imported."""
    return Done("-".join(trace_ids() or ()))


def shop(url: str, schema: str) -> tuple[Mainspring, asyncio.Event]:
    app, handled = Mainspring(url, name="shop", schema=schema, auto_migrate=True), asyncio.Event()

    @app.consumer("orders.placed")
    async def ship(order: str, ctx: Context) -> None:
        await ctx.publish("parcels.sent", order)

    @app.consumer("parcels.sent")
    def follow(order: str) -> None: ...

    app.on(events.Completed, lambda event: handled.set() if event.group == "follow" else None)
    return app, handled


async def publish(app: Mainspring) -> None:
    await app.migrate()
    await app.declare()
    async with app:
        with trace.get_tracer("shop").start_as_current_span("checkout"):
            await app.publish("orders.placed", "tea")


async def work(app: Mainspring, handled: asyncio.Event) -> None:
    async with app.worker():
        await handled.wait()


def main(what: str, url: str, schema: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ended))
    trace.set_tracer_provider(provider)
    app, handled = shop(url, schema)
    asyncio.run(publish(app) if what == "publish" else work(app, handled))
    print(json.dumps([json.loads(span.to_json()) for span in ended.get_finished_spans()]))


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
