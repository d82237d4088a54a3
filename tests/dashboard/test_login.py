"""Tokens, cookies and how often one may try."""

import asyncio
import time
from http.cookies import SimpleCookie
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request

from mainspring.dashboard.security.headers import client_of as counted_client_of
from mainspring.dashboard.security.identity import LASTS, Sessions, Tokens, environment_tokens
from mainspring.model.errors import BadOption
from tests.dashboard.browser import Browser
from tests.dashboard.scene import BASE, OPERATOR, VIEWER, Scene, client_of, opened

TLS = "https://ops.example"


def _cookie(answer: httpx2.Response) -> SimpleCookie:
    return SimpleCookie(answer.headers["set-cookie"])


async def test_a_token_opens_a_session_of_its_role(scene: Scene) -> None:
    browser = Browser(scene.dashboard)

    answer = await browser.log_in(VIEWER)

    assert answer.status_code == 204
    session = (await browser.client.get("/api/session")).json()
    assert (session["user"], session["role"], session["login"]) == ("viewer", "viewer", True)
    assert session["csrf"], "also viewers log out"


async def test_on_tls_the_cookie_is_bound_to_the_host_and_never_sent_in_the_clear(scene: Scene) -> None:
    browser = Browser(scene.dashboard, TLS)

    answer = await browser.log_in(OPERATOR)

    morsel = _cookie(answer)["__Host-mainspring"]
    assert morsel["secure"]
    assert morsel["httponly"]
    assert (morsel["samesite"], morsel["path"], morsel["domain"]) == ("Strict", "/", "")
    assert int(morsel["max-age"]) == 12 * 60 * 60


async def test_on_plain_http_the_cookie_has_a_name_of_its_own_for_every_port(scene: Scene) -> None:
    browser = Browser(scene.dashboard, BASE)

    answer = await browser.log_in(OPERATOR)

    morsel = _cookie(answer)["mainspring-8321"]
    assert not morsel["secure"]
    assert morsel["httponly"]
    assert morsel["samesite"] == "Strict"


async def test_behind_a_proxy_that_speaks_tls_the_cookie_is_secure_by_what_the_browser_says(scene: Scene) -> None:
    client = client_of(scene.dashboard, {"Origin": TLS, "Host": "ops.example"}, "http://ops.example")

    answer = await client.post("/api/login", json={"token": OPERATOR})

    assert "__Host-mainspring" in _cookie(answer)


async def test_a_wrong_token_is_answered_like_any_other(scene: Scene) -> None:
    client = scene.client()
    wrongs = ("x", OPERATOR[:-1], VIEWER + "x")

    answers = await asyncio.gather(*(client.post("/api/login", json={"token": wrong}) for wrong in wrongs))

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert all("set-cookie" not in answer.headers for answer in answers)


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("[2001:db8:1:3::9]", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("[2001:db8:1:3::9]:4711", "2001:db8:1:3::/64"),
        ("unknown", "unknown"),
        ("", "unknown"),
    ],
)
def test_all_addresses_of_one_network_of_ipv6_count_as_one(address: str, counted: str) -> None:
    direct = Request({"type": "http", "headers": [], "client": (address, 1)})
    forwarded = Request({"type": "http", "headers": [(b"x-forwarded-for", address.encode())], "client": None})

    assert counted_client_of(direct, trust_proxy=False) == counted
    assert counted_client_of(forwarded, trust_proxy=True) == counted


@pytest.mark.parametrize(
    "sent", [["192.0.2.1, 192.0.2.7"], ["192.0.2.1", "192.0.2.7"], ["192.0.2.1, 10.0.0.1", "192.0.2.7"]]
)
def test_of_forwarded_addresses_the_proxys_own_word_counts(sent: list[str]) -> None:
    """Some proxies add theirs to the header that is there, others add a header of their own."""
    headers = [(b"x-forwarded-for", each.encode()) for each in sent]
    request = Request({"type": "http", "headers": headers, "client": ("10.0.0.2", 1)})

    assert counted_client_of(request, trust_proxy=True) == "192.0.2.7"
    assert counted_client_of(request, trust_proxy=False) == "10.0.0.2"


async def test_a_token_in_a_header_needs_no_cookie_and_no_csrf_token(scene: Scene) -> None:
    async with scene.operator() as client:
        answer = await client.post("/api/consumers/pause", json={"group": "ship"})

    assert answer.status_code == 204
    assert (await scene.actions())[-1] == ("operator (dashboard)", "pause", "ship")


async def test_a_token_in_a_header_does_not_make_a_foreign_page_ours(scene: Scene) -> None:
    async with scene.operator() as client:
        answer = await client.post(
            "/api/consumers/pause", json={"group": "ship"}, headers={"Origin": "https://evil.example"}
        )

    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 204),
        ({"Origin": BASE}, 204),
        ({"Referer": f"{BASE}/consumers"}, 204),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:9999"}, 403),
        ({"Origin": "http://localhost:8321.evil.example"}, 403),
        ({"Referer": "https://evil.example/localhost:8321"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": BASE, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example", "X-Forwarded-Host": "evil.example"}, 403),
    ],
)
async def test_a_cookie_counts_only_on_pages_of_ours(scene: Scene, headers: dict[str, str], status: int) -> None:
    browser = Browser(scene.dashboard)
    await browser.log_in(OPERATOR)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    async with scene.client(Cookie=cookie) as client:
        answer = await client.post(
            "/api/consumers/pause", json={"group": "ship"}, headers={"X-Mainspring-Csrf": browser.csrf, **headers}
        )

    assert answer.status_code == status, answer.text


async def test_a_csrf_token_of_another_session_does_not_count(scene: Scene) -> None:
    one, other = Browser(scene.dashboard), Browser(scene.dashboard)
    await one.log_in(OPERATOR)
    await other.log_in(OPERATOR)
    one.csrf = other.csrf

    answer = await one.post("/api/consumers/pause", {"group": "ship"})

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "csrf"


async def test_who_logs_out_is_not_known_any_more_even_with_the_old_cookie(scene: Scene) -> None:
    browser = Browser(scene.dashboard)
    await browser.log_in(OPERATOR)
    kept = dict(browser.client.cookies)

    answer = await browser.post("/api/logout")

    assert answer.status_code == 204
    assert not dict(browser.client.cookies)
    browser.client.cookies.update(kept)
    assert (await browser.client.get("/api/overview")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Cookie": ""}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"X-Mainspring-Csrf": None}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({}, 204),
    ],
)
async def test_nobody_is_logged_out_by_somebody_elses_page(
    scene: Scene, headers: dict[str, str | None], status: int
) -> None:
    browser = Browser(scene.dashboard)
    await browser.log_in(VIEWER)

    answer = await browser.post("/api/logout", **headers)

    assert answer.status_code == status


async def test_processes_with_the_same_tokens_accept_each_others_sessions() -> None:
    tokens = Tokens({"operator": OPERATOR, "viewer": VIEWER})
    here, there = Sessions(tokens), Sessions(Tokens({"operator": OPERATOR, "viewer": VIEWER}))

    session = here.begin("operator")

    assert there.read(here.signed(session)) == session
    assert there.csrf(session) == here.csrf(session)


@pytest.mark.parametrize(
    "changed",
    [
        Sessions(Tokens({"operator": "another-token-altogether", "viewer": VIEWER})),
        Sessions(Tokens({"viewer": VIEWER})),
        Sessions(Tokens({"operator": OPERATOR}), "a secret of the house"),
    ],
    ids=["another token", "no token any more", "another secret"],
)
def test_whoever_changes_a_token_ends_its_sessions(changed: Sessions) -> None:
    before = Sessions(Tokens({"operator": OPERATOR, "viewer": VIEWER}))

    cookie = before.signed(before.begin("operator"))

    assert before.read(cookie) is not None
    assert changed.read(cookie) is None


def test_a_session_is_over_after_twelve_hours() -> None:
    now = 1_000_000.0
    sessions = Sessions(Tokens({"viewer": VIEWER}), clock=lambda: now)
    cookie = sessions.signed(sessions.begin("viewer"))

    now += LASTS - 1
    assert sessions.read(cookie) is not None
    now += 1
    assert sessions.read(cookie) is None


@pytest.mark.parametrize(
    "cookie", ["", ".", "operator", "operator.x.1", "viewer.id.9999999999.00", "admin.id.9999999999.00", "ü.ü.ü.ü"]
)
def test_a_cookie_that_was_not_signed_here_is_nobodys(cookie: str) -> None:
    sessions = Sessions(Tokens({"operator": OPERATOR, "viewer": VIEWER}))

    assert sessions.read(cookie) is None


def test_a_viewers_cookie_cannot_be_made_an_operators() -> None:
    sessions = Sessions(Tokens({"operator": OPERATOR, "viewer": VIEWER}))
    cookie = sessions.signed(sessions.begin("viewer"))

    assert sessions.read(cookie.replace("viewer", "operator", 1)) is None
    assert sessions.read(cookie.replace(".", f".{int(time.time())}", 1)) is None


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ({"operator": "x7-Kp2_vQz9LmT4bRw8sYdE"}, "at least 24 characters"),
        ({"operator": "abcdefg" * 5}, "8 of them different: `python -c"),
        ({"operator": "with a space in the middle"}, "without spaces"),
        ({"admin": OPERATOR}, "use 'operator' and 'viewer'"),
        ({"operator": OPERATOR, "viewer": OPERATOR}, "the same token for both roles"),
    ],
)
async def test_tokens_that_protect_nothing_are_refused(tokens: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        async with opened(dead=0, tokens=tokens):
            pass


def test_tokens_may_come_from_the_environment_or_from_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{VIEWER}\n")

    around = {
        "MAINSPRING_DASHBOARD_OPERATOR_TOKEN": OPERATOR,
        "MAINSPRING_DASHBOARD_VIEWER_TOKEN_FILE": str(file),
    }

    assert environment_tokens(around) == {"operator": OPERATOR, "viewer": VIEWER}
    with pytest.raises(BadOption, match="are both set"):
        environment_tokens({**around, "MAINSPRING_DASHBOARD_VIEWER_TOKEN": VIEWER})
    with pytest.raises(BadOption, match="cannot be read"):
        environment_tokens({"MAINSPRING_DASHBOARD_VIEWER_TOKEN_FILE": str(tmp_path / "none")})
