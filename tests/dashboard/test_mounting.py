"""The dashboard within other applications: under a prefix, behind a proxy, with the host's own life."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring import Mainspring
from mainspring.dashboard import Dashboard
from tests.dashboard.browser import Browser
from tests.dashboard.scene import OPERATOR, VIEWER, client_of, shop
from tests.dashboard.served import served

TOKENS: Any = {"operator": OPERATOR}


def _starlette(dashboard: Dashboard) -> Any:
    return Starlette(routes=[Mount("/ops", dashboard)])


def _fastapi(dashboard: Dashboard) -> Any:
    host = FastAPI()
    host.mount("/ops", dashboard)
    return host


def _litestar(dashboard: Dashboard) -> Any:
    @asgi("/ops", is_mount=True, copy_scope=True)
    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await dashboard(scope, receive, send)

    return Litestar([mounted], logging_config=None)  # or it would change that of all other tests


def _django(dashboard: Dashboard) -> Any:
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={})  # as every test of this process that needs any
    django = get_asgi_application()

    async def host(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/ops/"):
            await dashboard({**scope, "root_path": "/ops"}, receive, send)
        else:
            await django(scope, receive, send)

    return host


HOSTS: dict[str, Callable[[Dashboard], Any]] = {
    "starlette": _starlette,
    "fastapi": _fastapi,
    "litestar": _litestar,
    "django": _django,
}


@asynccontextmanager
async def _hosted(name: str, **options: Any) -> AsyncIterator[tuple[Any, Mainspring]]:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS, **options)
    async with app:
        yield HOSTS[name](dashboard), app
    await dashboard.aclose()


@pytest.mark.parametrize("name", HOSTS)
async def test_it_is_mounted_under_a_prefix(name: str) -> None:
    async with _hosted(name) as (host, app), served(host) as url, httpx2.AsyncClient(base_url=url) as client:
        await app.declare()
        page = await client.get("/ops/schedules")
        deep = await client.get("/ops/messages/01890a5d-ac96-774b-bcce-b302099a8057")
        file = await client.get("/ops/static/js/main.js")
        seen = await client.get("/ops/api/consumers", headers={"Authorization": f"Bearer {OPERATOR}"})
        ready = await client.get("/ops/health/ready")

    assert '<meta name="mainspring-root" content="/ops">' in page.text
    assert '<meta name="mainspring-root" content="/ops">' in deep.text
    assert file.status_code == 200
    assert [row["group"] for row in seen.json()["rows"]][:2] == ["charge", "plan:mail.sync:inbox"]
    assert ready.status_code == 200


@pytest.mark.parametrize("name", HOSTS)
async def test_a_login_under_a_prefix_changes_something(name: str) -> None:
    async with _hosted(name) as (host, app), served(host) as url:
        await app.declare()
        async with httpx2.AsyncClient(base_url=f"{url}/ops", headers={"Origin": url}) as client:
            await client.post("/api/login", json={"token": OPERATOR})
            csrf = (await client.get("/api/session")).json()["csrf"]
            done = await client.post(
                "/api/consumers/pause", json={"group": "ship"}, headers={"X-Mainspring-Csrf": csrf}
            )
        paused = {each.name: each.paused_by for each in await app.groups.list()}

    assert done.status_code == 204
    assert paused["ship"] == "operator (dashboard)"


async def test_a_proxy_that_takes_the_prefix_off_is_told_by_configuration() -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS, root_path="/tools/ops")

    async with app, client_of(dashboard) as client:
        page = (await client.get("/messages")).text

    assert '<meta name="mainspring-root" content="/tools/ops">' in page


@pytest.mark.parametrize("path", ["/ops/messages", "/tools/ops/messages"])
async def test_a_server_that_knows_of_its_proxys_prefix_hands_it_on(path: str) -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS)
    transport = httpx2.ASGITransport(_starlette(dashboard), root_path="/tools")

    async with app, httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        page = (await client.get(path)).text
        seen = await client.get(path.replace("messages", "api/session"))

    assert '<meta name="mainspring-root" content="/tools/ops">' in page
    assert seen.json()["app"] == "shop"


async def test_a_proxy_that_is_trusted_says_where_the_browser_is() -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS, trust_proxy=True)
    forwarded = {
        "X-Forwarded-Host": "ops.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Prefix": "/tools",
        "Origin": "https://ops.example",
    }

    async with app, client_of(dashboard, forwarded, "http://10.0.0.7:8321") as client:
        await app.declare()
        page = (await client.get("/")).text
        login = await client.post("/api/login", json={"token": OPERATOR})

    assert '<meta name="mainspring-root" content="/tools">' in page
    assert login.status_code == 204
    assert login.headers["set-cookie"].startswith("__Host-mainspring-")


async def test_two_dashboards_of_one_host_keep_their_logins_apart() -> None:
    apps = {path: shop() for path in ("/a", "/b")}
    boards = [Mount(path, Dashboard(app, tokens={**TOKENS, "viewer": VIEWER})) for path, app in apps.items()]
    origin = {"Origin": "https://ops.example"}

    async with (
        apps["/a"],
        apps["/b"],
        client_of(Starlette(routes=boards), origin, "https://ops.example") as client,
    ):
        for path, token in (("/a", OPERATOR), ("/b", VIEWER)):
            assert (await client.post(f"{path}/api/login", json={"token": token})).status_code == 204
        users = [(await client.get(f"{path}/api/session")).json()["user"] for path in apps]
        schemes = [(await client.get(f"{path}/api/openapi.json")).json()["components"] for path in apps]
        names = {each["securitySchemes"]["session"]["name"] for each in schemes}

        assert users == ["operator", "viewer"]
        assert set(client.cookies) == names
        csrf = (await client.get("/a/api/session")).json()["csrf"]
        await client.post("/a/api/logout", json={}, headers={"X-Mainspring-Csrf": csrf})
        assert [(await client.get(f"{path}/api/session")).json()["user"] for path in apps] == [None, "viewer"]


async def test_a_proxy_that_is_not_trusted_is_not_believed() -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS)

    async with app:
        await app.declare()
        browser = Browser(dashboard)
        await browser.log_in(OPERATOR)
        answer = await browser.post(
            "/api/consumers/pause",
            {"group": "ship"},
            **{"Origin": "https://evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "/evil"},
        )
        page = (await browser.client.get("/", headers={"X-Forwarded-Prefix": "/evil"})).text

    assert answer.status_code == 403
    assert '<meta name="mainspring-root" content="">' in page


async def test_the_dashboard_opens_the_app_where_nobody_else_has() -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS)

    async with client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
        answer = await client.get("/api/consumers")

    assert answer.status_code == 200
    assert (await app.audit()) == []
    await dashboard.aclose()
    async with client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
        assert (await client.get("/api/consumers")).status_code == 200
    await dashboard.aclose()


async def test_an_app_that_its_owner_has_closed_is_not_opened_again() -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS)

    async with client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
        async with app:
            before = await client.get("/api/consumers")
        after = await client.get("/api/consumers")

    assert before.status_code == 200
    assert after.status_code == 503
    assert after.json()["error"]["code"] == "not_open"
    await dashboard.aclose()


async def test_served_by_itself_it_opens_and_closes_the_app() -> None:
    app = shop()
    dashboard = Dashboard(app, tokens=TOKENS)

    async with served(dashboard, lifespan=True, closing=dashboard.end_streams) as url:
        assert await app.audit() == [], "it is open"
        async with httpx2.AsyncClient(base_url=url) as client:
            assert (await client.get("/health/ready")).status_code == 200

    with pytest.raises(Exception, match="needs an open app"):
        await app.audit()


async def test_a_websocket_is_refused() -> None:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    receive: Callable[[], Awaitable[Any]] = lambda: None  # type: ignore[assignment, return-value]  # noqa: E731
    await Dashboard(shop(), tokens=TOKENS)({"type": "websocket", "path": "/"}, receive, send)

    assert json.dumps(said) == '[{"type": "websocket.close", "code": 1008}]'


async def test_a_session_that_is_read_first_does_not_keep_the_app_closed(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/shop.db")
    await app.migrate()
    dashboard = Dashboard(app, tokens=TOKENS)

    async with client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
        session = await client.get("/api/session")  # as every page does
        seen = await client.get("/api/consumers")
    await dashboard.aclose()

    assert (session.status_code, seen.status_code) == (200, 200)
