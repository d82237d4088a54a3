"""Handling of one request: authentication, authorisation, parsing and response."""

from __future__ import annotations

import asyncio

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from mainspring.dashboard.answers import JSON, Problem, encode
from mainspring.dashboard.api.watch import WatchQuery
from mainspring.dashboard.live import ALLOWED, Audience, Live, Watched, wants_stream
from mainspring.dashboard.opening import Opening
from mainspring.dashboard.reading import read
from mainspring.dashboard.route import House, Route, Visit
from mainspring.dashboard.security.identity import NOBODY, Access
from mainspring.dashboard.watching import Watchable

_READING, _CHANGING = 20.0, 60.0
"""The maximum seconds of a response, even if the database is slow."""


class Serving:
    """Serves the routes of the table."""

    def __init__(self, house: House, opening: Opening, live: Live, watchable: Watchable) -> None:
        self._house = house
        self._opening = opening
        self._live = live
        self._watchable = watchable

    async def response(self, request: Request, route: Route) -> Response:
        """Return the response. Raises Problem, and any error of the app."""
        access = await self._allowed(request, route)
        asked = await read(request, route)
        visit = Visit(self._house, access, request)
        if not route.changes and wants_stream(request):
            inner = None
            if isinstance(asked, WatchQuery):
                inner = [self._watchable.found(of) for of in asked.of]
            return self._live.response(self._audience(visit, inner or [(route, asked)], numbered=inner is not None))
        answer = await self.answer(visit, route, asked)
        response = Response(None if answer is None else encode(answer), route.status, media_type=JSON)
        for cookie in visit.cookies:
            response.headers.append("set-cookie", cookie)
        return response

    async def answer(self, visit: Visit, route: Route, asked: Struct) -> Struct | None:
        """Call the route's function, and open the app first if it is not open."""
        patience = _CHANGING if route.changes else _READING
        try:
            async with asyncio.timeout(patience):
                return await self._opening.around(lambda: route.does(visit, asked))
        except TimeoutError:
            told = "check whether it was done before you retry" if route.changes else "narrow the request"
            raise Problem(503, "slow", f"no result within {patience:.0f} s: {told}") from None

    async def _allowed(self, request: Request, route: Route) -> Access:
        gate = self._house.gate
        if route.role is None and route.changes:
            # A login is authenticated by its token; the cookie of an earlier login is ignored.
            gate.check_sender(request, ambient=False)
            return NOBODY
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

    def _audience(self, visit: Visit, inner: list[tuple[Route, Struct]], *, numbered: bool) -> Audience:
        gate = self._house.gate

        def check(access: Access) -> None:
            for route, _ in inner:
                gate.allow(access, route.role)

        async def allowed() -> None:
            now = await gate.still(visit.request, visit.access)
            check(now)
            if now.role != visit.access.role:
                raise Problem(401, "role_changed", "the role has changed: reconnect")

        check(visit.access)
        watched = tuple(self._watched(visit, route, asked) for route, asked in inner)
        # The hook of a host application may be costly; checking the expiry of a login is not.
        pause = ALLOWED if visit.access.way == "hook" else 0.0
        return Audience(f"{visit.access.way} {_whose(visit.access)}", watched, allowed, pause, numbered)

    def _watched(self, visit: Visit, route: Route, asked: Struct) -> Watched:
        async def look() -> Struct:
            answer = await self.answer(visit, route, asked)
            assert answer is not None, "every GET has a response"
            return answer

        access = visit.access
        personal = (_whose(access), access.csrf) if route.personal else None
        return Watched((route.path, encode(asked), access.role, personal), look)


def _whose(access: Access) -> str:
    return access.session or (access.identity.name if access.identity is not None else "")
