"""Handling of one request: open the app, authenticate, authorise, parse and respond."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.responses import JSON, Problem, encode, plain
from mainspring.dashboard.route import Call, Route, Services, read
from mainspring.dashboard.security.identity import ANONYMOUS, Access
from mainspring.dashboard.streams import ALLOWED, Audience, Live, Watchable, Watched, WatchQuery, wants_stream
from mainspring.model.errors import MainspringError, NotOpen

T = TypeVar("T")

_logger = logging.getLogger("mainspring.dashboard")
_READING, _CHANGING = 20.0, 60.0
"""The maximum seconds of a response, even if the database is slow."""


class AppLifecycle:
    """Opens the app if it is not open, and closes it only if this opened it."""

    def __init__(self, app: Mainspring) -> None:
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


class RequestHandler:
    """Serves the routes of the table."""

    def __init__(self, services: Services, lifecycle: AppLifecycle, live: Live, watchable: Watchable) -> None:
        self._services = services
        self._lifecycle = lifecycle
        self._live = live
        self._watchable = watchable

    async def response(self, request: Request, route: Route) -> Response:
        """Return the response. Raises Problem, and any error of the app."""
        access = await self._allowed(request, route)
        params = await read(request, route)
        call = Call(self._services, access, request)
        if not route.changes and wants_stream(request):
            inner = None
            if isinstance(params, WatchQuery):
                inner = [self._watchable.found(of) for of in params.of]
            return self._live.response(self._audience(call, inner or [(route, params)], numbered=inner is not None))
        answer = await self.answer(call, route, params)
        response = Response(None if answer is None else encode(answer), route.status, media_type=JSON)
        for cookie in call.cookies:
            response.headers.append("set-cookie", cookie)
        return response

    async def answer(self, call: Call, route: Route, params: Struct) -> Any:
        """Call the route's function, and return its response as JSON values; secrets are masked."""
        patience = _CHANGING if route.changes else _READING
        try:
            async with asyncio.timeout(patience):
                found = await self._lifecycle.around(lambda: route.function(call, params))
        except TimeoutError:
            remedy = "check whether it was done before you retry" if route.changes else "narrow the request"
            raise Problem(503, "slow", f"no result within {patience:.0f} s: {remedy}") from None
        return plain(found, self._services.redaction)

    async def _allowed(self, request: Request, route: Route) -> Access:
        gate = self._services.gate
        if route.role is None and route.changes:
            # A login is authenticated by its token; the cookie of an earlier login is ignored.
            gate.check_sender(request, ambient=False)
            return ANONYMOUS
        access = await gate.access(request)
        try:
            gate.allow(access, route.role)
            gate.check_reader(request, access)
            if route.changes:
                gate.check_changing(request, access)  # invariant 20: before any route is called
        except Problem as problem:
            problem.by = None if access.identity is None else access.by
            raise
        return access

    def _audience(self, call: Call, inner: list[tuple[Route, Struct]], *, numbered: bool) -> Audience:
        gate = self._services.gate

        def check(access: Access) -> None:
            for route, _ in inner:
                gate.allow(access, route.role)

        async def allowed() -> None:
            now = await gate.still(call.request, call.access)
            check(now)
            if now.role != call.access.role:
                raise Problem(401, "role_changed", "the role has changed: reconnect")

        check(call.access)
        watched = tuple(self._watched(call, route, params) for route, params in inner)
        # The hook of a host application may be costly; checking the expiry of a login is not.
        pause = ALLOWED if call.access.way == "hook" else 0.0
        return Audience(f"{call.access.way} {_client(call.access)}", watched, allowed, pause, numbered)

    def _watched(self, call: Call, route: Route, params: Struct) -> Watched:
        def poll() -> Awaitable[Any]:
            return self.answer(call, route, params)

        access = call.access
        personal = (_client(access), access.csrf) if route.personal else None
        return Watched((route.path, encode(params), access.role, personal), poll)


def _client(access: Access) -> str:
    return access.session or (access.identity.name if access.identity is not None else "")
