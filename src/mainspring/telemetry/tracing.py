"""Whether an app makes spans. OpenTelemetry is imported only where somebody uses it already, or asks for it."""

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
    """Decides for one app: when it is opened, when a worker starts, or when it first publishes, not for every message.

    With ``wanted`` None there are spans where a tracer provider has been configured in this process; once there are,
    they stay.
    """

    def __init__(self, wanted: bool | None = None) -> None:  # noqa: FBT001
        self._wanted = wanted
        self.looked: bool = False
        self.spans: Spans | None = self._made() if wanted else None
        """What makes spans; None: nobody would see them."""

    def look(self) -> Spans | None:
        """Decide anew."""
        self.looked = True
        if self.spans is None and self._wanted is None and is_configured():
            self.spans = self._made()
        return self.spans

    def before(self, build: Callable[[], T]) -> Callable[[], T]:
        """The same function, and a look beforehand."""

        def built() -> T:
            self.look()
            return build()

        return built

    def _made(self) -> Spans:
        try:
            from mainspring.telemetry.spans import Spans
        except ImportError as error:
            raise BadOption(f"tracing=True needs OpenTelemetry: pip install 'mainspring[otel]' ({error})") from None
        return Spans()


def is_configured() -> bool:
    """Whether somebody in this process has set a tracer provider that may keep what it is told."""
    api = sys.modules.get(_API)
    if api is None:
        return False
    return not isinstance(api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider))


def trace_ids() -> tuple[str, str] | None:
    """The ids of the trace and the span that this code runs in, in hex; None: it is in none."""
    api = sys.modules.get(_API)
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return api.format_trace_id(context.trace_id), api.format_span_id(context.span_id)


def carried() -> dict[str, str]:
    """The context of the trace that this code runs in, as headers; empty where it is in none."""
    headers: dict[str, str] = {}
    if trace_ids() is not None:
        _w3c().inject(headers)
    return headers


@contextmanager
def within(headers: Mapping[str, str]) -> Iterator[None]:
    """In the trace that these headers came from, where this process knows of traces at all."""
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
