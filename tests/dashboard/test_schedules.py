"""Schedules over HTTP: created, altered in every field, and told how long their runs take."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.dashboard.scene import Scene, at_work, opened, until

BY = "operator (dashboard)"


async def _changed(scene: Scene, path: str, body: Any, status: int = 204) -> Any:
    async with scene.operator() as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_a_schedule_is_created_with_all_its_options(scene: Scene) -> None:
    wish = {
        "name": "monthly",
        "rhythm": "0 9 1 * *",
        "consumer": "ship",
        "payload": {"report": "monthly"},
        "timezone": "Europe/Berlin",
        "workdays": "mon-fri",
        "holidays": "2030-01-01, sat",
        "start": "2029-01-01T00:00:00Z",
        "end": "2031-01-01T00:00:00Z",
        "day_match": "or",
        "on_gap": "skip",
        "misfire": "all",
        "misfire_after": "5m",
        "catch_up": 7,
        "overlap": "queue",
        "jitter": 30,
        "priority": "low",
    }

    await _changed(scene, "/api/schedules/create", wish)

    made = await scene.app.schedules.get("monthly")
    assert made is not None
    assert (made.rhythm, made.timezone, made.group, made.origin) == ("0 9 1 * *", "Europe/Berlin", "ship", "api")
    assert (made.workdays, made.holidays) == (("mon-fri",), ("2030-01-01", "sat"))
    assert (made.start, made.end) == (datetime(2029, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC))
    assert (made.day_match, made.on_gap, made.misfire, made.catch_up) == ("or", "skip", "all", 7)
    assert (made.overlap, made.jitter, made.priority) == ("queue", timedelta(seconds=30), 3)
    assert made.misfire_after == timedelta(minutes=5)
    assert (await scene.actions())[-1] == (BY, "schedule put", "monthly")
    run = await scene.app.messages.get((await scene.app.schedules.trigger("monthly")).id)
    assert run is not None
    assert run.payload == b'{"report":"monthly"}'


async def test_a_schedule_of_a_topic_and_one_of_a_single_time_are_created(scene: Scene) -> None:
    await _changed(scene, "/api/schedules/create", {"name": "news", "rhythm": "every 1h", "topic": "orders.due"})
    once = {"name": "trial", "at": "2040-01-31T09:00:00Z", "consumer": "ship"}
    await _changed(scene, "/api/schedules/create", once)

    news, trial = await scene.app.schedules.get("news"), await scene.app.schedules.get("trial")
    assert news is not None
    assert trial is not None
    assert (news.mode, news.topic) == ("publish", "orders.due")
    assert trial.next_at == datetime(2040, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"rhythm": "every 1h", "consumer": "shipp"}, "Did you mean 'ship'?"),
        ({"rhythm": "every 1h"}, "needs a consumer, or topic=…"),
        ({"rhythm": "61 * * * *", "consumer": "ship"}, "minute"),
        ({"consumer": "ship"}, "either a rhythm or at"),
        ({"rhythm": "every 1h", "at": "2040-01-31T09:00:00Z", "consumer": "ship"}, "either a rhythm or at"),
        ({"at": "2040-01-31T09:00:00Z", "topic": "orders.due"}, "at takes a consumer"),
        ({"at": "2040-01-31T09:00:00Z", "consumer": "ship", "overlap": "skip"}, "at takes a consumer"),
        ({"at": "2020-01-31T09:00:00Z", "consumer": "ship"}, "has passed"),
        ({"rhythm": "every 1h", "consumer": "ship", "workdays": "DE"}, "holidays='DE'"),
        ({"rhythm": "every 1h", "consumer": "ship", "payload": {"password": "•••"}}, "still contains the mask"),
    ],
)
async def test_a_schedule_that_cannot_be_meant_is_not_created(scene: Scene, wish: Any, said: str) -> None:
    before = await scene.actions()

    answer = await _changed(scene, "/api/schedules/create", {"name": "monthly", **wish}, 422)

    assert said in answer["error"]["message"]
    assert (await scene.app.schedules.get("monthly"), await scene.actions()) == (None, before)


async def test_a_schedule_that_is_there_is_not_replaced_by_a_new_one(scene: Scene) -> None:
    before = await scene.app.schedules.get("weekly")

    answer = await _changed(
        scene, "/api/schedules/create", {"name": "weekly", "rhythm": "every 9h", "consumer": "ship"}, 409
    )

    assert "there is a schedule 'weekly' already" in answer["error"]["message"]
    assert await scene.app.schedules.get("weekly") == before


async def test_a_dashboard_of_a_database_creates_and_freezes_nothing() -> None:
    async with opened(database_only=True) as scene:
        before = await scene.actions(), await scene.app.schedules.list()
        wishes = {
            "create": {"name": "s1", "rhythm": "every 1s", "topic": "orders.placed"},
            "freeze": {"reason": "stop all"},
            "thaw": {},
        }
        for call, wish in wishes.items():
            answer = await _changed(scene, f"/api/schedules/{call}", wish, 409)
            assert answer["error"]["message"].endswith("mainspring dashboard --app MODULE:APP")
        async with scene.operator() as client:
            assert (await client.get("/api/session")).json()["database_only"] is True

        assert (await scene.actions(), await scene.app.schedules.list()) == before


async def test_every_field_of_when_a_schedule_is_due_is_altered_and_reset(scene: Scene) -> None:
    wish = {
        "name": "weekly",
        "rhythm": "0 9 * * *",
        "workdays": "mon-fri",
        "holidays": "2030-12-25",
        "start": "2029-01-01T00:00:00Z",
        "end": "2031-01-01T00:00:00Z",
        "priority": "high",
        "catch_up": 3,
    }
    await _changed(scene, "/api/schedules/alter", wish)
    altered = await scene.app.schedules.get("weekly")
    await _changed(scene, "/api/schedules/alter", {"name": "weekly", "holidays": "none", "reset": ["end"]})
    cleared = await scene.app.schedules.get("weekly")

    assert altered is not None
    assert cleared is not None
    assert (altered.workdays, altered.holidays, altered.priority) == (("mon-fri",), ("2030-12-25",), 1)
    assert altered.end == datetime(2031, 1, 1, tzinfo=UTC)
    assert (cleared.holidays, cleared.end, cleared.start) == ((), None, altered.start)


async def test_a_schedule_is_shown_with_how_long_its_runs_take() -> None:
    async with opened(dead=0) as scene, scene.viewer() as client:
        before = (await client.get("/api/schedule", params={"name": "report"})).json()
        for _ in range(3):
            await scene.app.schedules.trigger("weekly")

        async def ran() -> bool:
            return len(await scene.app.schedules.runs("weekly")) == 3

        async with at_work(scene):
            await until(ran)
        after = (await client.get("/api/schedule", params={"name": "weekly"})).json()

    took = after["schedule"]["run_times"]
    assert before["schedule"]["run_times"] is None
    assert took["runs"] == 3
    assert 0 <= took["p50"] <= took["p95"] <= took["p99"] <= took["longest"]


async def test_how_its_runs_go_is_set_by_create_and_by_alter_and_its_secrets_are_masked(scene: Scene) -> None:
    runs = {
        "headers": {"token": "hush", "reason": "nightly"},
        "key": "k",
        "correlation_id": "c",
        "retry": {"kind": "exponential", "first": "1s", "attempts": 3},
        "timeout": "90s",
        "dead": "all",
        "then": "ship",
        "failed": "ship",
        "only_if": "queue empty",
    }
    await _changed(scene, "/api/schedules/create", {"name": "one", "rhythm": "every 1h", "consumer": "ship", **runs})
    await _changed(scene, "/api/schedules/create", {"name": "two", "rhythm": "every 1h", "consumer": "ship"})

    await _changed(scene, "/api/schedules/alter", {"name": "two", **runs})

    one, two = await scene.app.schedules.get("one"), await scene.app.schedules.get("two")
    assert one is not None
    assert two is not None
    assert set(runs) <= {*one.defined}
    assert set(runs) == {*two.edited}
    for each in (one, two):
        assert (each.key, each.correlation_id, each.timeout, each.dead) == ("k", "c", timedelta(seconds=90), "all")
        assert (each.then, each.failed, each.only_if) == ("ship", "ship", "queue empty")
    async with scene.operator() as client:
        shown = (await client.get("/api/schedule", params={"name": "one"})).json()["schedule"]["headers"]
        listed = (await client.get("/api/schedules")).json()["rows"]
    assert shown == {"token": "•••", "reason": "nightly"}
    assert {each["headers"].get("token") for each in listed} == {"•••", None}
    await _changed(scene, "/api/schedules/alter", {"name": "two", "headers": shown}, 422)
