"""``Dashboard``: the pages and the API of an app, as one ASGI application."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.api import TABLE
from mainspring.dashboard.api.bulk import Bulks
from mainspring.dashboard.api.session import installed_version
from mainspring.dashboard.openapi import document
from mainspring.dashboard.pages import asset_response, checked_root, page_response, path_of, prefix_of
from mainspring.dashboard.probes import health_response, live_response, metrics_response, ready_response
from mainspring.dashboard.readings import Readings
from mainspring.dashboard.responses import JSON, Problem, encode, plain, problem_of
from mainspring.dashboard.route import Call, Route, Services, read
from mainspring.dashboard.security.access_log import UNKNOWN, AccessLog, Refused
from mainspring.dashboard.security.gate import ROOT, Gate
from mainspring.dashboard.security.headers import guarded
from mainspring.dashboard.security.identity import (
    ANONYMOUS,
    MAKING,
    Access,
    Attempts,
    Authenticate,
    Role,
    Sessions,
    Tokens,
    environment_tokens,
)
from mainspring.dashboard.security.redaction import REDACTED, Redaction
from mainspring.dashboard.streams import ALLOWED, Audience, Live, Watchable, Watched, WatchQuery, wants_stream
from mainspring.model.errors import BadOption, MainspringError, NotOpen
from mainspring.model.health import HealthLimits

T = TypeVar("T")

_logger = logging.getLogger("mainspring.dashboard")

_NO_AUTHENTICATION = (
    "Dashboard(app) has no authentication, so that behind a proxy anyone could open it: set "
    f"MAINSPRING_DASHBOARD_OPERATOR_TOKEN ({MAKING}), "
    "or write Dashboard(app, tokens={'operator': '…', 'viewer': '…'}) or Dashboard(app, authenticate=…). On your own "
    "machine, `mainspring dashboard` generates a token for each run"
)
_TOKEN_REFUSALS = {"wrong_token": "log in failed", "too_many_attempts": "log in refused"}
_WHY = {"wrong_token": "the token is wrong", "too_many_attempts": "too many wrong tokens", "not_logged_in": "no login"}
"""The audit's text for responses that contain advice instead of a reason."""
_REFUSALS = (401, 403)
_BODILESS = ("GET", "HEAD")
_READING, _CHANGING = 20.0, 60.0
"""The maximum seconds of a response, even if the database is slow."""
_SECRET = "MAINSPRING_DASHBOARD_SECRET"  # noqa: S105 - the name of a variable
Answer = Callable[[Request], Awaitable[Response]]


class Probe(Protocol):
    """The response of a probe; ``detailed``, with reasons, for callers that are known."""

    def __call__(self, readings: Readings, *, detailed: bool) -> Awaitable[Response]:
        """Return it."""
        ...


_PROBES: Mapping[str, Probe] = {
    "/health": health_response,
    "/health/live": live_response,
    "/health/ready": ready_response,
}


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


class Dashboard:
    """The dashboard of one app: mount it in any ASGI application, or serve it standalone.

    It needs ``tokens`` or ``authenticate``: behind a proxy, it cannot tell whether a request comes from this machine.
    """

    def __init__(
        self,
        app: Mainspring,
        *,
        tokens: Mapping[Role, str] | None = None,
        authenticate: Authenticate | None = None,
        redact: Iterable[str] = REDACTED,
        hosts: Iterable[str] | None = None,
        root_path: str | None = None,
        trust_proxy: bool = False,
        secret: str | None = None,
        limits: HealthLimits | None = None,
        database_only: bool = False,
    ) -> None:
        """Create it, without opening or connecting anything.

        ``tokens`` are by role, "operator" and "viewer" [MAINSPRING_DASHBOARD_OPERATOR_TOKEN and …_VIEWER_TOKEN].
        ``authenticate`` is for host applications with their own login: it takes the request and returns an Identity, or
        None. ``redact`` are the names of fields whose values are masked. ``hosts`` are the host names to accept, beside
        those of this machine. ``root_path`` is the prefix that a proxy strips. ``trust_proxy`` trusts X-Forwarded-Host,
        -Proto, -For and -Prefix. ``secret`` is part of the keys of logins [MAINSPRING_DASHBOARD_SECRET]. ``limits`` are
        the thresholds of health. ``database_only`` is for an app that stands for its database alone, as with
        ``mainspring dashboard --url``: what belongs to one application is rejected.
        """
        if tokens is not None and authenticate is not None:
            raise BadOption("tokens= and authenticate= are both given: omit one")
        if root_path is not None and root_path.rstrip("/") != checked_root(root_path):
            raise BadOption(f"root_path={root_path!r} must be a path such as '/ops'")
        if isinstance(hosts, str):
            raise BadOption(f"hosts={hosts!r} is one name: write a list of names, as in [{hosts!r}]")
        if authenticate is not None:
            tokens = {}
        known = Tokens(environment_tokens() if tokens is None else tokens)
        if authenticate is None and not known:
            raise BadOption(_NO_AUTHENTICATION)
        sessions = Sessions(known, secret or os.environ.get(_SECRET))
        allowed = None if hosts is None else tuple(hosts)
        self._gate = Gate(known, sessions, Attempts(), authenticate, allowed, trust_proxy)
        self._root = root_path
        self._trust_proxy = trust_proxy
        self._lifecycle = AppLifecycle(app)
        self._live = Live()
        self._access_log = AccessLog(self._note)
        self._app = app
        self._services = Services(
            app, self._gate, Redaction(redact), Bulks(), Readings(app, limits), self._access_log, database_only
        )
        self._watchable = Watchable(TABLE)
        self._router = Router(routes=[*self._paths()])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the lifespan if it is served standalone."""
        if scope["type"] == "lifespan":
            self._live.begin()
            await self._lifecycle.follow(receive, send, self.aclose)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            placed = {**scope, "path": path_of(scope), "root_path": "", ROOT: self._prefix(scope)}
            await self._router(placed, receive, guarded(send))

    async def end_streams(self) -> None:
        """End the streams of browsers, which would delay a server's shutdown."""
        await self._live.aclose()

    async def aclose(self) -> None:
        """End streams and bulk actions, and close the app if the dashboard opened it."""
        await self.end_streams()
        await self._services.bulks.aclose()
        await self._access_log.aclose()
        await self._lifecycle.aclose()

    # --- routing -------------------------------------------------------------------------------------------

    def _paths(self) -> Iterator[Path]:
        for path, respond in _PROBES.items():
            yield self._path(path, {"GET": partial(self._probe, path=path, respond=respond)}, open_to_all=True)
        yield self._path("/metrics", {"GET": self._metrics})
        yield self._path("/api/openapi.json", {"GET": self._document})
        for path in dict.fromkeys(route.path for route in TABLE):
            routes = [route for route in TABLE if route.path == path]
            yield self._path(path, {route.method: partial(self._response, route=route) for route in routes})
        yield self._path("/api/{path:path}", {})
        yield self._path("/static/{path:path}", {"GET": _static})
        yield self._path("/{path:path}", {"GET": self._page})

    def _path(self, path: str, methods: Mapping[str, Answer], *, open_to_all: bool = False) -> Path:
        async def answer(request: Request) -> Response:
            try:
                if not open_to_all:
                    self._gate.admit(request)
                return await _chosen(request, methods)(request)
            except Exception as error:  # noqa: BLE001 - every error gets a response
                problem = problem_of(error)
                self._refused(request, path, problem)
                # An unread body would keep arriving. HTTP/2 and later have no such header.
                ending = request.method not in _BODILESS and request.scope.get("http_version", "1.1") < "2"
                return problem.response(ending=ending)

        return Path(path, _Endpoint(answer))

    def _refused(self, request: Request, path: str, problem: Problem) -> None:
        """Log wrong or too many tokens, and every rejected change."""
        action = _TOKEN_REFUSALS.get(problem.code)
        if action is None and problem.status in _REFUSALS and request.method not in _BODILESS:
            action = "refused"
        if action is not None:
            subject = f"{request.method} {path}"
            why = _WHY.get(problem.code, problem.message)
            self._access_log.refused(Refused(action, problem.by or UNKNOWN, subject, why, self._gate.peer(request)))

    async def _note(self, action: str, subject: str, by: str, detail: str) -> None:
        await self._lifecycle.around(lambda: self._app.note(action, subject, by=by, detail=detail))

    async def _probe(self, request: Request, path: str, respond: Probe) -> Response:
        try:
            self._gate.admit(request)
            known = (await self._gate.access(request, held=False)).may("viewer")
        except Problem as problem:
            self._refused(request, path, problem)
            known = False
        return await respond(self._services.readings, detailed=known)

    async def _metrics(self, request: Request) -> Response:
        self._gate.allow(await self._gate.access(request), "viewer")
        return await self._lifecycle.around(lambda: metrics_response(self._services.app))

    async def _document(self, request: Request) -> Response:
        self._gate.allow(await self._gate.access(request), "viewer")
        return Response(encode(document(TABLE, installed_version(), request.scope[ROOT])), media_type=JSON)

    async def _page(self, request: Request) -> Response:
        return page_response(request, request.scope[ROOT])

    def _prefix(self, scope: Scope) -> str:
        if self._root is not None:
            return checked_root(self._root)
        given = dict(scope["headers"]).get(b"x-forwarded-prefix", b"") if self._trust_proxy else b""
        return checked_root(given.decode("latin-1").rstrip("/") + prefix_of(scope))

    # --- one request to a route of the table --------------------------------------------------------------

    async def _response(self, request: Request, route: Route) -> Response:
        """Return the response. Raises Problem, and any error of the app."""
        access = await self._allowed(request, route)
        params = await read(request, route)
        call = Call(self._services, access, request)
        if not route.changes and wants_stream(request):
            inner = None
            if isinstance(params, WatchQuery):
                inner = [self._watchable.found(of) for of in params.of]
            return self._live.response(self._audience(call, inner or [(route, params)], numbered=inner is not None))
        answer = await self._answer(call, route, params)
        response = Response(None if answer is None else encode(answer), route.status, media_type=JSON)
        for cookie in call.cookies:
            response.headers.append("set-cookie", cookie)
        return response

    async def _answer(self, call: Call, route: Route, params: Struct) -> Any:
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
            return self._answer(call, route, params)

        access = call.access
        personal = (_client(access), access.csrf) if route.personal else None
        return Watched((route.path, encode(params), access.role, personal), poll)


class _Endpoint:
    """An endpoint for every method, so that a 405 response is JSON."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)


def _chosen(request: Request, methods: Mapping[str, Answer]) -> Answer:
    if not methods:
        raise Problem(404, "not_found", "no such path: see GET /api/openapi.json")
    method = "GET" if request.method == "HEAD" else request.method
    if method not in methods:
        allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
        raise Problem(405, "method", f"method not allowed: use {allowed}", {"Allow": allowed})
    return methods[method]


async def _static(request: Request) -> Response:
    return asset_response(request, request.path_params["path"])


def _client(access: Access) -> str:
    return access.session or (access.identity.name if access.identity is not None else "")
