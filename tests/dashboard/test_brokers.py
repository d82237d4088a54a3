"""The brokers' screen by its API: what workers report, what the declarations tell, and the operator's check."""

import asyncio
from pathlib import Path

from mainspring import Mainspring
from mainspring.dashboard import Dashboard
from mainspring.dashboard.security.redaction import MASK
from mainspring.model.views import Beat, BrokerLink
from tests.dashboard.scene import OPERATOR, SECRET, Scene, client_of, opened


async def report(scene: Scene, worker: str, *links: BrokerLink) -> None:
    """Report these connections, as a worker does."""
    storage = await scene.app._connection.storage("the test")
    groups = ("ship", "ship_by_carrier")
    await storage.upkeep.beat(Beat(f"shop/{worker}", "shop", "host", 1, groups, 0, "poll", links=links))


async def test_a_route_is_listed_with_what_its_workers_report(scene: Scene) -> None:
    up = BrokerLink("ship_by_carrier", "out", connected=True, counts={"sent": 40, "later": 2})
    down = BrokerLink("ship_by_carrier", "out", connected=False, error=f"refused, password={SECRET}", down_for=3.0)
    await report(scene, "a", up)
    await report(scene, "b", down)
    await scene.app.publish("parcels.packed", {"parcel": 1})

    async with scene.viewer() as client:
        answer = (await client.get("/api/brokers")).json()

    (row,) = answer["rows"]
    assert (answer["cap"], answer["checkable"]) == (10_000, True)
    assert (row["name"], row["direction"], row["kind"], row["url"]) == (
        "ship_by_carrier",
        "out",
        "memory",
        "memory://broker",
    )
    assert (row["topics"], row["condition"], row["workers"], row["connected"]) == (["parcels.*"], "down", 2, 1)
    assert row["error"] == f"refused, password={MASK}"
    assert row["down_since"] is not None
    assert row["counts"] == {"sent": 40, "later": 2}
    assert (row["ready"], row["dead"], row["lag"]) == (1, 0, None)
    assert row["oldest_ready_at"] is not None


async def test_a_dashboard_without_the_code_shows_what_is_declared_and_checks_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with opened(url, dead=0, waiting=0), Mainspring(url, name="bare") as bare:
        dashboard = Dashboard(bare, tokens={"operator": OPERATOR}, database_only=True)
        async with client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"}) as client:
            answer = (await client.get("/api/brokers")).json()
            refused = await client.post("/api/brokers/check", json={})
        await dashboard.aclose()

    assert [(row["name"], row["url"], row["condition"]) for row in answer["rows"]] == [
        ("ship_by_carrier", "memory://broker", "unserved")
    ]
    assert not answer["checkable"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_app")


async def test_an_operator_checks_the_brokers_and_a_viewer_may_not(scene: Scene) -> None:
    before = await scene.actions()
    async with scene.viewer() as viewer, scene.operator() as operator:
        refused = await viewer.post("/api/brokers/check", json={})
        answer = await operator.post("/api/brokers/check", json={})

    (row,) = answer.json()["rows"]
    assert refused.status_code == 403
    assert answer.status_code == 200
    assert (row["name"], row["direction"], row["lag"]) == ("ship_by_carrier", "out", None)
    assert row["findings"] == [{"problem": f"amqp://…@broker/ refused us, password={MASK}"}]
    assert SECRET not in answer.text
    assert await scene.actions() == before, "it changes nothing, and leaves nothing in the audit"


async def test_clicks_at_the_same_time_are_one_check(scene: Scene) -> None:
    async with scene.operator() as client:
        answers = await asyncio.gather(*(client.post("/api/brokers/check", json={}) for _ in range(5)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1, "they took the same time, to the microsecond"
