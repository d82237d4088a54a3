"""What the dashboards of an app and of a fleet have in common: a life, an access log, and streams within bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

from starlette.types import Receive, Scope, Send

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.lifecycle import AppLifecycle
from mainspring.dashboard.options import Policy
from mainspring.dashboard.pages import path_of
from mainspring.dashboard.security.access_log import AccessLog
from mainspring.dashboard.security.gate import HOME, ROOT
from mainspring.dashboard.streams import Live


class Application(ABC):
    """An ASGI application that opens what it shows if nothing else does, and ends its streams at shutdown."""

    def __init__(self, shown: AbstractAsyncContextManager[object], policy: Policy) -> None:
        self._policy = policy
        self._gate = policy.gate
        self._lifecycle = AppLifecycle(shown)
        self._live = Live()
        self._access_log = AccessLog(self._note)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the lifespan if it is served standalone."""
        if scope["type"] == "lifespan":
            self._live.begin()
            await self._lifecycle.follow(receive, send, self.aclose)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            prefix = self._policy.prefix(scope)
            await self._respond({**scope, "path": path_of(scope), ROOT: prefix, HOME: prefix}, receive, send)

    async def end_streams(self) -> None:
        """End the streams of browsers, which would delay a server's shutdown."""
        await self._live.aclose()

    async def aclose(self) -> None:
        """End streams and bulk actions, and close the app if the dashboard opened it."""
        await self.end_streams()
        await self._end_bulks()
        await self._access_log.aclose()
        await self._lifecycle.aclose()

    @abstractmethod
    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, whose path is the one below the dashboard."""

    @abstractmethod
    async def _end_bulks(self) -> None:
        """End the bulk actions."""

    @abstractmethod
    def _audited(self) -> Mainspring:
        """Return the app in whose audit logins and rejections are recorded."""

    async def _note(self, action: str, subject: str, by: str, detail: str) -> None:
        await self._lifecycle.around(lambda: self._audited().note(action, subject, by=by, detail=detail))
