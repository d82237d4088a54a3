"""The life of the app behind a dashboard: opened at the first request that needs it, unless its host has done so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from starlette.types import Receive, Send

from mainspring.model.errors import MainspringError, NotOpen

T = TypeVar("T")

_logger = logging.getLogger("mainspring.dashboard")


class AppLifecycle:
    """Opens the app, or the fleet, if it is not open, and closes it only if this opened it."""

    def __init__(self, app: AbstractAsyncContextManager[object]) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._by_others: asyncio.AbstractEventLoop | None = None
        """The loop on which the host application had opened it."""

    async def open(self) -> None:
        """Open it, once on this loop for all concurrent callers."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._opening is None or _failed(self._opening):
            self._loop = loop
            self._opening = loop.create_task(self._enter(), name="mainspring-dashboard-open")
        await asyncio.shield(self._opening)

    async def around(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run the function; open the app first if it is not open."""
        try:
            done = await work()
        except NotOpen:
            # The host application had opened it and has closed it: do not reopen it.
            if self._by_others is asyncio.get_running_loop():
                raise
            await self.open()
            return await work()
        if self._opening is None:
            self._by_others = asyncio.get_running_loop()
        return done

    async def aclose(self) -> None:
        """Close it, if this opened it."""
        if self._opening is None or self._loop is not asyncio.get_running_loop():
            return
        opening, self._opening = self._opening, None
        await asyncio.wait([opening])
        if not _failed(opening):
            await self._app.__aexit__(None, None, None)

    async def follow(self, receive: Receive, send: Send, close: Callable[[], Awaitable[None]]) -> None:
        """Open and close with the server. The dashboard starts even if the database is unreachable."""
        await receive()
        try:
            await self.open()
        except MainspringError as error:
            _logger.warning("the app is not open yet: %s", error)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _enter(self) -> None:
        await self._app.__aenter__()


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
