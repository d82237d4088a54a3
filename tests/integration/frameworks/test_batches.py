"""Batch consumers in an app that brings middleware of its own."""

import pytest

from mainspring import LogContext, Middleware, ReportErrors, SlowHandlers
from mainspring.integrations.django.databases import FreshConnections
from mainspring.integrations.flask import FlaskContext


@pytest.mark.parametrize("ours", [LogContext, SlowHandlers, ReportErrors, FlaskContext, FreshConnections])
def test_every_middleware_of_ours_knows_of_batches(ours: type[Middleware]) -> None:
    def has(name: str) -> bool:
        return getattr(ours, name) is not getattr(Middleware, name)

    assert (has("handling_batch"), has("calling_batch")) == (has("handling"), has("calling"))
