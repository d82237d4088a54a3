"""Actions on everything that a search finds: they go on while the server runs, and say how far they are."""

import asyncio
from typing import Any

import pytest

from mainspring.dashboard.api import bulk
from mainspring.dashboard.api.bulk import Bulks
from mainspring.dashboard.api.messages import Search
from mainspring.dashboard.responses import Problem
from tests.dashboard.scene import Scene, opened, until


async def _over(client: Any, id: str) -> Any:
    while (found := (await client.get(f"/api/bulk/{id}")).json())["state"] == "running":
        await asyncio.sleep(0.01)
    return found


async def test_all_that_match_are_revived_with_one_line_of_the_audit(scene: Scene) -> None:
    async with scene.operator() as client:
        before = len(await scene.actions())
        begun = await client.post(
            "/api/bulk", json={"action": "revive", "filter": {"state": "dead", "group": "charge"}}
        )
        ended = await _over(client, begun.json()["id"])
        listed = (await client.get("/api/bulk")).json()["rows"]

    assert begun.status_code == 202
    assert begun.json()["state"] == "running"
    assert begun.json()["filter"]["group"] == "charge"
    assert (ended["state"], ended["done"], ended["error"], ended["by"]) == ("done", 2, None, "operator (dashboard)")
    assert [each["id"] for each in listed] == [ended["id"]]
    assert [line[:2] for line in (await scene.actions())[before:]] == [("operator (dashboard)", "revive")]


@pytest.mark.parametrize(
    ("action", "filter", "done"),
    [
        ("discard", {"state": "dead"}, 2),
        ("cancel", {"state": "scheduled", "topic": "orders.placed"}, 2),
        ("run_now", {"state": "scheduled", "key": "order:1"}, 1),
        ("revive", {"state": "dead", "key": "card:9"}, 0),
    ],
)
async def test_each_action_does_what_it_says(scene: Scene, action: str, filter: dict[str, str], done: int) -> None:
    async with scene.operator() as client:
        begun = await client.post("/api/bulk", json={"action": action, "filter": filter})
        ended = await _over(client, begun.json()["id"])

    assert (ended["state"], ended["done"]) == ("done", done)


@pytest.mark.parametrize(
    ("action", "state", "said"),
    [
        ("revive", "live", "set filter.state to dead"),
        ("discard", "done", "set filter.state to dead"),
        ("cancel", "dead", "live or scheduled or ready or running or lapsed or retrying or parked"),
        ("run_now", "dead", "live or scheduled"),
    ],
)
async def test_what_would_do_nothing_is_refused(scene: Scene, action: str, state: str, said: str) -> None:
    async with scene.operator() as client:
        answer = await client.post("/api/bulk", json={"action": action, "filter": {"state": state}})

    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]


async def test_a_bulk_action_is_stopped_between_two_batches() -> None:
    bulks = Bulks()
    batches = 0

    async def work(progress: Any, stop: Any) -> int:
        nonlocal batches
        while not stop():
            batches += 1
            progress(batches * 500)
            await asyncio.sleep(0)
        return batches * 500

    begun = bulks.start("revive", Search(), "ada", work)
    await until(lambda: _is(lambda: begun.done >= 1000))

    bulks.stop(begun.id)
    await until(lambda: _is(lambda: begun.state != "running"))

    assert begun.state == "stopped"
    assert begun.done == batches * 500
    assert begun.ended_at is not None


async def _is(condition: Any) -> bool:
    return bool(condition())


async def test_what_stops_it_is_told() -> None:
    bulks = Bulks()

    async def work(progress: Any, stop: Any) -> int:
        progress(500)
        raise TimeoutError

    begun = bulks.start("discard", Search(), "ada", work)
    await until(lambda: _is(lambda: begun.state != "running"))

    assert (begun.state, begun.done) == ("failed", 500)
    assert begun.error == "the database did not reply in time: retry"


async def test_only_some_go_on_at_a_time_and_only_some_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "KEPT", 3)
    bulks, over = Bulks(), asyncio.Event()

    async def work(progress: Any, stop: Any) -> int:
        await over.wait()
        return 1

    running = [bulks.start("revive", Search(), "ada", work) for _ in range(4)]
    with pytest.raises(Problem, match="are running: wait for one"):
        bulks.start("revive", Search(), "ada", work)
    over.set()
    await until(lambda: _is(lambda: all(each.state == "done" for each in running)))
    last = bulks.start("revive", Search(), "ada", work)

    assert len(list(bulks)) == 3
    assert next(iter(bulks)) is last
    with pytest.raises(Problem, match="no such bulk action"):
        bulks.get(running[0].id)
    await bulks.aclose()


async def test_they_end_with_the_server() -> None:
    async with opened(dead=0) as scene:
        begun = scene.dashboard._services.bulks.start("revive", Search(), "ada", _for_ever)

        await scene.dashboard.aclose()

        assert begun.state == "stopped"


async def _for_ever(progress: Any, stop: Any) -> int:
    while not stop():
        await asyncio.sleep(0)
    return 0
