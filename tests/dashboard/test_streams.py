"""Answers that go on: sent at once, and again when something has changed."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount

from mainspring.dashboard import Dashboard, Identity, site, streams
from mainspring.dashboard.security.identity import LASTS
from tests.dashboard.scene import OPERATOR, VIEWER, Scene, opened, until
from tests.dashboard.served import served
from tests.house.tree import ROOT
from tests.services.cluster import free_port


@asynccontextmanager
async def _served(scene: Scene) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        served(scene.dashboard, closing=scene.dashboard.end_streams) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        client.headers.update({"Authorization": f"Bearer {OPERATOR}", "Accept": "text/event-stream"})
        yield client


async def _events(answer: httpx2.Response) -> AsyncIterator[tuple[str, Any]]:
    kind = "message"
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)
            kind = "message"


async def test_what_changes_is_sent_again() -> None:
    async with (
        opened(dead=0, waiting=0) as scene,
        _served(scene) as client,
        client.stream("GET", "/api/messages", params={"state": "ready"}) as answer,
    ):
        events = _events(answer)
        kind, first = await anext(events)
        receipt = await scene.app.publish("orders.placed", {"order": 1})
        _, second = await anext(events)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert kind == "message"
    assert str(receipt.id) not in {row["message_id"] for row in first["rows"]}
    assert str(receipt.id) in {row["message_id"] for row in second["rows"]}


async def test_that_time_has_passed_is_no_change(scene: Scene) -> None:
    looks = 0
    seen = scene.app.stats.roster

    async def counted() -> Any:
        nonlocal looks
        looks += 1
        return await seen()

    scene.app.stats.roster = counted  # type: ignore[method-assign]
    async with _served(scene) as client, client.stream("GET", "/api/workers") as answer:
        events = _events(answer)
        _, first = await anext(events)
        await until(lambda: _reached(lambda: looks >= 3))
        await scene.app.groups.pause("ship", by="test")
        async with scene.app.worker(groups=["ship"]):
            _, second = await anext(events)

    assert "now" in first
    assert len(second["rows"]) == len(first["rows"]) + 1


async def _reached(condition: Any) -> bool:
    return bool(condition())


async def test_equal_watchers_share_one_look(scene: Scene) -> None:
    lively = scene.dashboard._live
    async with (
        _served(scene) as client,
        client.stream("GET", "/api/consumers") as one,
        client.stream("GET", "/api/consumers") as two,
        client.stream("GET", "/api/leases") as other,
    ):
        for answer in (one, two, other):
            await anext(_events(answer))

        assert (lively.count, lively.polls) == (3, 2)

    await until(lambda: _reached(lambda: (lively.count, lively.polls) == (0, 0)))


async def test_viewers_and_operators_do_not_share_a_look(scene: Scene) -> None:
    async with (
        _served(scene) as client,
        client.stream("GET", "/api/consumers") as one,
        client.stream("GET", "/api/consumers", headers={"Authorization": f"Bearer {VIEWER}"}) as two,
    ):
        for answer in (one, two):
            await anext(_events(answer))

        assert scene.dashboard._live.polls == 2


async def test_too_many_streams_are_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_EACH", 1)
    async with _served(scene) as client, client.stream("GET", "/api/consumers") as one:
        await anext(_events(one))

        refused = await client.get("/api/leases")
        viewer = client.stream("GET", "/api/consumers", headers={"Authorization": f"Bearer {VIEWER}"})
        async with viewer as other:
            await anext(_events(other))

    assert refused.status_code == 429
    assert "close some tabs" in refused.json()["error"]["message"]


async def test_a_stream_is_refused_like_any_other_request(scene: Scene) -> None:
    async with _served(scene) as client:
        unknown = await client.get("/api/consumers", headers={"Authorization": ""})
        wrong = await client.get("/api/messages", params={"limit": "many"})

    assert unknown.status_code == 401
    assert wrong.status_code == 422


async def test_a_stream_ends_when_its_reader_is_no_longer_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ALLOWED", 0.0)
    known = True

    async def authenticate(_request: Any) -> Identity | None:
        return Identity("ada", "viewer") if known else None

    async with (
        opened(dead=0, tokens=None, authenticate=authenticate) as scene,
        _served(scene) as client,
        client.stream("GET", "/api/consumers") as answer,
    ):
        events = _events(answer)
        await anext(events)
        known = False
        rest = [event async for event in events]

    assert [(kind, body["error"]["code"]) for kind, body in rest] == [("problem", "not_logged_in")]


@asynccontextmanager
async def _browser(scene: Scene) -> AsyncIterator[httpx2.AsyncClient]:
    """One that has logged in as a viewer."""
    async with (
        served(scene.dashboard, closing=scene.dashboard.end_streams) as url,
        httpx2.AsyncClient(base_url=url, timeout=60, headers={"Origin": url}) as browser,
    ):
        await browser.post("/api/login", json={"token": VIEWER})
        browser.headers["X-Mainspring-Csrf"] = (await browser.get("/api/session")).json()["csrf"]
        yield browser


async def test_a_stream_ends_with_its_login_and_says_nothing_more(scene: Scene) -> None:
    asked = {"Accept": "text/event-stream"}
    async with _browser(scene) as browser, browser.stream("GET", "/api/consumers", headers=asked) as answer:
        events = _events(answer)
        await anext(events)
        await browser.post("/api/logout", json={})
        await scene.app.groups.pause("ship", by="test")
        rest = [event async for event in events]

    assert [(kind, body["error"]["code"]) for kind, body in rest] == [("problem", "not_logged_in")]


async def test_a_stream_ends_when_its_login_is_over(scene: Scene) -> None:
    now, asked = 1_000_000.0, {"Accept": "text/event-stream"}
    scene.dashboard._gate.sessions._clock = lambda: now
    async with _browser(scene) as browser, browser.stream("GET", "/api/leases", headers=asked) as answer:
        events = _events(answer)
        await anext(events)
        now += LASTS
        await scene.app.leases.acquire("another", timedelta(minutes=5))
        rest = [event async for event in events]

    assert [(kind, body["error"]["code"]) for kind, body in rest] == [("problem", "not_logged_in")]


async def test_a_silent_stream_says_that_it_is_still_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING", 0.0)
    async with _served(scene) as client, client.stream("GET", "/api/leases") as answer:
        async for line in answer.aiter_lines():
            if line == ": ping":
                break
        else:
            pytest.fail("the stream ended without a ping")


async def test_what_is_broken_is_told_and_well_again_with_a_later_look(scene: Scene) -> None:
    whole = scene.app.stats.roster

    async def broken() -> Any:
        raise TimeoutError

    async with _served(scene) as client, client.stream("GET", "/api/consumers") as answer:
        events = _events(answer)
        await anext(events)
        scene.app.stats.roster = broken  # type: ignore[method-assign]
        kind, body = await anext(events)
        scene.app.stats.roster = whole  # type: ignore[method-assign]
        again, rows = await anext(events)

    assert (kind, body["error"]["code"]) == ("problem", "slow")
    assert again == "message"
    assert rows["rows"]


async def test_streams_end_with_the_server() -> None:
    async with opened(dead=0) as scene:
        async with served(scene.dashboard, closing=scene.dashboard.end_streams) as url:
            client = httpx2.AsyncClient(base_url=url, timeout=60, headers={"Authorization": f"Bearer {OPERATOR}"})
            stream = client.stream("GET", "/api/leases", headers={"Accept": "text/event-stream"})
            answer = await stream.__aenter__()
            events = _events(answer)
            await anext(events)
            rest = asyncio.ensure_future(_drained(events))

        assert await rest == []
        await stream.__aexit__(None, None, None)
        await client.aclose()


async def _drained(events: AsyncIterator[tuple[str, Any]]) -> list[Any]:
    return [event async for event in events]


async def test_a_dashboard_that_is_closed_twice_is_closed() -> None:
    async with opened(dead=0) as scene:
        await scene.dashboard.aclose()
        await scene.dashboard.aclose()

        assert isinstance(scene.dashboard, Dashboard)
        assert scene.dashboard._live.is_over


def test_a_host_that_is_told_to_stop_does_not_wait_for_streams() -> None:
    address = f"127.0.0.1:{free_port()}"
    host, _, port = address.partition(":")
    command = [sys.executable, "-m", "uvicorn", "tests.dashboard.mounted:host", "--host", host, "--port", port]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        while "Uvicorn running on" not in process.stderr.readline():
            pass
        headers = {"Authorization": f"Bearer {OPERATOR}", "Accept": "text/event-stream"}
        with httpx2.stream("GET", f"http://{address}/ops/api/leases", headers=headers, timeout=60) as answer:
            lines = answer.iter_lines()
            while not next(lines).startswith("data:"):
                pass
            process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        process.communicate()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()

    assert rest == []
    assert process.returncode in (0, -signal.SIGTERM)


async def test_a_stream_goes_through_a_hosts_middleware_and_ends_when_its_reader_goes(scene: Scene) -> None:
    async def passed(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    host = Starlette(
        routes=[Mount("/ops", scene.dashboard)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=passed)]
    )
    headers = {"Authorization": f"Bearer {OPERATOR}", "Accept": "text/event-stream"}
    async with served(host) as url, httpx2.AsyncClient(base_url=url, timeout=60, headers=headers) as client:
        async with client.stream("GET", "/ops/api/leases") as answer:
            kind, seen = await anext(_events(answer))
            assert scene.dashboard._live.count == 1
        await until(lambda: _reached(lambda: scene.dashboard._live.count == 0))

    assert kind == "message"
    assert [row["name"] for row in seen["rows"]] == ["nightly"]
