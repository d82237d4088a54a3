"""A standalone HTTP server: for the dashboard, or for the probes of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from starlette.types import ASGIApp

from mainspring.model.errors import BadOption, MissingExtra

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as _error:
    raise MissingExtra("uvicorn", "web", "serving HTTP") from _error

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_GRACE = 5
HEAD_PATIENCE = 10.0
"""Seconds within which the head of a request must arrive."""


class Protocol(H11Protocol):
    """Closes a connection on which the head of a request arrives too slowly, or not at all."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Stop the timeout when the head is complete, or start it when another request begins."""
        super().data_received(data)
        if not self._is_waiting:
            self._forget()
        elif self._due is None:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._forget()
        super().connection_lost(exc)

    @property
    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect(self) -> None:
        self._due = self.loop.call_later(HEAD_PATIENCE, self._late)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        self._due = None
        if self._is_waiting:
            self.transport.close()


class Server(uvicorn.Server):
    """One HTTP server on one socket. On shutdown it ends streams before it waits for other requests."""

    def __init__(self, app: ASGIApp, *, lifespan: bool, closing: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                lifespan="on" if lifespan else "off",
                ws="none",
                proxy_headers=False,  # the dashboard reads them itself, if they are trusted
                server_header=False,
                access_log=False,
                log_config=None,
                timeout_graceful_shutdown=_GRACE,
            )
        )
        self._closing = closing
        self._handles_signals = True
        self.started_up: Callable[[], object] | None = None
        """Called when it accepts requests and handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down on SIGTERM and Ctrl-C, without dying of them."""
        if not self._handles_signals:
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.asynccontextmanager
    async def beside(self, listening: socket.socket) -> AsyncIterator[None]:
        """Serve in the background of a process that handles signals itself."""
        self._handles_signals = False
        serving = asyncio.create_task(self.serve([listening]), name="mainspring-server")
        try:
            yield
        finally:
            self.should_exit = True
            await serving
            listening.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept requests."""
        await super().startup(sockets)
        if self.started_up is not None:
            self.started_up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down, streams first."""
        if self._closing is not None:
            await self._closing()
        await super().shutdown(sockets)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises BadOption if it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise BadOption(f"cannot listen on {host!r}: {error.strerror}") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(socket.SOMAXCONN)
        listening.setblocking(False)  # noqa: FBT003
    except OSError as error:
        listening.close()
        raise BadOption(f"cannot listen on {host}:{port}: {error.strerror}. Choose another port") from None
    return listening


def address_of(listening: socket.socket) -> str:
    """Return its address as in a URL, without the scheme."""
    name: tuple[Any, ...] = listening.getsockname()
    host, port = str(name[0]), int(name[1])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
