"""Every answer carries what keeps a browser from being misled; files are files of ours."""

import re

import pytest

from mainspring.dashboard.assets import asset, build
from tests.dashboard.scene import Scene, opened

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
