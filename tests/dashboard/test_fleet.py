"""The dashboard of a fleet: one login for all databases, and none that costs another anything."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainspring import Fleet, Mainspring
from mainspring.app.fleet import survey
from mainspring.app.fleet.state import FleetState
from mainspring.cli.dashboard import dashboard_of
from mainspring.dashboard import Dashboard, FleetDashboard, Probes
from mainspring.dashboard.api import FLEET_TABLE
from mainspring.dashboard.openapi import document
from mainspring.model.errors import BadOption
from tests.dashboard.scene import OPERATOR, VIEWER, client_of, until
from tests.dashboard.served import served
from tests.dashboard.tenants import REFUSING, TOKENS, Files, at, opened, operator, rows, shop, viewer

# --- the overview -----------------------------------------------------------------------------------------


async def test_the_overview_has_a_row_for_every_database_and_the_sums(files: Files) -> None:
    async with opened(files("acme", "bolt")) as (fleet, dashboard), viewer(dashboard) as client:
        await fleet.publish_many([("orders.placed", {"n": n}) for n in range(3)], database="acme")
        await fleet.publish("orders.placed", {"n": 3}, database="bolt", delay="1h")
        found = await rows(client)
        sums = (await client.get("/api/fleet")).json()
        one = (await client.get(at("bolt", "/api/overview"))).json()["totals"]

    assert {name: (row["ready"], row["scheduled"]) for name, row in found.items()} == {"acme": (3, 0), "bolt": (0, 1)}
    assert found["acme"]["oldest_ready_at"] is not None
    assert all(row["read_at"] is not None for row in found.values())
    assert (sums["databases"], sums["ready"], sums["scheduled"], sums["unread"]) == (2, 3, 1, 0)
    assert (one["ready"], one["scheduled"]) == (0, 1)


async def test_databases_that_cannot_be_used_cost_the_others_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "_DEADLINE", 3600.0)  # those that hang do not end by themselves, however slow this runs
    held: list[Any] = []

    def silent(_reader: Any, writer: Any) -> None:
        held.append(writer)  # it accepts, and never says anything

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hanging = {f"hangs{n}": f"postgresql://shop@127.0.0.1:{port}/hangs{n}" for n in range(12)}
    urls = hanging | {"dead": REFUSING} | files("acme", "bolt")
    async with opened(urls) as (_fleet, dashboard), viewer(dashboard) as client:
        async with asyncio.timeout(60):
            while not all(found := [row["read_at"] for name, row in (await rows(client)).items() if name in FIRST_TWO]):
                await asyncio.sleep(0.02)
        after = await rows(client)
        assert len(found) == 2
        assert {after[name]["status"] for name in hanging} <= {None, "unhealthy"}
        # Read as the others are, although more than eight hang: those waited for half a second, not for five.
        assert sum(after[name]["status"] is None for name in hanging) > 4
        await until(lambda: _is_read(client, "dead"))
        dead = (await rows(client))["dead"]
        sums = (await client.get("/api/fleet")).json()
        page = await client.get("/db/dead/api/overview")
    for each in held:
        each.close()
    server.close()

    assert dead["status"] == "unhealthy"
    assert "127.0.0.1:1" in dead["error"]
    assert dead["ready"] is None
    assert sums["status"] == "degraded"
    assert page.status_code == 503


FIRST_TWO = ("acme", "bolt")


async def _is_read(client: Any, name: str) -> bool:
    return (await rows(client))[name]["status"] is not None


async def test_what_a_database_held_is_shown_with_its_age_while_it_cannot_be_read(files: Files, tmp_path: Path) -> None:
    async with opened(files("acme", "bolt"), idle="100ms") as (fleet, dashboard), viewer(dashboard) as client:
        await fleet.publish("orders.placed", {"n": 1}, database="bolt")
        before = (await rows(client))["bolt"]
        (tmp_path / "1.db").rename(tmp_path / "away.db")

        async def is_lost() -> bool:
            return (await rows(client))["bolt"]["error"] is not None

        await until(is_lost)
        lost = (await rows(client))["bolt"]
        (tmp_path / "away.db").rename(tmp_path / "1.db")
        await until(lambda: _is_well(client, "bolt"))

    assert before["ready"] == lost["ready"] == 1
    assert lost["status"] == "unhealthy"
    assert "there is no file" in lost["error"]
    assert lost["read_at"] is not None


async def _is_well(client: Any, name: str) -> bool:
    return (await rows(client))[name]["error"] is None


async def test_a_file_that_is_not_there_is_not_made_by_looking(files: Files, tmp_path: Path) -> None:
    fleet = Fleet(shop(), files("acme"))
    dashboard = FleetDashboard(fleet, tokens=TOKENS)
    async with fleet, viewer(dashboard) as client:
        row = (await rows(client))["acme"]
    await dashboard.aclose()

    assert "there is no file" in row["error"]
    assert list(tmp_path.iterdir()) == []


async def test_of_many_databases_at_most_eight_are_open_for_the_overview(files: Files) -> None:
    names = [f"t{n:02}" for n in range(40)]
    fleet = Fleet(shop(), files(*names))
    await fleet.migrate()
    dashboard = FleetDashboard(fleet, tokens=TOKENS)
    most = 0
    async with fleet, viewer(dashboard) as client:
        while any(row["status"] is None for row in (await rows(client, limit=1000)).values()):
            for _ in range(20):
                most = max(most, FleetState(fleet).open)
                await asyncio.sleep(0.002)
        await until(lambda: _all_closed(fleet))
    await dashboard.aclose()

    assert 1 <= most <= 8


async def _all_closed(fleet: Fleet) -> bool:
    fleet._survey._ages.clear()
    return FleetState(fleet).open == 0


async def test_rows_are_found_sorted_and_bounded_by_the_server(files: Files) -> None:
    urls = files("acme", "bolt", "Acme west", "cask") | {"dead": REFUSING}
    async with opened(urls) as (fleet, dashboard), viewer(dashboard) as client:
        await fleet.publish_many([("orders.placed", {})] * 2, database="bolt")
        await fleet.publish("orders.placed", {}, database="cask")
        await until(lambda: _is_read(client, "dead"))
        await until(lambda: _is_read(client, "cask"))
        found = [*await rows(client, find="ACME")]
        unwell = [*await rows(client, unwell="true")]
        first = [*await rows(client)]
        ready = [*await rows(client, sort="-ready", limit="2")]
        rising = [*await rows(client, sort="ready")]
        wrong = await client.get("/api/databases", params={"sort": "password"})
        named = (await client.get("/api/databases/names", params={"find": "we ac"})).json()

    assert found == ["Acme west", "acme"]
    assert unwell == ["dead", "bolt", "cask"]  # the worst first; what waits is claimed by no worker
    assert first[0] == "dead"
    assert ready == ["bolt", "cask"]
    assert rising[-1] == "dead"  # without a number
    assert wrong.status_code == 422
    assert named == {"names": [{"name": "Acme west", "status": "healthy"}], "found": 1}


async def test_a_stream_of_the_overview_follows_the_databases(files: Files) -> None:
    urls = files("acme")
    async with (
        opened(lambda: dict(urls)) as (fleet, dashboard),
        served(dashboard, closing=dashboard.end_streams) as url,
    ):
        headers = {"Authorization": f"Bearer {OPERATOR}"}
        async with (
            httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as client,
            client.stream("GET", "/api/watch?of=fleet&of=databases", headers={"Accept": "text/event-stream"}) as answer,
        ):
            seen: dict[int, Any] = {}
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    event = json.loads(line.removeprefix("data:"))
                    seen[event["of"]] = event["body"]
                if len(seen) == 2 and len(urls) == 1:
                    urls["bolt"] = urls["acme"].replace("0.db", "9.db")
                    await fleet.refresh()
                    await fleet.migrate(databases=["bolt"])
                    await fleet.publish("orders.placed", {}, database="bolt")
                elif len(urls) == 2 and seen[0]["databases"] == 2 and seen[1]["found"] == 2:
                    break

    assert {row["name"] for row in seen[1]["rows"]} == {"acme", "bolt"}


async def test_equal_streams_of_two_databases_show_each_its_own(files: Files) -> None:
    async with (
        opened(files("acme", "bolt")) as (fleet, dashboard),
        served(dashboard, closing=dashboard.end_streams) as url,
    ):
        await fleet["acme"].groups.pause("ship", by="ann")
        headers = {"Authorization": f"Bearer {VIEWER}", "Accept": "text/event-stream"}
        async with (
            httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as client,
            client.stream("GET", "/db/acme/api/consumers") as one,
            client.stream("GET", "/db/bolt/api/consumers") as other,
        ):
            paused = [await _first(one), await _first(other)]

    by = [{row["group"]: row["paused_by"] for row in body["rows"]}["ship"] for body in paused]
    assert by == ["ann", None]


async def _first(answer: Any) -> Any:
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            return json.loads(line.removeprefix("data:"))
    raise AssertionError("the stream ended")


# --- databases that come and go ---------------------------------------------------------------------------


async def test_a_database_that_leaves_is_dropped_and_one_that_moves_is_another(files: Files) -> None:
    urls = files("acme", "bolt")
    async with opened(lambda: dict(urls)) as (fleet, dashboard), operator(dashboard) as client:
        await fleet.publish("orders.placed", {}, database="bolt")
        before = await client.get("/db/bolt/api/overview")
        urls["bolt"] = urls["bolt"].replace("1.db", "2.db")
        await fleet.refresh()
        await fleet.migrate(databases=["bolt"])
        moved = await client.get("/db/bolt/api/overview")
        del urls["bolt"]
        await fleet.refresh()
        gone = await client.get("/db/bolt/api/overview")
        kept = [*dashboard._databases]
        left = [*await rows(client)]

    assert (before.json()["totals"]["ready"], moved.json()["totals"]["ready"]) == (1, 0)
    assert (gone.status_code, kept, left) == (404, [], ["acme"])


async def test_a_fleet_that_is_not_open_is_opened_and_closed_by_its_dashboard(files: Files) -> None:
    fleet = Fleet(shop(), files("acme"))
    await fleet.migrate()
    dashboard = FleetDashboard(fleet, tokens=TOKENS)
    async with viewer(dashboard) as client:
        session = await client.get("/api/session")  # as every page does first
        whole = await client.get("/api/fleet")
        one = await client.get("/db/acme/api/overview")
        was_open = FleetState(fleet).is_open
    await dashboard.aclose()

    assert [each.status_code for each in (session, whole, one)] == [200, 200, 200]
    assert (was_open, FleetState(fleet).is_open) == (True, False)


async def test_a_fleet_without_any_database_is_one_all_the_same() -> None:
    fleet = Fleet(shop(), dict)
    dashboard = FleetDashboard(fleet, tokens=TOKENS)
    async with fleet, viewer(dashboard) as client:
        sums = (await client.get("/api/fleet")).json()
        found = await rows(client)
        numbers = await client.get("/metrics")
    await dashboard.aclose()

    assert (sums["status"], sums["databases"], found) == ("healthy", 0, {})
    assert 'mainspring_fleet_databases{database="",state="known"} 0.0' in numbers.text


def test_the_command_serves_what_it_has_loaded(files: Files) -> None:
    app = shop()

    assert isinstance(dashboard_of(Fleet(app, files("acme")), {"tokens": TOKENS}, database_only=False), FleetDashboard)
    assert isinstance(dashboard_of(Mainspring("memory://"), {"tokens": TOKENS}, database_only=True), Dashboard)


def test_it_is_for_a_fleet_and_has_authentication(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPERATOR", "VIEWER"):
        monkeypatch.delenv(f"MAINSPRING_DASHBOARD_{name}_TOKEN", raising=False)

    with pytest.raises(BadOption, match=r"write Dashboard\(app\)"):
        FleetDashboard(shop(), tokens=TOKENS)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=r"FleetDashboard\(fleet\) has no authentication"):
        FleetDashboard(Fleet(shop(), files("acme")))
    with pytest.raises(BadOption, match=r"FleetDashboard\(fleet, …\) has no option 'token'"):
        FleetDashboard(Fleet(shop(), files("acme")), token="x")  # type: ignore[call-arg]


def test_the_document_lists_the_routes_of_the_overview() -> None:
    told = document(FLEET_TABLE, "1")

    assert {(method.upper(), path) for path, methods in told["paths"].items() for method in methods} == {
        (route.method, route.path) for route in FLEET_TABLE
    }
    assert {"/api/fleet", "/api/databases", "/api/databases/names", "/api/session"} <= set(told["paths"])


# --- probes -----------------------------------------------------------------------------------------------


async def test_probes_of_a_fleet_tell_the_worker_from_its_databases(files: Files) -> None:
    app = shop()
    stuck: list[str] = []
    app.health.check("model", lambda: not stuck, tags=["live"])
    fleet = Fleet(app, files("acme") | {"dead": REFUSING})
    await fleet.migrate(databases=["acme"])
    probes = Probes(fleet, details=True)

    async with client_of(probes) as client:
        before = await client.get("/health/ready")
        async with fleet.worker(longest_pause="200ms") as worker:
            while "dead" not in worker.troubles:
                await asyncio.sleep(0.02)
            ready = await client.get("/health/ready")

            async def is_read() -> bool:
                return "database dead" in (await client.get("/health")).text

            await until(is_read)
            everything = await client.get("/health")
            live = await client.get("/health/live")
            numbers = await client.get("/metrics")
            stuck.append("deadlock")
            await asyncio.sleep(1.1)  # a result is used for a second
            dead = await client.get("/health/live")

    assert (before.status_code, before.json()["checks"][0]["name"]) == (503, "fleet")
    found = {each["name"]: each["status"] for each in ready.json()["checks"]}
    assert (ready.status_code, found) == (200, {"discovery": "healthy", "databases": "degraded"})
    told = {each["name"]: each["status"] for each in everything.json()["checks"]}
    assert (everything.status_code, everything.json()["status"]) == (200, "degraded")
    assert told["database dead"] == "unhealthy"
    assert "database acme" not in told
    assert (live.status_code, dead.status_code) == (200, 503)
    assert 'database="acme"' in numbers.text


async def test_a_fleet_whose_databases_are_all_dead_is_not_ready() -> None:
    fleet = Fleet(shop(), {"dead": REFUSING, "gone": REFUSING.replace("none", "other")})
    probes = Probes(fleet)

    async with client_of(probes) as client, fleet.worker(longest_pause="200ms") as worker:
        while len(worker.troubles) < 2:
            await asyncio.sleep(0.02)
        ready = await client.get("/health/ready")

        async def all_read() -> bool:
            return (await client.get("/health")).status_code == 503

        await until(all_read)
        everything = await client.get("/health")

    assert ready.status_code == 503
    # Without details neither names nor reasons.
    assert "gone" not in everything.text
    assert {each["name"] for each in everything.json()["checks"]} == {"discovery", "databases", "health", "database"}
