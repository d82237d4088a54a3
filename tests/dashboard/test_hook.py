"""A host application that knows who asks."""

from typing import Any

import pytest
from starlette.requests import Request

from mainspring import Mainspring
from mainspring.dashboard import Dashboard, Identity
from mainspring.model.errors import BadOption
from tests.dashboard.browser import Browser
from tests.dashboard.scene import BASE, CSRF, opened


async def _by_header(request: Request) -> Identity | None:
    match request.headers.get("x-user"):
        case None:
            return None
        case "ada":
            return Identity("ada@example.com", "operator")
        case name:
            return Identity(name, "viewer")


async def test_the_host_application_says_who_asks_and_the_audit_names_them() -> None:
    async with opened(dead=0, tokens=None, authenticate=_by_header) as scene:
        browser = Browser(scene.dashboard)
        browser.client.headers["x-user"] = "ada"
        session = (await browser.client.get("/api/session")).json()
        browser.csrf = session["csrf"]

        answer = await browser.post("/api/consumers/pause", {"group": "ship"})

        assert (session["user"], session["role"], session["login"]) == ("ada@example.com", "operator", False)
        assert answer.status_code == 204
        assert (await scene.actions())[-1] == ("ada@example.com (dashboard)", "pause", "ship")


async def test_who_is_not_known_to_it_is_told_where_to_log_in() -> None:
    async with opened(dead=0, tokens=None, authenticate=_by_header) as scene, scene.client() as client:
        refused = await client.get("/api/overview")
        login = await client.post("/api/login", json={"token": "x" * 20})

    assert refused.status_code == 401
    assert "log in to the application that serves this dashboard" in refused.json()["error"]["message"]
    assert login.status_code == 404


async def test_a_viewer_of_the_host_application_changes_nothing() -> None:
    async with opened(dead=0, tokens=None, authenticate=_by_header) as scene:
        browser = Browser(scene.dashboard)
        browser.client.headers["x-user"] = "bert"
        browser.csrf = (await browser.client.get("/api/session")).json()["csrf"] or "x"

        answer = await browser.post("/api/consumers/pause", {"group": "ship"})

        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")


@pytest.mark.parametrize(
    ("host", "headers", "secure"),
    [
        ("ops.example.com", {"Sec-Fetch-Site": "same-origin"}, True),
        ("ops.example.com", {"Referer": "https://ops.example.com/ops/"}, True),
        ("ops.example.com", {"Origin": "https://ops.example.com"}, True),
        ("ops.example.com", {"Referer": "http://ops.example.com/ops/"}, False),
        ("ops.example.com", {}, False),
        ("localhost:8000", {"Sec-Fetch-Site": "same-origin"}, False),
    ],
)
async def test_behind_tls_the_cookie_is_secure_also_where_a_proxy_does_not_say_so(
    host: str, headers: dict[str, str], secure: bool
) -> None:
    async with opened(dead=0, tokens=None, authenticate=_by_header) as scene, scene.client(**headers) as client:
        answer = await client.get("/api/session", headers={"Host": host, "x-user": "ada"})

    assert ("; Secure" in answer.headers["set-cookie"]) is secure
    assert answer.headers["set-cookie"].startswith("__Host-") is secure


@pytest.mark.parametrize("headers", [{CSRF: None}, {CSRF: "made up"}, {"Origin": "https://evil.example"}])
async def test_what_the_host_knows_by_a_cookie_needs_our_token_and_our_page(headers: dict[str, Any]) -> None:
    async with opened(dead=0, tokens=None, authenticate=_by_header) as scene:
        browser = Browser(scene.dashboard)
        browser.client.headers["x-user"] = "ada"
        browser.csrf = (await browser.client.get("/api/session")).json()["csrf"]

        answer = await browser.post("/api/consumers/pause", {"group": "ship"}, **headers)

        assert answer.status_code == 403


@pytest.mark.parametrize(("said", "status"), [({}, 403), ({"ambient": False}, 204)])
async def test_a_bearer_token_that_only_the_host_knows_is_not_taken_for_proof_that_it_was_meant(
    said: dict[str, bool], status: int
) -> None:
    """The hook may have gone by a cookie and not looked at it: only the hook can say."""

    async def authenticate(_request: Request) -> Identity:
        return Identity("ada", "operator", **said)

    async with opened(dead=0, tokens=None, authenticate=authenticate) as scene, scene.client(Origin=BASE) as client:
        client.headers["Authorization"] = "Bearer anything"
        answer = await client.post("/api/consumers/pause", json={"group": "ship"})

    assert answer.status_code == status


async def test_a_hook_that_returns_something_else_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    async def wrong(_request: Request) -> Any:
        return {"name": "ada", "role": "operator"}

    async with opened(dead=0, tokens=None, authenticate=wrong) as scene, scene.client() as client:
        answer = await client.get("/api/overview")

    assert answer.status_code == 500
    assert "it must be an Identity, or None" in caplog.text


def test_tokens_and_a_hook_are_not_given_together() -> None:
    with pytest.raises(BadOption, match="both given"):
        Dashboard(Mainspring("memory://"), tokens={"viewer": "v" * 20}, authenticate=_by_header)
