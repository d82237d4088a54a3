"""Every answer carries what keeps a browser from being misled; files are files of ours."""

import asyncio
import re
from typing import Any

import pytest

from mainspring.dashboard.pages import asset, build
from tests.dashboard.browser import Browser
from tests.dashboard.scene import OPERATOR, Scene, opened
from tests.dashboard.served import served

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/messages/01890a5d-ac96-774b-bcce-b302099a8057", 200),
        ("/static/icon.svg", 200),
        ("/static/none.js", 404),
        ("/api/session", 200),
        ("/api/overview", 401),
        ("/api/none", 404),
        ("/health/live", 200),
        ("/health/ready", 200),
        ("/metrics", 401),
    ],
)
async def test_every_answer_has_the_headers(scene: Scene, path: str, status: int) -> None:
    async with scene.client() as client:
        answer = await client.get(path)

    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in answer.headers["permissions-policy"]
    fresh = path == "/" or path.startswith("/messages") or path == "/static/icon.svg"
    assert answer.headers["cache-control"] == ("no-cache" if fresh else "no-store")


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("POST", "/api/login", {"json": {"token": "wrong"}}, 401),
        ("POST", "/api/login", {"json": {}}, 422),
        ("POST", "/api/login", {"content": b"x" * 5000, "headers": {"Content-Type": "application/json"}}, 413),
        ("POST", "/api/login", {"content": b"{}"}, 415),
        ("POST", "/api/login", {"json": {}, "headers": {"Origin": "https://evil.example"}}, 403),
        ("POST", "/api/consumers/pause", {"json": {}}, 401),
        ("DELETE", "/api/overview", {}, 405),
        ("OPTIONS", "/api/login", {}, 405),
        ("TRACE", "/", {}, 405),
        ("HEAD", "/api/overview", {}, 401),
        ("HEAD", "/", {}, 200),
        ("GET", "/api/session?" + "x" * 9000, {}, 422),
        ("GET", "//evil.example/%2e%2e", {}, 200),
        ("GET", "/api/broken", {}, 404),
    ],
)
async def test_every_refusal_has_the_headers_too(
    scene: Scene, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    async with scene.client() as client:
        answer = await client.request(method, f"http://localhost:8321{path}", **sent)

    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "//api/overview",
        "/api//overview",
        "/api/overview/",
        "/api/overview//",
        "/API/overview",
        "/api/%6fverview",
        "/api%2foverview",
        "/static/../api/overview",
        "/static/%2e%2e/api/overview",
        "/health/live/../../api/overview",
        "/api/overview;.css",
        "/api/overview%00.css",
        "/api/overview?_method=POST",
    ],
)
@pytest.mark.parametrize("headers", [{}, {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/health/live"}])
async def test_no_way_of_writing_a_path_leads_past_the_login(scene: Scene, path: str, headers: dict[str, str]) -> None:
    async with served(scene.dashboard) as url:
        host, _, port = url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{told}\r\n".encode())
        answer = (await reader.read()).decode()
        writer.close()

    refused = answer.split(" ")[1] in ("401", "404", "422")
    assert refused or "<!doctype html>" in answer
    assert "totals" not in answer


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_origin_measures_nothing_with_our_cookie(scene: Scene, site: str) -> None:
    browser = Browser(scene.dashboard)
    await browser.log_in(OPERATOR)
    browser.client.headers.pop("Origin")
    browser.client.headers.pop("Sec-Fetch-Site")

    foreign = await browser.client.get("/api/messages", headers={"Sec-Fetch-Site": site})
    typed = await browser.client.get("/api/messages", headers={"Sec-Fetch-Site": "none"})
    own = await browser.client.get("/api/messages", headers={"Sec-Fetch-Site": "same-origin"})
    async with scene.operator() as program:
        sent = await program.get("/api/messages", headers={"Sec-Fetch-Site": site})

    assert [each.status_code for each in (foreign, typed, own, sent)] == [403, 200, 200, 200]


@pytest.mark.parametrize(
    "bomb", [b'{"token":' + b"[" * 4000, b'{"token":' + b'{"a":' * 600 + b"1" + b"}" * 600 + b"}", b"9" * 4000]
)
async def test_a_body_that_is_nested_or_long_is_refused_in_words(scene: Scene, bomb: bytes) -> None:
    async with scene.client() as client:
        answer = await client.post("/api/login", content=bomb, headers={"Content-Type": "application/json"})

    assert answer.status_code == 422
    assert len(answer.text) < 500


async def test_nothing_says_that_other_origins_may_read(scene: Scene) -> None:
    async with scene.client(Origin="https://evil.example") as client:
        asked = await client.options("/api/overview", headers={"Access-Control-Request-Method": "POST"})

    assert asked.status_code == 405
    assert not any(name.startswith("access-control") for name in asked.headers)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("css/tokens.css", "text/css"), ("js/main.js", "text/javascript"), ("icon.svg", "image/svg+xml")],
)
async def test_a_file_is_sent_once_and_then_only_asked_for(scene: Scene, path: str, kind: str) -> None:
    async with scene.client() as client:
        first = await client.get(f"/static/{path}")
        again = await client.get(f"/static/{path}", headers={"If-None-Match": first.headers["etag"]})
        head = await client.head(f"/static/{path}")

    assert first.headers["content-type"].split(";")[0] == kind
    assert first.content == asset(path)
    assert (again.status_code, again.content) == (304, b"")
    assert head.status_code == 200


async def test_a_file_at_the_address_in_the_page_is_asked_for_once_and_never_again(scene: Scene) -> None:
    async with scene.client() as client:
        page = (await client.get("/")).text
        addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
        answers = [await client.get(each) for each in addresses]
        of_another = await client.get(f"/static/{'0' * 16}/js/main.js")

    assert len(addresses) > 5
    assert {each.status_code for each in answers} == {200}
    assert {each.headers["cache-control"] for each in answers} == {"max-age=31536000, immutable"}
    assert (of_another.content, of_another.headers["cache-control"]) == (asset("js/main.js"), "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        "../dashboard.py",
        "..%2fdashboard.py",
        "%2e%2e/dashboard.py",
        "js/../../dashboard.py",
        "js/..%5c..%5cdashboard.py",
        "/etc/passwd",
        "//etc/passwd",
        "js",
        "js/",
        ".hidden.js",
        "js/main.js%00.css",
        "index.html/",
        "a/b/c/d/e/f/g.js",
    ],
)
async def test_no_path_leads_out_of_the_files(scene: Scene, path: str) -> None:
    async with scene.client() as client:
        answer = await client.get(f"/static/{path}")

    assert answer.status_code == 404 or b"<!doctype html>" in answer.content
    assert b"class Dashboard" not in answer.content
    assert b"root:" not in answer.content


async def test_the_shell_says_under_which_path_it_stands() -> None:
    async with opened(dead=0, root_path="/ops/") as scene, scene.client() as client:
        page = (await client.get("/messages")).text

    assert '<meta name="mainspring-root" content="/ops">' in page
    assert f'src="/ops/static/{build()}/js/main.js"' in page


@pytest.mark.parametrize("prefix", ['/"><script>alert(1)</script>', "//evil.example", "https://evil.example", "/a b"])
async def test_a_prefix_that_is_no_path_is_not_written_into_the_page(prefix: str) -> None:
    async with opened(dead=0, trust_proxy=True) as scene, scene.client(**{"X-Forwarded-Prefix": prefix}) as client:
        page = (await client.get("/")).text

    assert '<meta name="mainspring-root" content="">' in page


async def test_only_get_is_answered_by_pages_and_files(scene: Scene) -> None:
    async with scene.client() as client:
        answers = [await client.post(path) for path in ("/", "/static/icon.svg", "/health/live")]

    assert [answer.status_code for answer in answers] == [405, 405, 405]
    assert answers[0].headers["allow"] == "GET, HEAD"
