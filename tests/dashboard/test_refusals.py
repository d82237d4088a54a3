"""Whatever changes something is refused to whoever is not known, not allowed, or sent by somebody else's page."""

from typing import Any

import httpx2
import pytest

from mainspring.dashboard.route import Route
from tests.dashboard.browser import Browser
from tests.dashboard.report import record
from tests.dashboard.scene import CSRF, OPERATOR, VIEWER, Scene, at_work, opened
from tests.dashboard.wishes import CHANGING, asked

FOREIGN = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}


async def _attempts(scene: Scene, route: Route, path: str, body: Any) -> dict[str, httpx2.Response]:
    """One right request, made wrong in one way at a time."""
    operator, viewer, nobody = (Browser(scene.dashboard) for _ in range(3))
    await operator.log_in(OPERATOR)
    await viewer.log_in(VIEWER)
    answers = {
        "no login": await nobody.post(path, body),
        "viewer": await viewer.post(path, body),
        "cross-origin": await operator.post(path, body, **FOREIGN),
        "no CSRF token": await operator.post(path, body, **{CSRF: None}),
        "not JSON": await operator.client.post(
            path, content=b"{}", headers={"Content-Type": "text/plain", CSRF: operator.csrf}
        ),
        "GET": await operator.client.get(path, headers={CSRF: operator.csrf}),
    }
    for each in (operator, viewer, nobody):
        await each.client.aclose()
    return answers


def _is_refused(way: str, route: Route, answer: httpx2.Response) -> bool:
    match way:
        case "no login":
            return answer.status_code == 401
        case "not JSON":
            return answer.status_code == 415
        case "GET":
            # Where a path is also read, reading it is all that happens.
            return answer.status_code == (200 if route.path in ("/api/messages", "/api/bulk") else 405)
        case _:
            return answer.status_code == 403


async def test_every_route_that_changes_something_refuses_whoever_may_not(request: pytest.FixtureRequest) -> None:
    failures: list[tuple[str, str, int]] = []
    refused = 0

    async with opened() as scene, at_work(scene):
        for route in CHANGING:
            path, body = await asked(scene, route)
            before = await scene.actions()
            for way, answer in (await _attempts(scene, route, path, body)).items():
                if _is_refused(way, route, answer):
                    refused += 1
                else:
                    failures.append((route.path, way, answer.status_code))
            assert await scene.actions() == before, route.path

        await scene.dashboard.aclose()
        told = [(by, action, what) for by, action, what, _ in await scene.accesses() if action != "log in"]

    record(request.node, len(CHANGING), 6, refused)
    # Of each the first at once, and how many more there were when it ended.
    senders = ("unknown", "viewer (dashboard)", "operator (dashboard)")
    ends = [CHANGING[0].path, CHANGING[-1].path]
    assert told == [(by, "refused", f"POST {path}") for path in ends for by in senders]
    assert failures == []
    assert refused == len(CHANGING) * 6


@pytest.mark.parametrize("route", CHANGING, ids=lambda route: route.path)
async def test_a_right_request_reaches_it(route: Route) -> None:
    async with opened() as scene, at_work(scene):
        path, body = await asked(scene, route)
        browser = Browser(scene.dashboard)
        await browser.log_in(OPERATOR)

        answer = await browser.post(path, body)

        assert answer.status_code == route.status, answer.text
        await browser.client.aclose()


def test_there_is_a_right_request_for_every_route_that_changes_something() -> None:
    from tests.dashboard.wishes import _BODIES

    assert {route.path for route in CHANGING} == set(_BODIES)
