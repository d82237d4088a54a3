"""What was done to everything that matched, also by other processes, and how it ended."""

import asyncio
from typing import Any

import pytest

from mainspring.dashboard import Dashboard
from mainspring.dashboard.api import bulk
from mainspring.dashboard.api.messages import Search
from mainspring.model.search import Filter
from tests.dashboard.scene import OPERATOR, Scene, client_of, until


async def _past(client: Any, **asked: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await client.get("/api/bulk/history", params=asked)).json()["rows"]
    return rows


async def test_what_ended_is_told_in_every_process(scene: Scene) -> None:
    other = Dashboard(scene.app, tokens={"operator": OPERATOR})
    async with scene.operator() as client:
        wish = {"action": "discard", "filter": {"state": "dead", "group": "charge", "text": "Ada"}}
        begun = (await client.post("/api/bulk", json=wish)).json()
        await until(lambda: _is_over(client, begun["id"]))
    async with client_of(other, {"Authorization": f"Bearer {OPERATOR}"}) as client:
        (row,) = await _past(client)

    assert (row["action"], row["done"], row["state"], row["by"]) == ("discard", 2, "done", "operator (dashboard)")
    assert row["subject"] == "state dead, group charge, text …"
    assert (row["error"], row["here"]) == (None, False)


async def test_what_goes_on_here_is_told_from_what_goes_on_elsewhere(scene: Scene) -> None:
    """Of two that look alike, the newest line is about the one that goes on here."""
    held, go_on = asyncio.Event(), asyncio.Event()

    async def work(progress: Any, stop: Any) -> int:
        controls = (await scene.app._connection.storage("a test")).controls
        await controls.note("revive", "state dead, group charge", "ada", "500 revived; goes on")
        held.set()
        await go_on.wait()
        return 500

    controls = (await scene.app._connection.storage("a test")).controls
    await controls.note("revive", "state dead, group charge", "ada", "1500 revived; goes on")
    scene.dashboard._services.bulks.start("revive", Search(), "ada", work, "state dead, group charge")
    await held.wait()
    async with scene.viewer() as client:
        rows = await _past(client)
    go_on.set()

    assert [(row["done"], row["state"], row["here"]) for row in rows] == [
        (500, "running", True),
        (1500, "running", False),
    ]


@pytest.mark.parametrize(
    ("detail", "state", "error"),
    [
        ("3 due now; ended", "done", None),
        ("3 due now", "done", None),
        ("3 due now; stopped", "stopped", None),
        ("3 due now; cancelled", "stopped", None),
        ("3 due now; goes on", "running", None),
        ("3 due now; failed: StorageUnavailable", "failed", "StorageUnavailable"),
    ],
)
async def test_how_it_ended_is_told(scene: Scene, detail: str, state: str, error: str | None) -> None:
    controls = (await scene.app._connection.storage("a test")).controls
    await controls.note("run_now", "state live, group ship", "ada", detail)

    async with scene.viewer() as client:
        (row,) = await _past(client)

    assert (row["action"], row["done"], row["state"], row["error"]) == ("run_now", 3, state, error)


async def test_what_an_earlier_release_wrote_is_read(scene: Scene) -> None:
    controls = (await scene.app._connection.storage("a test")).controls
    await controls.note("hasten", "state live, group ship", "ada", "3 due now; ended")

    async with scene.viewer() as client:
        (row,) = await _past(client)

    assert (row["action"], row["done"]) == ("run_now", 3)


async def test_what_was_done_to_single_ones_is_not_in_it(scene: Scene) -> None:
    await scene.app.dead.revive(scene.dead[0], by="ada")
    await scene.app.dead.discard(group="charge", by="ada")
    await scene.app.groups.pause("ship", by="ada", reason="3 due now; ended")

    async with scene.viewer() as client:
        assert await _past(client) == []


async def test_it_comes_in_pages(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_AT_ONCE", 2)
    controls = (await scene.app._connection.storage("a test")).controls
    for number in range(5):
        await controls.note("cancel", "state ready", "ada", f"{number} cancelled or asked to stop; ended")
        await scene.app.groups.pause("ship")

    async with scene.viewer() as client:
        found: list[int] = []
        cursor: str | None = None
        while cursor is not None or not found:
            page = (await client.get("/api/bulk/history", params={"limit": 2, "cursor": cursor or ""})).json()
            found += [row["done"] for row in page["rows"]]
            cursor = page["cursor"]

    assert found == [4, 3, 2, 1, 0]


async def test_by_whom_it_was_done_is_that_of_the_app_too(scene: Scene) -> None:
    await scene.app.messages.apply("cancel", Filter("scheduled", topic="orders.placed"), by="night shift")

    async with scene.viewer() as client:
        (row,) = await _past(client)

    assert (row["by"], row["done"], row["subject"]) == ("night shift", 2, "state scheduled, topic orders.placed")


async def _is_over(client: Any, id: str) -> bool:
    return bool((await client.get(f"/api/bulk/{id}")).json()["state"] == "done")
