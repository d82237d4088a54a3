"""Publishing middleware around the occurrences of schedules."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, Mainspring, Middleware, Outgoing, every
from tests.integration.app.shop import Seen

TENANT = ContextVar("tenant", default="none")


class Stamp(Middleware):
    """Stamps every message, and rejects those on one topic."""

    def __init__(self, rejected: str = "") -> None:
        self.rejected = rejected
        self.stored: list[str] = []

    @contextmanager
    def publishing(self, message: Outgoing) -> Iterator[None]:
        if message.topic == self.rejected:
            raise LookupError("no tenant")
        token = TENANT.set("a")
        message.headers["tenant"] = TENANT.get()
        try:
            yield
            self.stored.append(message.topic)
        finally:
            TENANT.reset(token)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> dict[str, Any]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    schema = {"schema": postgres_schema} if request.param == "postgresql" else {}
    return {"url": urls[request.param], "auto_migrate": True, **schema}


async def test_it_sees_occurrences_and_what_is_triggered(place: dict[str, Any]) -> None:
    stamp, seen = Stamp(), Seen[Context]()
    app = Mainspring(**place, name="shop", middleware=[stamp])

    @app.recurring(every("100ms"))
    async def report(ctx: Context) -> None:
        seen.add(ctx)

    @app.recurring("0 0 1 1 *")
    async def yearly(ctx: Context) -> None:
        seen.add(ctx)

    async with app.worker() as worker:
        await app.schedules.trigger("yearly")
        contexts = await seen.count(3)
        assert worker.progress()["scheduler"].failed == 0

    assert {ctx.headers["tenant"] for ctx in contexts} == {"a"}
    assert {ctx.source for ctx in contexts} == {"manual", "schedule"}
    assert set(stamp.stored) == {"report", "yearly"}


async def test_one_that_fails_stops_only_that_schedule(place: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mainspring.worker")
    seen = Seen[str]()
    app = Mainspring(**place, name="shop", middleware=[Stamp(rejected="broken")])

    @app.recurring(every("100ms"))
    async def broken(ctx: Context) -> None:
        seen.add(ctx.topic)

    @app.recurring(every("100ms"))
    async def sound(ctx: Context) -> None:
        seen.add(ctx.topic)

    async with app.worker():
        topics = await seen.count(2)
        view = await app.schedules.get("broken")

    assert set(topics) == {"sound"}
    assert view is not None
    assert view.fired == 0
    assert "schedule broken: it cannot be followed: LookupError: no tenant" in caplog.text
