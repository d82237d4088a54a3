"""Who asks for a stream and does not read it holds nobody up."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring.dashboard import streams
from mainspring.dashboard.server import address_of, bound
from tests.dashboard.scene import VIEWER, Scene, opened, until


async def _deaf(scene: Scene, port: int) -> socket.socket:
    """A reader whose stream has more to say than fits between it and us."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    deaf.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(deaf, ("127.0.0.1", port))
    asked = "GET /ops/api/messages?state=parked&limit=200 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
    await loop.sock_sendall(deaf, f"{asked}Authorization: Bearer {VIEWER}\r\n\r\n".encode())
    await until(lambda: _counts(scene, 1))
    return deaf


async def _counts(scene: Scene, streams: int) -> bool:
    return scene.dashboard._live.count == streams


def _is_full(connection: Any) -> bool:
    return bool(connection.flow.write_paused)


async def _talk(scene: Scene, number: int) -> None:
    for each in range(20):
        await scene.app.publish("nobody.listens", {}, key=f"{number} {each} " + "x" * 150)
    await asyncio.sleep(0.01)  # a look of the stream's


@pytest.mark.parametrize("over", [False, True], ids=["by a stream", "by a server that ends"])
async def test_who_does_not_read_is_let_go(
    over: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(streams, "EVERY", 0.01)
    monkeypatch.setattr(streams, "_TICK", 0.05)
    monkeypatch.setattr(streams, "_PATIENCE", 600.0 if over else 0.2)
    listening = bound("127.0.0.1", 0)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    async with opened(dead=0, waiting=0) as scene:
        host = Starlette(routes=[Mount("/ops", scene.dashboard)])
        server = uvicorn.Server(uvicorn.Config(host, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server._serve([listening]))
        deaf = await _deaf(scene, int(address_of(listening).rpartition(":")[2]))
        number = 0
        while await _counts(scene, 1) and not any(map(_is_full, server.server_state.connections)):
            number += 1
            await _talk(scene, number)

        if over:
            await scene.dashboard.end_streams()
        while not await _counts(scene, 0):
            number += 1
            await _talk(scene, number)
        server.should_exit = True
        await serving
        deaf.close()

    assert "without completing response" not in caplog.text
    assert not server.server_state.connections
