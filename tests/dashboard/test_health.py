"""Whether all is well, asked over HTTP of real states: full, stuck, away, and empty."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainspring import Mainspring
from mainspring.dashboard import Dashboard, Probes, probes
from mainspring.model.health import Check, Health, HealthLimits
from tests.dashboard.scene import OPERATOR, Scene, client_of, opened, shop
from tests.dashboard.served import served
from tests.services.postgres import private_server

TOKENS: Any = {"operator": OPERATOR}


def _statuses(answer: httpx2.Response) -> dict[str, str]:
    return {check["name"]: check["status"] for check in answer.json()["checks"]}


async def test_a_process_that_is_up_says_so_without_asking_the_database(tmp_path: Path) -> None:
    app = Mainspring("postgresql://postgres@127.0.0.1:1/none", name="shop")

    async with client_of(Probes(app)) as client:
        answer = await client.get("/health/live")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_who_is_not_known_learns_names_and_states_and_nothing_more(scene: Scene) -> None:
    async with scene.client() as stranger, scene.operator() as operator, client_of(Probes(scene.app)) as probes:
        told = await stranger.get("/health/ready")
        detailed = await operator.get("/health/ready")
        probed = await probes.get("/health/ready")

    assert {key for check in told.json()["checks"] for key in check} == {"name", "status", "duration_ms"}
    assert _statuses(told) == _statuses(probed)
    assert "answered in" in next(check["summary"] for check in detailed.json()["checks"] if check["name"] == "storage")


async def test_who_is_not_known_learns_no_names_of_groups(scene: Scene) -> None:
    async def health(limits: HealthLimits | None = None, *, tags: Any = None) -> Health:
        return Health("degraded", (Check("breaker charge", "degraded", "charge pauses itself"),))

    scene.app._own.health = health  # type: ignore[assignment]
    async with scene.client() as stranger, scene.viewer() as viewer, client_of(Probes(scene.app)) as probes:
        told = [(await each.get("/health/ready")).json()["checks"] for each in (stranger, probes, viewer)]

    assert told[0] == told[1] == [{"name": "breaker", "status": "degraded"}]
    assert told[2][0]["name"] == "breaker charge"


async def test_a_wrong_token_is_told_no_more_than_none(scene: Scene) -> None:
    async with scene.client(Authorization="Bearer wrong") as client:
        answer = await client.get("/health/ready")

    assert answer.status_code == 200
    assert all("summary" not in check for check in answer.json()["checks"])


@pytest.mark.parametrize(
    ("limits", "status", "word"),
    [
        (HealthLimits(backlog=(10, 20)), 200, "healthy"),
        (HealthLimits(backlog=(2, 20)), 200, "degraded"),
        (HealthLimits(backlog=(1, 2)), 503, "unhealthy"),
    ],
)
async def test_a_backlog_over_its_limits_is_told(limits: HealthLimits, status: int, word: str) -> None:
    app = shop()
    async with app:
        await app.declare()
        await app.publish_many([("orders.placed", {"order": number}) for number in range(3)])
        async with client_of(Probes(app, limits=limits)) as client:
            answer = await client.get("/health/ready")

    assert answer.status_code == status
    assert _statuses(answer)["backlog"] == word


async def test_claims_that_lapsed_are_told() -> None:
    app = Mainspring("memory://", name="shop")
    queue = app.queue("work", "work.*")
    async with app:
        await app.declare()
        await app.publish("work.one", 1)
        items = await queue.claim(1, hold="1s")
        probes = Probes(app)
        async with client_of(probes) as client:
            while (found := _statuses(await client.get("/health/ready")))["lapsed"] == "healthy":
                await asyncio.sleep(0.05)

    assert len(items) == 1
    assert found["lapsed"] == "degraded"


async def test_messages_of_the_inbox_that_are_stuck_are_told() -> None:
    app = Mainspring("memory://", name="shop")
    async with app:
        admitted = await app.inbox.admit("event-1", "stripe", group="webhooks")
        limits = HealthLimits(stuck_after=timedelta(microseconds=1))
        async with client_of(Probes(app, limits=limits)) as client:
            answer = await client.get("/health/ready")

    assert admitted is not None
    assert _statuses(answer)["inbox"] == "degraded"


async def test_a_database_that_is_stopped_is_unhealthy_and_well_again_when_it_is_back(tmp_path: Path) -> None:
    with private_server(tmp_path) as server:
        app = Mainspring(server.url, name="shop", auto_migrate=True)
        dashboard = Dashboard(app, tokens=TOKENS)
        async with app, client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
            before = await client.get("/health/ready")
            await asyncio.to_thread(server.stop)
            during = await client.get("/health/ready")
            alive = await client.get("/health/live")
            asked = await client.get("/api/consumers")
            await asyncio.to_thread(server.start)
            while (after := await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.1)
        await dashboard.aclose()

    assert before.status_code == 200
    assert during.status_code == 503
    assert during.json()["status"] == "unhealthy"
    assert alive.status_code == 200
    assert asked.status_code == 503
    assert after.json()["status"] != "unhealthy"


async def test_a_database_without_a_schema_is_unhealthy(postgres_url: str, postgres_schema: str) -> None:
    app = Mainspring(postgres_url, name="shop", schema=f"{postgres_schema[:30]}_none")
    async with client_of(Probes(app)) as client:
        answer = await client.get("/health/ready")

    assert answer.status_code == 503
    assert _statuses(answer) == {"storage": "unhealthy"}


async def test_no_answer_shows_a_password_or_a_traceback() -> None:
    app = Mainspring("postgresql://ada:hunter2@127.0.0.1:1/none", name="shop")
    dashboard = Dashboard(app, tokens=TOKENS)
    async with client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
        answers = [await client.get(path) for path in ("/health/ready", "/api/overview", "/api/consumers")]
    await dashboard.aclose()

    assert {answer.status_code for answer in answers} == {503}
    for answer in answers:
        assert "hunter2" not in answer.text
        assert "Traceback" not in answer.text


async def test_a_check_that_never_ends_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_PATIENCE", 0.01)
    app = Mainspring("memory://", name="shop")

    async def endless(limits: Any = None, *, tags: Any = None) -> Any:
        await asyncio.Event().wait()

    app._own.health = endless  # type: ignore[assignment]
    async with client_of(Probes(app)) as client:
        answer = await client.get("/health/ready")

    assert answer.status_code == 503
    assert _statuses(answer) == {"storage": "unhealthy"}


async def test_a_dashboard_starts_without_its_database() -> None:
    app = Mainspring("postgresql://postgres@127.0.0.1:1/none", name="shop", auto_migrate=True)
    dashboard = Dashboard(app, tokens=TOKENS)

    async with served(dashboard, lifespan=True) as url, httpx2.AsyncClient(base_url=url) as client:
        alive = await client.get("/health/live")
        ready = await client.get("/health/ready")
        page = await client.get("/")

    assert (alive.status_code, ready.status_code, page.status_code) == (200, 503, 200)


async def test_an_error_that_nobody_foresaw_is_not_told(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> Any:
        raise RuntimeError("at postgresql://ada:hunter2@db/shop")

    scene.app.stats.roster = broken  # type: ignore[method-assign]
    async with scene.operator() as client:
        answer = await client.get("/api/consumers")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "postgresql" not in answer.text
    assert "RuntimeError: at postgresql://…@db/shop" in caplog.text
    assert "hunter2" not in caplog.text


async def test_probes_answer_nothing_else(scene: Scene) -> None:
    async with client_of(Probes(scene.app)) as client:
        elsewhere = [await client.get(path) for path in ("/", "/api/overview", "/static/icon.svg")]
        posted = await client.post("/health/live")
        metrics = await client.get("/metrics")

    assert [answer.status_code for answer in elsewhere] == [404, 404, 404]
    assert posted.status_code == 405
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "mainspring_published_total" in metrics.text


async def test_metrics_of_a_dashboard_are_for_who_is_known(scene: Scene) -> None:
    async with scene.client() as stranger, scene.viewer() as viewer:
        refused = await stranger.get("/metrics")
        told = await viewer.get("/metrics")

    assert refused.status_code == 401
    assert "mainspring_published_total" in told.text


def checked(app: Mainspring) -> None:
    app.health.check("stripe", lambda: False)
    app.health.check("bank", lambda: Check("bank", "degraded", "slow today", {"ms": 900}), tags=["ready"])


async def test_all_checks_are_on_one_path_and_those_tagged_ready_on_another() -> None:
    app = Mainspring("memory://", name="shop")
    checked(app)

    async with app, client_of(Probes(app)) as client:
        everything, ready = await client.get("/health"), await client.get("/health/ready")
        live = await client.get("/health/live")

    assert everything.status_code == 503
    assert {"stripe": "unhealthy", "bank": "degraded", "storage": "healthy"}.items() <= _statuses(everything).items()
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert "stripe" not in _statuses(ready)
    assert live.json() == {"status": "alive"}
    for answer in (everything, ready):
        assert answer.json()["duration_ms"] > 0
        assert all("summary" not in check for check in answer.json()["checks"])
        assert all(check["duration_ms"] >= 0 for check in answer.json()["checks"])


async def test_probes_give_reasons_where_they_are_told_to() -> None:
    app = Mainspring("memory://", name="shop")
    checked(app)

    async with app, client_of(Probes(app, details=True)) as client:
        answer = await client.get("/health/ready")

    [bank] = [check for check in answer.json()["checks"] if check["name"] == "bank"]
    assert bank.pop("duration_ms") >= 0
    assert bank == {"name": "bank", "status": "degraded", "summary": "slow today", "data": {"ms": 900}}


async def test_a_check_tagged_live_decides_on_liveness_without_the_database() -> None:
    app = Mainspring("postgresql://postgres@127.0.0.1:1/none", name="shop")
    stuck: list[str] = []
    app.health.check("model", lambda: not stuck, tags=["live"])

    async with client_of(Probes(app)) as client:
        alive = await client.get("/health/live")
    stuck.append("deadlock")
    async with client_of(Probes(app)) as client:  # another one, since a result is used for a second
        dead = await client.get("/health/live")

    assert (alive.status_code, alive.json()["status"]) == (200, "alive")
    assert (dead.status_code, _statuses(dead)) == (503, {"model": "unhealthy"})


async def test_a_dashboard_has_all_three_with_reasons_for_who_is_known(scene: Scene) -> None:
    checked(scene.app)

    async with scene.client() as stranger, scene.viewer() as viewer:
        told = [await each.get("/health") for each in (stranger, viewer)]

    assert [answer.status_code for answer in told] == [503, 503]
    shown = [next(check for check in answer.json()["checks"] if check["name"] == "stripe") for answer in told]
    assert "summary" not in shown[0]
    assert shown[1]["summary"] == "it returned False"


async def test_a_new_scene_is_healthy() -> None:
    async with opened(dead=0) as scene, scene.client() as client:
        answer = await client.get("/health/ready")

    assert answer.json()["status"] in ("healthy", "degraded")
    assert answer.status_code == 200


async def test_a_check_that_returns_nonsense_is_one_unhealthy_check_on_every_page() -> None:
    app = shop()
    app.health.check("status", lambda: Check("x", "ok"))  # type: ignore[arg-type]
    app.health.check("data", lambda: Check("x", "healthy", "fine", {"client": object()}))
    app.health.check("url", lambda: Check("x", "healthy", "redis://ann:hunter2@cache", {"password": "hunter2"}))
    async with app, client_of(Dashboard(app, tokens=TOKENS)) as client:
        await app.declare()
        client.headers["Authorization"] = f"Bearer {OPERATOR}"
        paths = ("/health", "/health/ready", "/metrics", "/api/overview")
        answers = {path: await client.get(path) for path in paths}

    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(paths, 200) | {
        "/health": 503
    }
    assert {"status": "unhealthy", "data": "unhealthy", "url": "healthy", "storage": "healthy"}.items() <= _statuses(
        answers["/health"]
    ).items()
    assert not any("hunter2" in answer.text for answer in answers.values())
