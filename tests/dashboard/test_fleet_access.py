"""Who may do what in the dashboard of a fleet: one login for all databases, and without it not even their names."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from mainspring import Fleet
from mainspring.dashboard import FleetDashboard, Identity
from mainspring.dashboard.api import FLEET_TABLE, TABLE
from tests.dashboard.browser import Browser
from tests.dashboard.scene import BASE, CSRF, OPERATOR, VIEWER, client_of
from tests.dashboard.served import served
from tests.dashboard.tenants import FIRST, HOSTILE, TOKENS, Files, at, opened, paused_by, rows, shop, viewer, written


def _paths() -> Iterator[tuple[str, str]]:
    for table in (TABLE, FLEET_TABLE):
        for route in table:
            yield route.method, route.path.replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
    for path in (
        "/metrics",
        "/api/openapi.json",
        "/health",
        "/health/live",
        "/health/ready",
        "/api/nothing",
        "/",
        "/x",
    ):
        yield "GET", path


async def test_without_login_no_database_answers_and_none_is_opened_or_betrayed(files: Files) -> None:
    fleet = Fleet(shop(), files("acme", "bolt"))
    dashboard = FleetDashboard(fleet, tokens=TOKENS)
    public = ("/api/session", "/api/login", "/api/watch", "/", "/x", "/api/nothing")
    async with fleet, client_of(dashboard) as client:
        for method, path in dict.fromkeys(_paths()):
            body: Any = {"json": {}} if method == "POST" else {}
            told = []
            for name in ("bolt", "nope"):
                answer = await client.request(method, at(name, path), **body)
                told.append((answer.status_code, _timeless(answer.text.replace(name, "…"))))
            assert told[0] == told[1], f"{method} {path} tells which databases there are"
            assert path in public or told[0][0] in (401, 404, 405), (method, path, told)
        for path in ("/api/fleet", "/api/databases", "/api/databases/names", "/metrics", "/api/openapi.json"):
            assert (await client.get(path)).status_code == 401, path
        opened_at = {name: fleet[name]._own.connection.is_open for name in fleet}
    await dashboard.aclose()

    assert opened_at == {"acme": False, "bolt": False}


def _timeless(text: str) -> str:
    return json.dumps({**json.loads(text), "now": ""}) if text.startswith('{"user"') else text


async def test_a_viewer_acts_in_no_database_and_the_attempt_is_recorded(files: Files) -> None:
    async with opened(files(FIRST, "bolt")) as (fleet, dashboard), viewer(dashboard) as client:
        answer = await client.post(at("bolt", "/api/consumers/pause"), json={"group": "ship"})
        elsewhere = await client.post(at("nope", "/api/consumers/pause"), json={"group": "ship"})
        await written(dashboard)
        paused = await paused_by(fleet["bolt"])
        [line] = [each for each in await fleet[FIRST].audit() if each.action == "refused"]

    assert (answer.status_code, elsewhere.status_code) == (403, 403)
    assert paused is None
    assert (line.subject, line.by) == ("POST /db/bolt/api/consumers/pause", "viewer (dashboard)")


async def test_one_login_is_for_all_databases_and_ends_for_all(files: Files) -> None:
    async with opened(files("acme", "bolt")) as (fleet, dashboard):
        browser = Browser(dashboard)
        await browser.log_in(OPERATOR)
        refused = await browser.post(at("bolt", "/api/consumers/pause"), {"group": "ship"}, **{CSRF: None})
        foreign = await browser.post(
            at("bolt", "/api/consumers/pause"), {"group": "ship"}, Origin="https://evil.example"
        )
        untouched = await paused_by(fleet["bolt"])
        done = await browser.post(at("bolt", "/api/consumers/pause"), {"group": "ship"})
        by = await paused_by(fleet["bolt"])
        other = await paused_by(fleet["acme"])
        session = (await browser.client.get(at("acme", "/api/session"))).json()
        cookies = dict(browser.client.cookies.items())
        await browser.post(at("acme", "/api/logout"))
        browser.client.cookies.update(cookies)
        over = await browser.client.get(at("bolt", "/api/overview"))
        whole = await browser.client.get("/api/fleet")
        await browser.client.aclose()
        log = [(each.action, each.subject) for each in reversed(await fleet["acme"].audit())]

    assert (refused.status_code, foreign.status_code, untouched) == (403, 403, None)
    assert done.status_code == 204
    assert (by, other) == ("operator (dashboard)", None)
    assert (session["role"], session["database"], session["missing"]) == ("operator", "acme", False)
    assert (over.status_code, whole.status_code) == (401, 401)
    assert ("log in", "dashboard") in log
    assert ("log out", "dashboard") in log


async def test_guesses_are_counted_once_for_all_databases(files: Files) -> None:
    async with opened(files(FIRST, *(f"t{n}" for n in range(30)))) as (fleet, dashboard):
        async with client_of(dashboard, {"Authorization": "Bearer wrong"}) as client:
            answers = await asyncio.gather(*(client.get(at(f"t{n}", "/api/overview")) for n in range(30)))
        await written(dashboard)
        lines = [each for each in await fleet[FIRST].audit() if each.action.startswith("log in ")]

    assert sorted({answer.status_code for answer in answers}) == [401, 429]
    assert len(lines) == 2  # one of each kind, whatever the database


async def test_a_name_that_the_fleet_does_not_have_is_not_found(files: Files) -> None:
    async with opened(files("acme")) as (_, dashboard), viewer(dashboard) as client:
        page = await client.get("/db/nope/messages")
        answer = await client.get("/db/nope/api/overview")
        session = (await client.get("/db/nope/api/session")).json()
        there = await client.get("/db/acme/messages")
        too_long = await client.get(f"/db/{'x' * 201}/api/overview")

    assert (page.status_code, there.status_code) == (404, 200)
    assert '<meta name="mainspring-root" content="/db/nope">' in page.text
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_database")
    assert "no database 'nope'" in answer.json()["error"]["message"]
    assert session["missing"] is True
    assert too_long.status_code == 404


async def test_a_hostile_name_is_text_and_leads_to_its_database_alone(files: Files) -> None:
    async with (
        opened(files("acme", HOSTILE)) as (fleet, dashboard),
        served(dashboard) as url,
        viewer(dashboard) as inner,
    ):
        import httpx2

        await fleet.publish("orders.placed", {}, database=HOSTILE)
        headers = {"Authorization": f"Bearer {VIEWER}"}
        async with httpx2.AsyncClient(base_url=url, headers=headers) as client:
            page = await client.get(at(HOSTILE, "/"))
            totals = (await client.get(at(HOSTILE, "/api/overview"))).json()["totals"]
            other = (await client.get(at("acme", "/api/overview"))).json()["totals"]
            lower = await client.get(at(HOSTILE, "/messages?state=dead").replace("%3C", "%3c"))
        found = await rows(inner)

    assert "<img" not in page.text
    assert f'content="/db/{quote(HOSTILE, safe="")}"' in page.text
    assert (totals["ready"], other["ready"]) == (1, 0)
    # Pages compare their addresses with their root, which is encoded in one way.
    assert (lower.status_code, lower.headers["location"]) == (307, at(HOSTILE, "/messages?state=dead"))
    assert HOSTILE in found


@pytest.mark.parametrize("prefix", ["", "/ops"])
async def test_links_of_pages_are_below_the_database_and_files_below_the_whole(files: Files, prefix: str) -> None:
    fleet = Fleet(shop(), files("acme"))
    dashboard = FleetDashboard(fleet, tokens=TOKENS, root_path=prefix)
    async with fleet, client_of(dashboard) as client:
        page = (await client.get("/db/acme/consumers")).text
        whole = (await client.get("/")).text
        [script] = [part.split('"')[0] for part in page.split('src="') if "main.js" in part.split('"')[0]]
        file = await client.get(script.removeprefix(prefix))
    await dashboard.aclose()

    assert f'<meta name="mainspring-root" content="{prefix}/db/acme">' in page
    assert f'<meta name="mainspring-home" content="{prefix}">' in page
    assert f'<meta name="mainspring-root" content="{prefix}">' in whole
    assert script.startswith(f"{prefix}/static/")
    assert file.status_code == 200


async def test_a_login_of_the_host_application_is_for_all_databases(files: Files) -> None:
    async def ann(_request: Any) -> Identity:
        return Identity("ann", "operator")

    fleet = Fleet(shop(), files("acme", "bolt"))
    await fleet.migrate()
    await fleet.declare()
    dashboard = FleetDashboard(fleet, authenticate=ann)
    async with fleet, client_of(dashboard, {"Origin": BASE, "Sec-Fetch-Site": "same-origin"}) as client:
        csrf = (await client.get("/api/session")).json()["csrf"]
        without = await client.post(at("bolt", "/api/consumers/pause"), json={"group": "ship"})
        done = await client.post(at("bolt", "/api/consumers/pause"), json={"group": "ship"}, headers={CSRF: csrf})
        by = await paused_by(fleet["bolt"])
    await dashboard.aclose()

    assert (without.status_code, done.status_code, by) == (403, 204, "ann (dashboard)")
