"""Decides whether an app creates spans. OpenTelemetry is imported only if it is in use already, or requested."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from mainspring.model.errors import BadOption

if TYPE_CHECKING:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from mainspring.telemetry.spans import Spans

T = TypeVar("T")

_API = "opentelemetry.trace"


class Tracing:
    """Decides for one app: when it opens, when a worker starts, or at the first publish, not for every message.

    With ``wanted`` None there are spans if a tracer provider is configured in this process; once there are, they stay.
    """

    def __init__(self, wanted: bool | None = None) -> None:  # noqa: FBT001
        self._wanted = wanted
        self.decided: bool = False
        self.spans: Spans | None = self._made() if wanted else None
        """Creates spans; None if none would be recorded."""

    def decide(self) -> Spans | None:
        """Decide again."""
        self.decided = True
        if self.spans is None and self._wanted is None and is_configured():
            self.spans = self._made()
        return self.spans

    def before(self, build: Callable[[], T]) -> Callable[[], T]:
        """Return the same function, preceded by a decision."""

        def built() -> T:
            self.decide()
            return build()

        return built

    def _made(self) -> Spans:
        try:
            from mainspring.telemetry.spans import Spans
        except ImportError as error:
            raise BadOption(f"tracing=True needs OpenTelemetry: pip install 'mainspring[otel]' ({error})") from None
        return Spans()


def is_configured() -> bool:
    """Return whether a tracer provider that may record spans is set in this process."""
    api = sys.modules.get(_API)
    if api is None:
        return False
    return not isinstance(api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider))


def trace_ids() -> tuple[str, str] | None:
    """Return the current trace id and span id, in hex; None outside of a trace."""
    api = sys.modules.get(_API)
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return api.format_trace_id(context.trace_id), api.format_span_id(context.span_id)


def carried() -> dict[str, str]:
    """Return the current trace context as headers; empty outside of a trace."""
    headers: dict[str, str] = {}
    if trace_ids() is not None:
        _w3c().inject(headers)
    return headers


@contextmanager
def within(headers: Mapping[str, str]) -> Iterator[None]:
    """Enter the trace of these headers, if OpenTelemetry is in use in this process."""
    if not headers or _API not in sys.modules:
        yield
        return
    from opentelemetry.context import attach, detach

    token = attach(_w3c().extract(headers))
    try:
        yield
    finally:
        detach(token)


def _w3c() -> TraceContextTextMapPropagator:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
