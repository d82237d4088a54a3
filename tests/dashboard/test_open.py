"""There is no dashboard without authentication: whether a request comes from this machine cannot be known."""

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring import Mainspring
from mainspring.dashboard import Dashboard
from mainspring.dashboard.api import TABLE
from mainspring.model.errors import BadOption
from tests.dashboard.proxied import proxied
from tests.dashboard.scene import BASE, OPERATOR, VIEWER, Scene, opened
from tests.dashboard.served import served

READ = ["/metrics", "/api/openapi.json"]
READ += [route.path for route in TABLE if route.method == "GET" and route.role is not None]


@pytest.mark.parametrize("options", [{}, {"tokens": None}, {"tokens": {}}, {"hosts": []}, {"trust_proxy": True}])
def test_a_dashboard_without_authentication_is_refused_with_what_to_write(options: Any) -> None:
    with pytest.raises(BadOption) as refused:
        Dashboard(Mainspring("memory://"), **options)

    assert "has no authentication" in str(refused.value)
    assert "MAINSPRING_DASHBOARD_OPERATOR_TOKEN" in str(refused.value)
    assert "Dashboard(app, tokens={'operator': '…', 'viewer': '…'})" in str(refused.value)
    assert "Dashboard(app, authenticate=…)" in str(refused.value)


def test_tokens_of_the_environment_are_authentication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_DASHBOARD_VIEWER_TOKEN", VIEWER)

    assert Dashboard(Mainspring("memory://"))._gate.has_login


@pytest.mark.parametrize("prefix", ["", "/ops"], ids=["by itself", "mounted"])
async def test_through_a_proxy_that_adds_no_header_nothing_is_shown_to_strangers(scene: Scene, prefix: str) -> None:
    host: Any = Starlette(routes=[Mount(prefix, scene.dashboard)]) if prefix else scene.dashboard
    async with served(host, closing=scene.dashboard.end_streams) as url:
        with proxied(url) as outside:
            async with httpx2.AsyncClient(base_url=f"{outside}{prefix}") as stranger:
                refused = {path: await stranger.get(path.replace("{id}", scene.dead[0])) for path in READ}
                session = (await stranger.get("/api/session")).json()
                known = await stranger.get("/api/overview", headers={"Authorization": f"Bearer {OPERATOR}"})

    assert {path: each.status_code for path, each in refused.items() if each.status_code != 401} == {}
    assert all(each.json()["error"]["code"] == "not_logged_in" for each in refused.values())
    assert (session["role"], session["user"], session["version"]) == (None, None, "")
    assert known.status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8321", 200),
        ("127.0.0.1", 200),
        ("[::1]:8321", 200),
        ("shop.localhost", 200),
        ("ops.example", 200),
        ("OPS.example:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8321", 421),
        ("localhost:notaport", 421),
        ("", 421),
    ],
)
async def test_a_name_that_was_bent_to_this_machine_is_not_answered(host: str, status: int) -> None:
    async with opened(dead=0, hosts=["ops.example"]) as scene:
        transport = httpx2.ASGITransport(scene.dashboard)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, headers={"Host": host}) as client:
            answers = [await client.get(path) for path in ("/api/session", "/", "/static/icon.svg", "/login")]
            answers.append(await client.post("/api/login", json={"token": OPERATOR}))

    assert {each.status_code for each in answers} <= {status, 204}
    assert (answers[-1].status_code == 204) is (status == 200)


def test_one_host_is_still_a_list() -> None:
    with pytest.raises(BadOption, match="one name"):
        Dashboard(Mainspring("memory://"), hosts="ops.example")
