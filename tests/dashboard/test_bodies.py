"""Bodies are small and arrive in time: who sends much, or little by little, holds nothing up."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx2
import pytest

from mainspring.dashboard import route as route_module
from mainspring.dashboard import server
from mainspring.dashboard.api import TABLE
from tests.dashboard.scene import OPERATOR, Scene, client_of
from tests.dashboard.served import served

KNOWN = f"Authorization: Bearer {OPERATOR}\r\n"


async def _trickled(url: str, path: str, headers: str) -> bytes:
    """What is answered to a body that begins and does not end, until the connection is ended."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    writer.write(f"{head}{headers}\r\n{{".encode())
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/login", "", b"408"),
        ("/api/consumers/pause", KNOWN, b"408"),
        ("/api/messages", KNOWN, b"408"),
        ("/api/consumers/pause", "", b"401"),
        ("/api/logout", "", b"401"),
        ("/api/login", "Origin: https://evil.example\r\n", b"403"),
        ("/api/overview", "", b"405"),
        ("/api/none", "", b"404"),
        ("/", "", b"405"),
    ],
)
async def test_a_body_that_trickles_in_is_ended(
    scene: Scene, path: str, headers: str, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_module, "BODY_PATIENCE", 0.1, raising=False)
    async with served(scene.dashboard) as url:
        answer = await _trickled(url, path, headers)

    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert b"connection: close" in answer.lower()


WHOLE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("whole", "begun"),
    [
        (b"", b""),
        (b"", WHOLE[:20]),
        (b"", WHOLE + b"X-Slow: "),
        (WHOLE + b"\r\n", WHOLE[:20]),
        (WHOLE + b"Content-Length: 100\r\n\r\n", b"{"),
    ],
    ids=["nothing", "a line", "a header", "a second request", "a body that is not asked for"],
)
async def test_our_own_server_ends_a_connection_that_asks_for_nothing_whole(
    scene: Scene, whole: bytes, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_PATIENCE", 0.1, raising=False)
    async with served(scene.dashboard) as url:
        host, _, port = url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        if whole:
            writer.write(whole)
            await reader.readuntil(b'{"status":"alive"}')
        writer.write(begun)
        try:
            async with asyncio.timeout(10):
                rest = await reader.read()
        finally:
            writer.close()

    assert rest == b""


async def test_our_own_server_does_not_end_what_is_still_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_PATIENCE", 0.05, raising=False)
    known = {"Authorization": f"Bearer {OPERATOR}", "Accept": "text/event-stream"}
    async with (
        served(scene.dashboard, closing=scene.dashboard.end_streams) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
        client.stream("GET", "/api/leases", headers=known) as answer,
    ):
        lines = answer.aiter_lines()
        await anext(lines)
        await scene.app.leases.acquire("another", timedelta(minutes=5))
        async with asyncio.timeout(30):
            while "another" not in await anext(lines):
                continue


async def _parts(size: int) -> AsyncIterator[bytes]:
    for _ in range(0, size, 1000):
        yield b" " * 1000


@pytest.mark.parametrize("route", [each for each in TABLE if each.changes], ids=lambda route: route.path)
async def test_a_large_body_is_refused_by_what_it_says_and_by_counting(scene: Scene, route: object) -> None:
    path, largest = route.path, 1024 * 1024  # type: ignore[attr-defined]
    if "payload" not in route.takes.__struct_fields__:  # type: ignore[attr-defined]
        largest = 4096 if path == "/api/login" else 65536
    headers = {"Content-Type": "application/json"}
    async with scene.operator() as client:
        path = path.replace("{id}", scene.dead[0])
        said = await client.post(path, content=b" " * (largest + 1), headers=headers)
        counted = await client.post(path, content=_parts(largest + 1000), headers=headers)
        fitting = await client.post(path, content=b"{" + b" " * (largest - 1), headers=headers)

    assert (said.status_code, counted.status_code, fitting.status_code) == (413, 413, 422)
    assert said.json()["error"]["message"] == f"the body is over {largest:,} bytes: shorten it"


@pytest.mark.parametrize("said", ["9" * 5000, "-1", "1e9", "abc"])
async def test_a_length_that_is_none_is_no_error_of_ours(scene: Scene, said: str) -> None:
    async with client_of(scene.dashboard) as client:
        asked = client.build_request("POST", "/api/login", content=b"{}", headers={"Content-Type": "application/json"})
        asked.headers["Content-Length"] = said
        answer = await client.send(asked)

    assert answer.status_code in (413, 422)


async def test_a_refusal_by_a_later_http_has_no_header_of_the_first(scene: Scene) -> None:
    async def second(scope: dict[str, object], receive: object, send: object) -> None:
        await scene.dashboard({**scope, "http_version": "2"}, receive, send)  # type: ignore[arg-type]

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(second), base_url="http://localhost") as client:  # type: ignore[arg-type]
        answer = await client.post("/api/consumers/pause", json={})

    assert answer.status_code == 401
    assert "connection" not in answer.headers
