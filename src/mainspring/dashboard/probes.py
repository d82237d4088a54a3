"""Probes: liveness, readiness and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mainspring.app.fleet.fleet import Fleet
from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.metrics import CONTENT_TYPE
from mainspring.dashboard.pages import path_of
from mainspring.dashboard.readings import Probed, readings_of
from mainspring.dashboard.responses import JSON, Problem, encode, plain, problem_of
from mainspring.dashboard.security.headers import guarded
from mainspring.model.errors import MissingExtra
from mainspring.model.health import Health, HealthLimits, Status, built_in, health_of

_PATIENCE = 10.0


class Finding(Struct, frozen=True, omit_defaults=True):
    """One health check; its reason and its data only for callers that may see them."""

    name: str
    status: Status
    duration_ms: float | None = None
    summary: str = ""
    data: dict[str, object] = {}


async def live_response(readings: Probed, *, detailed: bool = False) -> Response:
    """Report that the process is up, and the checks tagged ``live``. It does not query the database."""
    health = await _found(readings.live)
    if not health.checks:
        return Response(encode({"status": "alive"}), media_type=JSON)
    return _response(health, "alive" if health.ok else health.status, detailed=detailed)


async def ready_response(readings: Probed, *, detailed: bool) -> Response:
    """Report readiness within ten seconds, the checks tagged ``ready``: 200 if healthy or degraded, else 503."""
    health = await _found(readings.ready_now if detailed else readings.ready)
    return _response(health, health.status, detailed=detailed)


async def health_response(readings: Probed, *, detailed: bool) -> Response:
    """Report every check within ten seconds: 200 if healthy or degraded, else 503."""
    health = await _found(readings.now if detailed else readings.lately)
    return _response(health, health.status, detailed=detailed)


async def _found(read: Callable[[], Awaitable[Health]]) -> Health:
    begun = time.monotonic()
    try:
        async with asyncio.timeout(_PATIENCE):
            return await read()
    except TimeoutError:
        why = f"no reply within {_PATIENCE:.0f} s"
    except Exception as error:  # noqa: BLE001 - any error is the result
        why = problem_of(error).message
    seconds = time.monotonic() - begun
    return health_of([built_in("storage", "unhealthy", why, seconds=seconds)], seconds)


def _response(health: Health, status: str, *, detailed: bool) -> Response:
    findings = [
        Finding(each.name, each.status, _milliseconds(each.seconds), each.summary, plain(each.data))
        if detailed
        # The rest of a name is that of a group.
        else Finding(each.name.partition(" ")[0], each.status, _milliseconds(each.seconds))
        for each in health.checks
    ]
    body = {"status": status, "duration_ms": _milliseconds(health.seconds), "checks": findings}
    return Response(encode(body), 200 if health.ok else 503, media_type=JSON)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


async def metrics_response(app: Mainspring | Fleet) -> Response:
    """Return the metrics of this process, and those of the databases if this process is to report them."""
    try:
        text = await app.metrics()
    except MissingExtra as error:
        raise Problem(404, "no_metrics", str(error)) from None
    return Response(text, media_type=CONTENT_TYPE)


class Probes:
    """An ASGI application with ``/health``, ``/health/live``, ``/health/ready`` and ``/metrics``, and nothing else.

    It has no login: it exposes names and states, never payloads. Serve it on an internal network only.
    """

    def __init__(self, app: Mainspring | Fleet, *, limits: HealthLimits | None = None, details: bool = False) -> None:
        """Create it for an app or a fleet; ``limits`` are the thresholds of health [those of ``app.health``].

        With ``details`` each check has its reason and its data, with names of groups, schedules and the database.
        """
        self._app = app
        self._readings = readings_of(app, limits)
        self._details = details

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Exception as error:  # noqa: BLE001 - every error gets a response
            response = problem_of(error).response()
        await response(scope, receive, guarded(send))

    async def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise Problem(405, "method", "method not allowed: use GET", {"Allow": "GET, HEAD"})
        match path_of(request.scope):
            case "/health":
                return await health_response(self._readings, detailed=self._details)
            case "/health/live":
                return await live_response(self._readings, detailed=self._details)
            case "/health/ready":
                return await ready_response(self._readings, detailed=self._details)
            case "/metrics":
                return await metrics_response(self._app)
            case _:
                raise Problem(404, "not_found", "no such path: use /health, /health/live, /health/ready or /metrics")
