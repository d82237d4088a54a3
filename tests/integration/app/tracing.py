"""What the tests of traces share: a provider whose spans can be waited for."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.integration.app.shop import Seen


class Spans(InMemorySpanExporter):
    """The spans that have ended, and a way to wait for them: a span ends after its handler."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: Seen[ReadableSpan] = Seen()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        answer = super().export(spans)
        for span in spans:
            self._seen.add(span)
        return answer

    async def count(self, wanted: int) -> list[ReadableSpan]:
        """Wait until so many have ended, and give all of them."""
        return await self._seen.count(wanted)

    async def named(self, name: str, wanted: int = 1) -> list[ReadableSpan]:
        """Wait until so many of this name have ended."""
        ended = 0
        while len(found := [span for span in await self.count(ended) if span.name == name]) < wanted:
            ended = len(self._seen.items) + 1
        return found

    async def one(self, name: str) -> ReadableSpan:
        """The only span of this name, once it has ended."""
        (span,) = await self.named(name)
        return span


def context_of(span: ReadableSpan) -> tuple[int, int]:
    """Its trace and its own number."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    """The trace and the number of what it is part of."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def links_of(span: ReadableSpan) -> list[tuple[int, int]]:
    """What it names without being part of it."""
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def told(span: ReadableSpan, *names: str) -> dict[str, Any]:
    """These attributes of a span; what it does not have is left out."""
    said = span.attributes or {}
    return {name: said[name] for name in names if name in said}


def events_of(span: ReadableSpan) -> list[tuple[str, dict[str, Any]]]:
    """What is told to have happened within it; of a stack, only that it is there."""
    return [
        (each.name, {name: value for name, value in (each.attributes or {}).items() if name != "exception.stacktrace"})
        for each in span.events
    ]
