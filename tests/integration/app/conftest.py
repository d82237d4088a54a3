"""What several tests of a whole app are given."""

import pytest
from opentelemetry import trace

from mainspring import Mainspring
from tests.integration.app.tracing import Spans


@pytest.fixture
async def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """What an application that has configured an SDK would export."""
    spans = Spans()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", spans.provider)
    return spans


@pytest.fixture
def shop() -> Mainspring:
    return Mainspring("memory://", name="shop")
