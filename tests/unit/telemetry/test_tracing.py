"""Whether there are spans: decided once, and without importing what nobody uses."""

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider

from mainspring import Mainspring
from mainspring.model.errors import BadOption
from mainspring.telemetry.tracing import Tracing, is_configured, trace_ids

UNUSED = """
import asyncio, sys

from mainspring import Mainspring

app = Mainspring("memory://")
handled = asyncio.Event()


@app.consumer("orders.placed")
async def ship(order: str) -> None:
    handled.set()


async def main() -> None:
    async with app.worker():
        await app.publish("orders.placed", "tea")
        await handled.wait()


asyncio.run(main())
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "mainspring.telemetry.spans"))))
"""


def test_where_nobody_uses_opentelemetry_it_is_not_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("provider", [None, ProxyTracerProvider(), NoOpTracerProvider()])
async def test_without_a_provider_nothing_stands_around_publishing_or_handling(
    provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    app = Mainspring("memory://")

    @app.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    async with app.worker() as worker:
        await app.publish("orders.placed", "tea")

        assert not app._code.chain
        assert [executor.handler.around for executor in worker._executors] == [None]


async def test_a_provider_that_is_set_before_the_app_is_opened_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))

    @app.consumer("orders.placed")
    async def ship(order: str) -> None: ...

    async with app.worker() as worker:
        assert app._code.chain
        assert [executor.handler.around is None for executor in worker._executors] == [False]


def test_it_is_looked_for_once_and_then_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = Tracing()
    first = tracing.decide()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))
    second = tracing.decide()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    assert (first, is_configured()) == (None, False)
    assert second is not None
    assert tracing.decide() is tracing.spans is second


def test_who_asks_for_spans_has_them_before_there_is_a_provider() -> None:
    assert Tracing(wanted=True).spans is not None
    assert Tracing(wanted=False).decide() is None


def test_who_asks_for_spans_without_opentelemetry_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mainspring.telemetry.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)

    with pytest.raises(BadOption, match=r"tracing=True needs OpenTelemetry: pip install 'mainspring\[otel\]'"):
        Mainspring("memory://", tracing=True)


def test_the_ids_of_a_trace_are_told_in_hex() -> None:
    assert trace_ids() is None

    with TracerProvider(shutdown_on_exit=False).get_tracer("shop").start_as_current_span("checkout") as span:
        context = span.get_span_context()
        assert trace_ids() == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
