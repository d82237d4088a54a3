"""One consumer: its own numbers and failures, and nobody else's."""

from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.dashboard import Dashboard, readings
from mainspring.dashboard.readings import Readings
from mainspring.model.views import Beat
from mainspring.timing.backoff import NO_RETRY
from tests.dashboard.scene import VIEWER, Scene, client_of, until


async def _shown(scene: Scene, **asked: str) -> Any:
    async with scene.viewer() as client:
        return await client.get("/api/consumer", params=asked)


async def test_it_is_shown_as_in_the_list_with_what_it_fails_of(scene: Scene) -> None:
    found = (await _shown(scene, group="charge")).json()
    async with scene.viewer() as client:
        rows = (await client.get("/api/consumers")).json()["rows"]

    row = next(row for row in rows if row["group"] == "charge")
    speeds = {"rate", "failing"}  # which fall from one moment to the next
    assert {name: found["consumer"][name] for name in row.keys() - speeds} == {
        name: row[name] for name in row.keys() - speeds
    }
    assert (found["consumer"]["dead"], found["consumer"]["options"]["retry"]) == (2, "none")
    assert [(each["group"], each["count"]) for each in found["causes"]] == [("charge", 2)]
    assert found["more_causes"] is False
    assert {each["message_id"] for each in found["failures"]} == set(scene.dead)
    assert {each["status"] for each in found["failures"]} == {"dead"}


async def test_a_worker_of_another_app_does_not_serve_it(scene: Scene) -> None:
    storage = await scene.app._connection.storage("a test")
    await storage.upkeep.beat(Beat("other/w", "other", "host", 1, ("ship",), 0, "poll"))

    assert "w" not in (await _shown(scene, group="ship")).json()["consumer"]["workers"]


async def test_what_others_did_is_not_in_it(scene: Scene) -> None:
    found = (await _shown(scene, group="ship")).json()

    assert (found["causes"], found["failures"]) == ([], [])
    assert found["consumer"]["dead"] == 0


@pytest.mark.parametrize(("window", "span", "many"), [("15m", 10, 90), ("2h", 10, 720), ("24h", 600, 144)])
async def test_its_measures_are_its_own_over_the_window(scene: Scene, window: str, span: int, many: int) -> None:
    charged = (await _shown(scene, group="charge", window=window)).json()["measures"]
    shipped = (await _shown(scene, group="ship", window=window)).json()["measures"]

    assert (charged["span"], len(charged["buckets"])) == (span, many)
    assert [sum(each[what] for each in charged["buckets"]) for what in ("done", "dead")] == [0, 2]
    assert [sum(each[what] for each in shipped["buckets"]) for what in ("done", "dead")] == [1, 0]


async def test_failures_are_found_behind_many_successes_that_were_kept() -> None:
    app = Mainspring("memory://", name="shop", keep="all")

    @app.consumer("orders.placed", retry=NO_RETRY)
    async def take(order: int) -> None:
        if not order:
            raise ValueError("there is nothing in it")

    dashboard = Dashboard(app, tokens={"viewer": VIEWER})
    async with app, app.worker():
        for number in range(60):
            await app.publish("orders.placed", number)
        await until(lambda: _ran(app, 60))
        async with client_of(dashboard, {"Authorization": f"Bearer {VIEWER}"}) as client:
            found = (await client.get("/api/consumer", params={"group": "take"})).json()
        await dashboard.aclose()

    assert [each["error"] for each in found["failures"]] == ["ValueError: there is nothing in it"]


async def _ran(app: Mainspring, many: int) -> bool:
    return len(await app.messages.runs("take", limit=100)) == many


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"group": "nobody"}, 404, "no consumer 'nobody' is declared"),
        ({}, 422, "group"),
        ({"group": "ship", "window": "3h"}, 422, "window"),
    ],
)
async def test_what_is_not_there_is_refused(scene: Scene, asked: dict[str, str], status: int, said: str) -> None:
    answer = await _shown(scene, **asked)

    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


async def test_only_some_readings_of_windows_are_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "_KEPT", 2)
    kept = scene.dashboard._services.readings
    assert isinstance(kept, Readings)
    for group in ("charge", "ship", "charge", "report"):
        await kept.measures("24h", group)

    assert list(kept._measures) == [("24h", "charge"), ("24h", "report")]
