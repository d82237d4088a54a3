"""The traces of both services, in one file: `python -m services.tracing` prints the latest as a tree."""

import json
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

FILE = Path("traces.jsonl")


def trace_as(service: str) -> None:
    """Add the spans of this process to the file; in production a collector gets them, by `OTLPSpanExporter()`."""
    exporter = ConsoleSpanExporter(out=FILE.open("a"), formatter=lambda span: span.to_json(indent=None) + "\n")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def show(spans: list[dict[str, Any]], parent: str | None = None, depth: int = 0) -> None:
    """Print the spans below a parent, in the order in which they began."""
    for span in sorted(spans, key=lambda each: each["start_time"]):
        if span["parent_id"] == parent:
            service = span["resource"]["attributes"]["service.name"]
            outcome = span["attributes"].get("mainspring.outcome")
            print("    " * depth + f"{service}: {span['name']}" + (f" ({outcome})" if outcome else ""))
            show(spans, span["context"]["span_id"], depth + 1)


if __name__ == "__main__":
    spans = [json.loads(line) for line in FILE.open()]
    show([span for span in spans if span["context"]["trace_id"] == spans[-1]["context"]["trace_id"]])
