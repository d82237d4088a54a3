"""A real server on this machine, in the test's own loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mainspring.dashboard.server import Server, address_of, bound


@asynccontextmanager
async def served(application: Any, *, closing: Any = None, lifespan: bool = False) -> AsyncIterator[str]:
    """The application, answering at the address that is given."""
    listening = bound("127.0.0.1", 0)
    server = Server(application, lifespan=lifespan, closing=closing)
    async with server.beside(listening):
        while not server.started:
            await asyncio.sleep(0)
        yield f"http://{address_of(listening)}"
