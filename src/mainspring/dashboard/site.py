"""A table of routes as an ASGI application: pages, API, streams and probes, for the app that a request is for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from mainspring.dashboard.api import session
from mainspring.dashboard.openapi import document
from mainspring.dashboard.pages import asset_response, page_response
from mainspring.dashboard.probes import health_response, live_response, metrics_response, ready_response
from mainspring.dashboard.readings import Probed
from mainspring.dashboard.responses import JSON, Problem, encode, plain, problem_of
from mainspring.dashboard.route import Call, Route, Services, read
from mainspring.dashboard.security.access_log import UNKNOWN, Refused
from mainspring.dashboard.security.gate import HOME, ROOT
from mainspring.dashboard.security.headers import guarded
from mainspring.dashboard.security.identity import ANONYMOUS, Access
from mainspring.dashboard.streams import ALLOWED, Audience, Watchable, Watched, WatchQuery, wants_stream

_TOKEN_REFUSALS = {"wrong_token": "log in failed", "too_many_attempts": "log in refused"}
_WHY = {"wrong_token": "the token is wrong", "too_many_attempts": "too many wrong tokens", "not_logged_in": "no login"}
"""The audit's text for responses that contain advice instead of a reason."""
_REFUSALS = (401, 403)
_BODILESS = ("GET", "HEAD")
_READING, _CHANGING = 20.0, 60.0
"""The maximum seconds of a response, even if the database is slow."""
_SERVICES = "mainspring.services"
"""The key in a request's scope of the services that it uses."""
Answer = Callable[[Request], Awaitable[Response]]


class Probe(Protocol):
    """The response of a probe; ``detailed``, with reasons, for callers that are known."""

    def __call__(self, readings: Probed, *, detailed: bool) -> Awaitable[Response]:
        """Return it."""
        ...


_PROBES: Mapping[str, Probe] = {
    "/health": health_response,
    "/health/live": live_response,
    "/health/ready": ready_response,
}


class Site:
    """The routes of a table, with pages and probes, behind the gate of the services that a request is for.

    A request for a database that the fleet does not have is treated as one for any other, so that only callers that are
    known learn which there are: it fails where the app would be used.
    """

    def __init__(self, table: Iterable[Route]) -> None:
        self._table = tuple(table)
        self._watchable = Watchable(self._table)
        self._router = Router(routes=[*self._paths()])

    async def respond(self, scope: Scope, receive: Receive, send: Send, services: Services) -> None:
        """Handle one request; its scope has the prefixes ``ROOT`` and ``HOME``, and the path below the first."""
        await self._router({**scope, "root_path": "", _SERVICES: services}, receive, guarded(send))

    # --- routing -------------------------------------------------------------------------------------------

    def _paths(self) -> Iterator[Path]:
        for path, respond in _PROBES.items():
            yield self._path(path, {"GET": partial(self._probe, path=path, respond=respond)}, open_to_all=True)
        yield self._path("/metrics", {"GET": self._metrics})
        yield self._path("/api/openapi.json", {"GET": self._document})
        for path in dict.fromkeys(route.path for route in self._table):
            routes = [route for route in self._table if route.path == path]
            yield self._path(path, {route.method: partial(self._response, route=route) for route in routes})
        yield self._path("/api/{path:path}", {})
        yield self._path("/static/{path:path}", {"GET": _static})
        yield self._path("/{path:path}", {"GET": self._page})

    def _path(self, path: str, methods: Mapping[str, Answer], *, open_to_all: bool = False) -> Path:
        async def answer(request: Request) -> Response:
            try:
                if not open_to_all:
                    _services(request).gate.admit(request)
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
            services = _services(request)
            # What anyone may type is no name of a database.
            name = services.database if services.is_there() else "…"
            within = "" if services.database is None else f"/db/{name}"
            why = _WHY.get(problem.code, problem.message)
            what = f"{request.method} {within}{path}"
            services.access_log.refused(Refused(action, problem.by or UNKNOWN, what, why, services.gate.peer(request)))

    async def _probe(self, request: Request, path: str, respond: Probe) -> Response:
        services = _services(request)
        if services.database is not None:  # or unknown callers could have every database of a fleet opened
            await self._known(request)
        try:
            services.gate.admit(request)
            known = (await services.gate.access(request, held=False)).may("viewer")
        except Problem as problem:
            self._refused(request, path, problem)
            known = False
        return await respond(services.readings, detailed=known)

    async def _metrics(self, request: Request) -> Response:
        services = await self._known(request)
        shown = services.app if services.fleet is None else services.fleet
        return await services.lifecycle.around(lambda: metrics_response(shown))

    async def _document(self, request: Request) -> Response:
        await self._known(request)
        described = document(self._table, session.installed_version(), request.scope[ROOT], request.scope[HOME])
        return Response(encode(described), media_type=JSON)

    async def _page(self, request: Request) -> Response:
        services = _services(request)
        response = page_response(request, request.scope[ROOT], request.scope[HOME])
        if not services.is_there():
            try:
                if (await services.gate.access(request, held=False)).may("viewer"):
                    response.status_code = 404  # the same page, which says so
            except Problem as problem:
                self._refused(request, "/", problem)
        return response

    async def _known(self, request: Request) -> Services:
        """Return the services, for a viewer. Raises Problem."""
        services = _services(request)
        services.gate.admit(request)
        services.gate.allow(await services.gate.access(request), "viewer")
        services.check_there()
        return services

    # --- one request to a route of the table --------------------------------------------------------------

    async def _response(self, request: Request, route: Route) -> Response:
        """Return the response. Raises Problem, and any error of the app."""
        access = await self._allowed(request, route)
        params = await read(request, route)
        services = _services(request)
        call = Call(services, access, request)
        if not route.changes and wants_stream(request):
            inner = None
            if isinstance(params, WatchQuery):
                inner = [self._watchable.found(of) for of in params.of]
            return services.live.response(self._audience(call, inner or [(route, params)], numbered=inner is not None))
        answer = await self._answer(call, route, params)
        response = Response(None if answer is None else encode(answer), route.status, media_type=JSON)
        for cookie in call.cookies:
            response.headers.append("set-cookie", cookie)
        return response

    async def _answer(self, call: Call, route: Route, params: Struct) -> Any:
        """Call the route's function, and return its response as JSON values; secrets are masked."""
        services = call.services

        async def work() -> object:
            return await route.function(call, params)

        needs_app = route not in session.ROUTES
        if needs_app:
            services.check_there()
        patience = _CHANGING if route.changes else _READING
        try:
            async with asyncio.timeout(patience):
                found = await (services.lifecycle.around(work) if needs_app else work())
        except TimeoutError:
            remedy = "check whether it was done before you retry" if route.changes else "narrow the request"
            raise Problem(503, "slow", f"no result within {patience:.0f} s: {remedy}") from None
        return plain(found, services.redaction)

    async def _allowed(self, request: Request, route: Route) -> Access:
        gate = _services(request).gate
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
        gate = call.services.gate

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
        of = call.services
        return Watched((of.app, of.database, route.path, encode(params), access.role, personal), poll)


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


def _services(request: Request) -> Services:
    found: Services = request.scope[_SERVICES]
    return found


async def _static(request: Request) -> Response:
    return asset_response(request, request.path_params["path"])


def _client(access: Access) -> str:
    return access.session or (access.identity.name if access.identity is not None else "")
