"""Probes: liveness, readiness and metrics."""

from __future__ import annotations

import asyncio

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.health import Check, Health, HealthLimits, Status
from mainspring.app.observe.metrics import CONTENT_TYPE
from mainspring.dashboard.pages import path_of
from mainspring.dashboard.readings import Readings
from mainspring.dashboard.responses import JSON, Problem, encode, plain, problem_of
from mainspring.dashboard.security.headers import guarded
from mainspring.model.errors import MissingExtra
from mainspring.model.redaction import redacted

_PATIENCE = 10.0


class Finding(Struct, frozen=True, omit_defaults=True):
    """One health check; its details only for authenticated callers."""

    name: str
    status: Status
    summary: str = ""
    data: dict[str, object] = {}


def live_response() -> Response:
    """Report that the process is up. It does not query the database."""
    return Response(encode({"status": "alive"}), media_type=JSON)


async def ready_response(readings: Readings, *, detailed: bool) -> Response:
    """Report readiness within ten seconds: 200 if healthy or degraded, else 503."""
    try:
        async with asyncio.timeout(_PATIENCE):
            health = await (readings.now() if detailed else readings.lately())
    except TimeoutError:
        health = Health("unhealthy", (Check("storage", "unhealthy", f"no reply within {_PATIENCE:.0f} s"),))
    except Exception as error:  # noqa: BLE001 - any error is the result
        health = Health("unhealthy", (Check("storage", "unhealthy", problem_of(error).message),))
    findings = [
        Finding(each.name, each.status, redacted(each.summary), plain(each.data))
        if detailed
        else Finding(each.name.partition(" ")[0], each.status)  # the rest names a group
        for each in health.checks
    ]
    body = {"status": health.status, "checks": findings}
    return Response(encode(body), 200 if health.ok else 503, media_type=JSON)


async def metrics_response(app: Mainspring) -> Response:
    """Return the metrics of this process, and those of the database if this process is to report them."""
    try:
        text = await app.metrics()
    except MissingExtra as error:
        raise Problem(404, "no_metrics", str(error)) from None
    return Response(text, media_type=CONTENT_TYPE)


class Probes:
    """An ASGI application with ``/health/live``, ``/health/ready`` and ``/metrics``, and nothing else.

    It has no login: it exposes names and states, never payloads. Serve it on an internal network only.
    """

    def __init__(self, app: Mainspring, *, limits: HealthLimits | None = None) -> None:
        """Create it; ``limits`` are the thresholds of health [those of ``app.health()``]."""
        self._app = app
        self._readings = Readings(app, limits)

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
            case "/health/live":
                return live_response()
            case "/health/ready":
                return await ready_response(self._readings, detailed=False)
            case "/metrics":
                return await metrics_response(self._app)
            case _:
                raise Problem(404, "not_found", "no such path: use /health/live, /health/ready or /metrics")
