"""The demo's dashboard: on this machine only, while the shop is open."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mainspring.app.mainspring import Mainspring
from mainspring.model.errors import BadOption, MissingExtra

PORT = 8321
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Shown:
    """The dashboard's address, or why there is none."""

    address: str
    missing: str = ""


@asynccontextmanager
async def dashboard(app: Mainspring) -> AsyncIterator[Shown]:
    """Serve the dashboard, with a token in its address. Without the ``web`` extra the demo runs without it."""
    try:
        from mainspring.dashboard import Dashboard
        from mainspring.dashboard.server import Server, address_of, bound
    except MissingExtra as error:
        yield Shown("", str(error))
        return
    try:
        listening = bound(_LOOPBACK, PORT)
    except BadOption:  # the usual port is taken: use any free one
        listening = bound(_LOOPBACK, 0)
    token = secrets.token_urlsafe(24)
    board = Dashboard(app, tokens={"operator": token}, hosts=())
    server = Server(board, lifespan=False, closing=board.end_streams)
    server.listens_to_signals = False
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="demo-dashboard")
    try:
        yield Shown(f"http://{address_of(listening)}/login#token={token}")
    finally:
        server.should_exit = True
        await serving
        listening.close()
