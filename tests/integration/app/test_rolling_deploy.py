"""Two versions of one app at once: every message reaches the group, and what only the old one had goes at the end."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mainspring import Context, Mainspring
from mainspring.model.views import GroupView
from tests.integration.app.measuring import Make, maker

KEPT, GONE, NEW = "orders.placed", "orders.faxed", "orders.paid"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers make their rounds often."""
    monkeypatch.setattr("mainspring.runtime.janitor._ROUND", 0.05)


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    """Makes an app on the test's database."""
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


class Deploy:
    """Apps of several versions, each with a door of its own, as processes have; and a publisher that never rests."""

    def __init__(self, make: Make) -> None:
        self.handled: set[UUID] = set()
        self.published: dict[str, set[UUID]] = {KEPT: set(), GONE: set(), NEW: set()}
        self.topics: list[str] = [KEPT, GONE]
        self._make = make

    def app(self, version: int, *topics: str) -> Mainspring:
        app = self._make(name="shop", version=version)

        @app.consumer(*topics, group="mail")
        async def mail(_order: Any, ctx: Context) -> None:
            self.handled.add(ctx.message_id)

        return app

    def audit(self) -> Mainspring:
        """Another app that hears everything: what misses the group is not even parked."""
        app = self._make(name="audit")

        @app.consumer("orders.#", group="audit")
        async def note(_order: Any) -> None: ...

        return app

    async def publish(self, app: Mainspring) -> None:
        while True:
            for topic in self.topics:
                self.published[topic].add((await app.publish(topic, {})).id)
            await asyncio.sleep(0.002)

    async def some_more(self) -> None:
        """Wait until a few more of each have been published."""
        before = {topic: len(self.published[topic]) for topic in self.topics}
        await until(lambda: all(len(self.published[each]) > count + 5 for each, count in before.items()))


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


async def group(app: Mainspring) -> GroupView:
    (found,) = [each for each in (await app.stats.roster()).groups if each.name == "mail"]
    return found


async def hired(stack: AsyncExitStack, app: Mainspring) -> AsyncExitStack:
    """A worker that can be stopped before the others."""
    alone = AsyncExitStack()
    await alone.enter_async_context(app)
    await alone.enter_async_context(app.worker())
    stack.push_async_callback(alone.aclose)
    return alone


@pytest.mark.parametrize("versions", [(1, 2), (0, 0), (0, 3)], ids=["versions", "no version", "the first version"])
async def test_every_message_of_a_rolling_deploy_reaches_the_group(
    make: Make, versions: Sequence[int], caplog: pytest.LogCaptureFixture
) -> None:
    deploy = Deploy(make)
    old, new = versions
    caplog.set_level(logging.WARNING, "mainspring")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(audit := deploy.audit())
        await audit.declare()
        first = await hired(stack, deploy.app(old, KEPT, GONE))
        second = await hired(stack, deploy.app(old, KEPT, GONE))
        publishing = asyncio.create_task(deploy.publish(audit))
        stack.callback(publishing.cancel)

        # The first of the new ones; then one of the old ones crashes and comes back, as processes do.
        third = await hired(stack, latest := deploy.app(new, KEPT, NEW))
        deploy.topics.append(NEW)
        await deploy.some_more()
        await second.aclose()
        second = await hired(stack, deploy.app(old, KEPT, GONE))
        await deploy.some_more()
        await first.aclose()
        fourth = await hired(stack, deploy.app(new, KEPT, NEW))
        await deploy.some_more()
        during = await group(latest)
        # The last of the old ones goes: what it alone has heard is over.
        deploy.topics.remove(GONE)
        await second.aclose()
        await deploy.some_more()

        async def gone() -> bool:
            return GONE not in (await group(latest)).patterns

        await until(gone)
        await deploy.some_more()
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        published = set().union(*deploy.published.values())
        with suppress(TimeoutError):
            await until(lambda: published <= deploy.handled)
        missed = {topic: len(ids - deploy.handled) for topic, ids in deploy.published.items()}
        after = await group(latest)
        await third.aclose()
        await fourth.aclose()

    assert missed == {KEPT: 0, GONE: 0, NEW: 0}
    assert (set(during.patterns), set(after.patterns)) == ({KEPT, GONE, NEW}, {KEPT, NEW})
    assert [each.getMessage() for each in caplog.records if "missing" in each.getMessage()] == []


async def test_a_subscription_that_is_gone_is_put_back_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.db"
    deploy = Deploy(partial(Mainspring, f"sqlite:///{path}", auto_migrate=True))
    app = deploy.app(0, KEPT, NEW)
    async with app, app.worker():
        healthy = await app.health()
        with sqlite3.connect(path, timeout=30) as connection:
            connection.execute("DELETE FROM mainspring_subscription WHERE pattern = ?", (NEW,))

        async def told() -> bool:
            return any(each.name == "subscriptions mail" for each in (await app.health()).checks)

        await until(told)
        health = await app.health()
        patterns = (await group(app)).patterns

    (check,) = [each for each in health.checks if each.name == "subscriptions mail"]
    assert not any(each.name.startswith("subscriptions") for each in healthy.checks)
    assert (check.status, check.data["patterns"]) == ("degraded", [NEW])
    assert NEW in patterns
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [each.partition(";")[0] for each in warned] == [
        f"mail: its subscription to {NEW} was missing and is restored"
    ]


async def test_a_group_that_was_retired_under_a_worker_stays_retired_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deploy = Deploy(partial(Mainspring, f"sqlite:///{tmp_path / 'shop.db'}", auto_migrate=True))
    app = deploy.app(0, KEPT)
    async with app, app.worker():
        await app.groups.retire("mail", by="ann")

        async def told() -> bool:
            return any(each.name == "subscriptions mail" for each in (await app.health()).checks)

        await until(told)
        groups = (await app.stats.roster()).groups

    assert groups == ()
    assert [each.getMessage().partition(":")[0] for each in caplog.records if each.levelno == logging.WARNING] == [
        "mail was retired although this worker has a consumer for it, and receives no more messages"
    ]


@pytest.mark.parametrize("versions", [(1, 2), (0, 0)])
async def test_queues_of_two_versions_keep_each_others_topics(make: Make, versions: Sequence[int]) -> None:
    older, newer = (make(name="shop", version=version) for version in versions)
    async with older, newer:
        old, new = older.queue("jobs", KEPT, GONE), newer.queue("jobs", KEPT, NEW)
        await old.declare()
        await new.declare()
        await old.declare()
        sent = [(await newer.publish(topic, {})).id for topic in (KEPT, GONE, NEW)]
        taken = await new.claim(10)
        await new.ack(*taken)

    assert sorted(each.message_id for each in taken) == sorted(sent)
