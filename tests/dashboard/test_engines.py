"""The dashboard on every database: each screen answers, and what operators do is done and noted."""

import asyncio
from pathlib import Path

import pytest

from mainspring.dashboard.api import TABLE
from tests.dashboard.scene import Scene, at_work, opened, until
from tests.dashboard.wishes import RECEIVED, open_join

ASKED = {
    "/api/schedule": {"name": "weekly"},
    "/api/schedule/runs": {"name": "weekly"},
    "/api/consumer": {"group": "ship"},
    "/api/preview": {"rhythm": "0 9 * * *"},
    "/api/fanouts/cursors": {"topic": "mail.sync", "work": "inbox"},
    "/api/inbox/message": RECEIVED,
}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'shop.db'}"


async def test_every_screen_answers(url: str) -> None:
    await _every_screen_answers(url)


async def test_every_screen_answers_on_postgresql(postgres_url: str, postgres_schema: str) -> None:
    await _every_screen_answers(postgres_url, postgres_schema)


async def test_what_operators_do_is_done_and_noted(url: str) -> None:
    await _what_operators_do_is_done_and_noted(url)


async def test_what_operators_do_is_done_and_noted_on_postgresql(postgres_url: str, postgres_schema: str) -> None:
    await _what_operators_do_is_done_and_noted(postgres_url, postgres_schema)


async def test_of_two_who_create_one_schedule_at_once_one_is_refused(url: str) -> None:
    await _of_two_who_create_one_schedule_at_once_one_is_refused(url)


async def test_of_two_who_create_one_schedule_at_once_one_is_refused_on_postgresql(
    postgres_url: str, postgres_schema: str
) -> None:
    await _of_two_who_create_one_schedule_at_once_one_is_refused(postgres_url, postgres_schema)


async def _of_two_who_create_one_schedule_at_once_one_is_refused(url: str, schema: str | None = None) -> None:
    async with opened(url, schema=schema) as scene, scene.operator() as client:
        for kind in ({"rhythm": "every 1h"}, {"at": "2040-01-31T09:00:00Z"}):
            for turn in range(5):
                name = f"{next(iter(kind))}{turn}"
                wishes = [{"name": name, "consumer": "ship", "payload": {"by": each}, **kind} for each in "ab"]
                answers = await asyncio.gather(*(client.post("/api/schedules/create", json=wish) for wish in wishes))
                assert sorted(each.status_code for each in answers) == [204, 409]
                run = await scene.app.messages.get((await scene.app.schedules.trigger(name)).id)
                winner = "a" if answers[0].status_code == 204 else "b"
                assert run is not None
                assert run.payload == f'{{"by":"{winner}"}}'.encode()


async def _every_screen_answers(url: str, schema: str | None = None) -> None:
    async with opened(url, schema=schema) as scene, at_work(scene), scene.operator() as client:
        join = await open_join(scene)
        await scene.app.inbox.admit(RECEIVED["message_id"], RECEIVED["source"], group=RECEIVED["group"])
        answers = {}
        for route in TABLE:
            if not route.changes and not route.only_streams and route.path != "/api/bulk/{id}":
                id = join if route.path.startswith("/api/joins") else scene.dead[0]
                path = route.path.replace("{id}", str(id))
                answers[route.path] = await client.get(path, params=ASKED.get(route.path, {}))

    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code != 200} == {}
    assert len(answers["/api/messages"].json()["rows"]) == 4
    assert answers["/api/overview"].json()["totals"]["dead"] == 2


async def _what_operators_do_is_done_and_noted(url: str, schema: str | None = None) -> None:
    async with opened(url, schema=schema) as scene, scene.operator() as client:
        before = len(await scene.actions())
        copied = await client.post(
            "/api/messages", json={"topic": "cards.charged", "copy_of": scene.dead[0], "group": "charge"}
        )
        cancelled = await client.post(f"/api/messages/{scene.waiting[0]}/cancel", json={})
        due_now = await client.post(f"/api/messages/{scene.waiting[1]}/retry", json={})
        revived = await client.post(f"/api/messages/{scene.dead[0]}/retry", json={})
        bulk = (await client.post("/api/bulk", json={"action": "discard", "filter": {"state": "dead"}})).json()
        await until(lambda: _is_over(scene, bulk["id"]))
        done = (await scene.actions())[before:]

    assert copied.status_code == 201
    assert cancelled.json() == {"cancelled": 1, "asked": 0}
    assert due_now.json() == {"revived": 0, "run_now": 1}
    assert revived.json() == {"revived": 1, "run_now": 0}
    assert [(by, action) for by, action, _ in done] == [
        ("operator (dashboard)", "publish"),
        ("operator (dashboard)", "cancel"),
        ("operator (dashboard)", "run_now"),
        ("operator (dashboard)", "revive"),
        ("operator (dashboard)", "discard"),
    ]


async def _is_over(scene: Scene, id: str) -> bool:
    async with scene.viewer() as client:
        return bool((await client.get(f"/api/bulk/{id}")).json()["state"] == "done")
