"""What operators do, done: with its effect, and with their name in the audit."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.dashboard.scene import MASK_FREE, Scene, at_work, opened, until
from tests.dashboard.wishes import NO_SUCH, RECEIVED, open_join

BY = "operator (dashboard)"


async def _publisher(scene: Scene, path: str, body: Any, status: int = 200) -> Any:
    async with scene.operator() as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_a_message_is_published(scene: Scene) -> None:
    body = {
        "topic": "orders.placed",
        "payload": {"order": 9},
        "key": "order:9",
        "headers": {"shop": "ulm"},
        "priority": "high",
        "delay": 3600,
    }

    receipt = await _publisher(scene, "/api/messages", body, 201)

    stored = await scene.app.messages.get(receipt["id"])
    assert stored is not None
    assert (stored.payload, stored.key, dict(stored.headers)) == (b'{"order":9}', "order:9", {"shop": "ulm"})
    assert [(each.group, each.state, each.priority) for each in stored.deliveries] == [("ship", "scheduled", 1)]
    assert (await scene.actions())[-1] == (BY, "publish", "orders.placed")


async def test_a_copy_has_what_it_does_not_say_itself(scene: Scene) -> None:
    receipt = await _publisher(scene, "/api/messages", {"topic": "cards.charged", "copy_of": scene.dead[0]}, 201)

    original = await scene.app.messages.get(scene.dead[0])
    copy = await scene.app.messages.get(receipt["id"])
    assert original is not None
    assert copy is not None
    assert (copy.payload, copy.key, copy.headers) == (original.payload, original.key, original.headers)
    assert copy.causation_id == original.id
    assert (await scene.app.audit(limit=1))[0].detail == f"message {copy.id}, copy of {original.id}"


async def test_a_copy_that_was_edited_is_for_one_group(scene: Scene) -> None:
    wish = {"topic": "cards.charged", "copy_of": scene.dead[0], "payload": MASK_FREE, "group": "ship"}

    receipt = await _publisher(scene, "/api/messages", wish, 201)

    copy = await scene.app.messages.get(receipt["id"])
    assert copy is not None
    assert copy.payload == b'{"card_number":"4000"}'
    assert [each.group for each in copy.deliveries] == ["ship"]


async def test_a_number_that_no_browser_can_hold_is_published_as_it_was_typed(scene: Scene) -> None:
    wish = {"topic": "orders.placed", "payload_text": '{"id": 12345678901234567890}'}

    receipt = await _publisher(scene, "/api/messages", wish, 201)

    stored = await scene.app.messages.get(receipt["id"])
    assert stored is not None
    assert stored.payload == b'{"id":12345678901234567890}'


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"topic": "a b", "payload": 1}, "topic"),
        ({"topic": "orders.*", "payload": 1}, "wildcard"),
        ({"topic": "x", "payload": 1, "group": "shipp"}, "Did you mean 'ship'?"),
        ({"topic": "x", "copy_of": NO_SUCH}, "no message"),
        ({"topic": "x", "payload": 1, "payload_text": "1"}, "both given"),
        ({"topic": "x", "payload_text": "{"}, "not JSON"),
        ({"topic": "x", "payload_text": "NaN"}, "NaN is not allowed"),
        ({"topic": "x", "payload": 1, "delay": "soon"}, "delay='soon' is not a duration"),
        ({"topic": "x", "payload": 1, "delay": -1}, ">= 0"),
        ({"topic": "x" * 256, "payload": 1}, "length <= 255"),
        ({"topic": "x", "payload": 1, "nonsense": 1}, "unknown field nonsense: use"),
        ({"payload": 1}, "missing required field topic"),
    ],
)
async def test_what_cannot_be_meant_is_told_and_nothing_is_stored(scene: Scene, wish: Any, said: str) -> None:
    before = await scene.actions()

    answer = await _publisher(scene, "/api/messages", wish, 422)

    assert said in answer["error"]["message"]
    assert await scene.actions() == before


async def test_a_message_is_cancelled_for_one_group_or_for_all(scene: Scene) -> None:
    none = await _publisher(scene, f"/api/messages/{scene.waiting[0]}/cancel", {"group": "charge"})
    one = await _publisher(scene, f"/api/messages/{scene.waiting[0]}/cancel", {"reason": "ordered twice"})
    again = await _publisher(scene, f"/api/messages/{scene.waiting[0]}/cancel", {})

    assert (none["cancelled"], one["cancelled"], again["cancelled"]) == (0, 1, 0)
    assert [line[:2] for line in await scene.actions()].count((BY, "cancel")) == 1


async def test_a_dead_letter_is_retried_and_a_scheduled_delivery_is_due_now(scene: Scene) -> None:
    dead = await _publisher(scene, f"/api/messages/{scene.dead[0]}/retry", {})
    scheduled = await _publisher(scene, f"/api/messages/{scene.waiting[0]}/retry", {"group": "ship"})
    async with scene.operator() as client:
        neither = await client.post(f"/api/messages/{scene.waiting[1]}/retry", json={"group": "charge"})

    assert dead == {"revived": 1, "run_now": 0}
    assert scheduled == {"revived": 0, "run_now": 1}
    assert (neither.status_code, neither.json()["error"]["code"]) == (409, "not_dead")
    assert "neither dead nor scheduled in charge" in neither.json()["error"]["message"]
    assert [row.message_id.hex for row in await scene.app.messages.list("ready", group="ship")] == [
        scene.waiting[0].replace("-", "")
    ]


async def test_a_dead_letter_lives_again_with_another_payload(scene: Scene) -> None:
    done = await _publisher(scene, f"/api/messages/{scene.dead[0]}/replace", {"payload": MASK_FREE})
    async with scene.operator() as client:
        gone = await client.post(f"/api/messages/{scene.dead[0]}/replace", json={"payload": MASK_FREE})

    (ready,) = await scene.app.messages.list("ready", group="charge")
    assert done == {"replaced": 1, "id": str(ready.message_id)}
    assert (gone.status_code, gone.json()["error"]["code"]) == (409, "not_dead")
    async with scene.viewer() as client:
        old, new = [(await client.get(f"/api/messages/{each}")).json() for each in (scene.dead[0], done["id"])]
    assert (old["replaces"], old["replaced_by"]) == (None, [done["id"]])
    assert (new["replaces"], new["replaced_by"]) == (scene.dead[0], [])
    stored = await scene.app.messages.get(ready.message_id)
    assert stored is not None
    assert stored.payload == b'{"card_number":"4000"}'


async def test_dead_letters_are_discarded(scene: Scene) -> None:
    done = await _publisher(scene, f"/api/messages/{scene.dead[0]}/discard", {})
    again = await _publisher(scene, f"/api/messages/{scene.dead[0]}/discard", {})

    assert (done, again) == ({"discarded": 1}, {"discarded": 0})


async def test_lapsed_claims_of_a_group_are_released_in_the_name_of_who_asked(scene: Scene) -> None:
    mailbox = (await scene.app._connection.storage("a test")).mailbox
    for which in scene.waiting[:2]:
        await mailbox.take(UUID(str(which)), "ship", "one that died", timedelta())

    one = await _publisher(scene, "/api/consumers/release", {"group": "ship", "limit": 1})
    rest = await _publisher(scene, "/api/consumers/release", {"group": "ship"})

    assert (one, rest) == ({"released": 1, "left": 0, "busy": 0}, {"released": 1, "left": 0, "busy": 0})
    assert (await scene.actions()).count((BY, "release", "ship")) == 2


@pytest.mark.parametrize("action", ["cancel", "retry", "discard"])
async def test_a_message_that_is_none_is_not_found(scene: Scene, action: str) -> None:
    answer = await _publisher(scene, f"/api/messages/{NO_SUCH}/{action}", {}, 404)

    assert answer["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/api/messages/not-an-id", "/api/bulk/not-an-id"])
async def test_an_id_that_is_none_is_told(scene: Scene, path: str) -> None:
    async with scene.operator() as client:
        answer = await client.get(path)

    assert answer.status_code == 422
    assert "id: invalid UUID" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/consumers/pause", {"group": "shipp"}),
        ("/api/consumers/release", {"group": "shipp"}),
        ("/api/schedules/pause", {"name": "weeky"}),
        ("/api/schedules/trigger", {"name": "weeky"}),
        ("/api/workers/drain", {"name": "nobody"}),
        ("/api/fanouts/edit", {"topic": "mail.sync", "work": "outbox", "every": "1h"}),
    ],
)
async def test_a_name_that_nobody_has_is_told_with_those_that_there_are(scene: Scene, path: str, body: Any) -> None:
    answer = await _publisher(scene, path, body, 422)

    assert "there is no" in answer["error"]["message"].lower()


async def test_a_schedule_is_steered_and_every_step_is_in_the_audit(scene: Scene) -> None:
    before = len(await scene.actions())
    await _publisher(scene, "/api/schedules/pause", {"name": "weekly", "reason": "holidays"}, 204)
    await _publisher(scene, "/api/schedules/resume", {"name": "weekly"}, 204)
    run = await _publisher(scene, "/api/schedules/trigger", {"name": "weekly", "payload": {"report": "now"}})
    await _publisher(scene, "/api/schedules/alter", {"name": "weekly", "rhythm": "every 2h", "jitter": 30}, 204)
    filled = await _publisher(
        scene,
        "/api/schedules/backfill",
        {"name": "weekly", "start": "2026-11-16T00:30:00Z", "end": "2026-11-16T04:30:00Z"},
    )
    await _publisher(scene, "/api/schedules/freeze", {"reason": "moving"}, 204)
    thawed = await _publisher(scene, "/api/schedules/thaw", {})
    altered = await scene.app.schedules.get("weekly")
    await _publisher(scene, "/api/schedules/delete", {"name": "weekly"}, 204)

    assert altered is not None
    assert (altered.rhythm, altered.jitter.total_seconds()) == ("every 2h", 30)
    assert filled == {"count": 2}
    assert thawed == {"thawed": True}
    stored = await scene.app.messages.get(run["id"])
    assert stored is not None
    assert stored.payload == b'{"report":"now"}'
    done = (await scene.actions())[before:]
    assert {by for by, *_ in done} == {BY}
    assert len(done) == 8


async def test_a_backfill_without_an_offset_is_refused(scene: Scene) -> None:
    wish = {"name": "weekly", "start": "2026-11-16T00:30:00", "end": "2026-11-16T04:30:00Z"}

    answer = await _publisher(scene, "/api/schedules/backfill", wish, 422)

    assert "start" in answer["error"]["message"]


async def test_a_worker_is_drained_and_resumed() -> None:
    async with opened(dead=0) as scene, at_work(scene):
        await _publisher(scene, "/api/workers/drain", {"name": "porter", "reason": "deploy"}, 204)
        async with scene.viewer() as client:
            (drained,) = (await client.get("/api/workers")).json()["rows"]
            await _publisher(scene, "/api/workers/resume", {"name": f"{drained['app']}/porter"}, 204)
            (resumed,) = (await client.get("/api/workers")).json()["rows"]

    assert (drained["drained_by"], drained["drain_reason"]) == (BY, "deploy")
    assert resumed["drain_reason"] is None
    assert drained["condition"] in ("drain asked", "drained")
    assert drained["drains"] == (drained["condition"] == "drained")
    assert resumed["condition"] == "active"
    assert drained["draining_at"] is not None
    assert drained["alive"]
    assert resumed["draining_at"] is None


async def test_a_lease_is_released_once(scene: Scene) -> None:
    first = await _publisher(scene, "/api/leases/release", {"name": "nightly", "reason": "stuck"})
    again = await _publisher(scene, "/api/leases/release", {"name": "nightly"})

    assert (first, again) == ({"released": True}, {"released": False})


async def test_a_fan_out_is_edited_run_and_reset(scene: Scene) -> None:
    work = {"topic": "mail.sync", "work": "inbox"}
    policy = await _publisher(scene, "/api/fanouts/edit", {**work, "every": "2h", "enabled": True})
    planned = await _publisher(scene, "/api/fanouts/run", work)
    reset = await _publisher(scene, "/api/fanouts/reset", work)
    async with scene.viewer() as client:
        cursors = (await client.get("/api/fanouts/cursors", params=work)).json()["rows"]

    assert policy == {"enabled": True, "every": 7200.0, "jitter": None}
    assert planned["published"] == 2
    assert reset == {"reset": True}
    assert [row["shard"] for row in cursors] == ["anna", "bert"]


async def test_what_is_too_large_is_refused_before_it_is_read(scene: Scene) -> None:
    async with scene.operator() as client:
        announced = await client.post(
            "/api/messages", content=b"{}", headers={"Content-Type": "application/json", "Content-Length": "9999999"}
        )
        sent = await client.post("/api/messages", json={"topic": "x", "payload": "x" * (1024 * 1024)})

    assert announced.status_code == sent.status_code == 413


async def test_what_stands_in_the_path_or_nowhere_is_not_said_elsewhere(scene: Scene) -> None:
    async with scene.operator() as client:
        path = f"/api/messages/{scene.waiting[0]}/cancel"
        twice = await client.post(path, json={"id": scene.waiting[1]})
        query = await client.post(f"{path}?reason=twice", json={})

    assert (twice.status_code, query.status_code) == (422, 422)
    assert "id is in the path" in twice.json()["error"]["message"]
    assert "send the fields in the body" in query.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"[]", b"{", b"null", b"\xff", b'"x"', b"[" * 100_000])
async def test_a_body_that_is_no_object_is_refused(scene: Scene, content: bytes) -> None:
    async with scene.operator() as client:
        answer = await client.post(
            "/api/messages", content=content, headers={"Content-Type": "application/json; charset=utf-8"}
        )

    assert answer.status_code == 422


async def test_a_query_is_strict(scene: Scene) -> None:
    async with scene.operator() as client:
        answers = [
            await client.get("/api/messages?limit=0"),
            await client.get("/api/messages?limit=201"),
            await client.get("/api/messages?state=lost"),
            await client.get("/api/messages?since=2026-11-16T00:00:00"),
            await client.get("/api/messages?since=0001-01-01T00:00:00Z"),
            await client.get("/api/messages?group=%00"),
            await client.get("/api/messages?group=a&group=b"),
            await client.get("/api/messages?nonsense=1"),
            await client.get(f"/api/messages?error={'x' * 501}"),
            await client.get(f"/api/messages?error={'x' * 9000}"),
            await client.get("/api/fanouts/cursors"),
        ]
        empty = await client.get("/api/messages?group=&topic=")

    assert [answer.status_code for answer in answers] == [422] * len(answers)
    assert all(answer.json()["error"]["message"] for answer in answers)
    assert empty.status_code == 200


async def test_the_first_screen_has_all_of_it_in_numbers() -> None:
    async with opened() as scene, at_work(scene), scene.viewer() as client:
        seen = (await client.get("/api/overview", params={"window": "2h"})).json()

    assert seen["totals"] == {"scheduled": 2, "ready": 0, "running": 0, "lapsed": 0, "dead": 2, "parked": 1}
    groups = {row["group"]: row for row in seen["groups"]}
    assert (groups["charge"]["dead"], groups["ship"]["scheduled"]) == (2, 2)
    assert seen["measures"]["span"] == 10
    assert len(seen["measures"]["buckets"]) == 720
    assert seen["workers"] == {"alive": 1, "silent": 0, "in_hand": 0}
    assert "weekly" in [row["name"] for row in seen["next"]]
    assert [row["status"] for row in seen["failures"]] == ["dead", "dead"]
    assert seen["health"]["status"] in ("healthy", "degraded")


async def test_dead_letters_are_told_by_their_cause(scene: Scene) -> None:
    async with scene.viewer() as client:
        (cause,) = (await client.get("/api/dead/causes")).json()["rows"]
        found = await client.get("/api/messages", params={"state": "dead", "fingerprint": cause["fingerprint"]})

    assert (cause["group"], cause["kind"], cause["count"]) == ("charge", "error", 2)
    assert len(found.json()["rows"]) == 2


async def test_pages_follow_each_other(scene: Scene) -> None:
    async with scene.viewer() as client:
        first = (await client.get("/api/messages", params={"state": "scheduled", "limit": 1})).json()
        second = (
            await client.get("/api/messages", params={"state": "scheduled", "limit": 1, "cursor": first["cursor"]})
        ).json()
        audit = (await client.get("/api/audit", params={"limit": 1})).json()

    assert [row["key"] for row in (*first["rows"], *second["rows"])] == ["order:1", "order:0"]
    assert len(audit["rows"]) == 1


async def test_a_schedule_is_shown_with_its_next_times_and_runs(scene: Scene) -> None:
    async with scene.viewer() as client:
        rows = (await client.get("/api/schedules")).json()["rows"]
        one = (await client.get("/api/schedule", params={"name": "report"})).json()
        none = await client.get("/api/schedule", params={"name": "reports"})
        runs = (await client.get("/api/schedule/runs", params={"name": "report"})).json()

    assert [row["name"] for row in rows] == ["plan:mail.sync:inbox", "report", "weekly"]
    assert one["schedule"]["description"] == "At 09:00, every day"
    assert len(one["next"]) == 10
    assert runs == {"rows": [], "cursor": None}
    assert none.status_code == 404


async def test_an_open_join_is_listed_shown_and_cancelled(scene: Scene) -> None:
    id = str(await open_join(scene))

    async with scene.viewer() as client:
        (row,) = (await client.get("/api/joins")).json()["rows"]
        shown = (await client.get(f"/api/joins/{id}")).json()
        first = (await client.get(f"/api/joins/{id}/members", params={"limit": 1})).json()
        rest = (await client.get(f"/api/joins/{id}/members", params={"cursor": first["cursor"]})).json()
        unknown = await client.get(f"/api/joins/{NO_SUCH}")
        no_members = await client.get(f"/api/joins/{NO_SUCH}/members")
    done = await _publisher(scene, f"/api/joins/{id}/cancel", {"reason": "ordered twice"})
    await _publisher(scene, f"/api/joins/{NO_SUCH}/cancel", {}, 404)

    assert (row["id"], row["members"], row["then"]["group"]) == (id, 2, "ship")
    assert shown == row
    assert [len(page["rows"]) for page in (first, rest)] == [1, 1]
    assert rest["cursor"] is None
    assert (unknown.status_code, no_members.status_code) == (404, 404)
    assert done == {"cancelled": 2, "asked": 0}
    assert (BY, "cancel", f"join {id}") in await scene.actions()


async def test_the_inbox_is_listed_and_what_is_stuck_in_it_is_released(scene: Scene) -> None:
    key = dict(RECEIVED)
    await scene.app.inbox.admit(RECEIVED["message_id"], "billing", group="shop")
    done = await scene.app.inbox.admit("order/8", "billing", group="shop")
    await scene.app.inbox.done(done)

    async with scene.viewer() as client:
        rows = (await client.get("/api/inbox", params={"limit": 1})).json()
        (processing,) = (await client.get("/api/inbox", params={"status": "processing"})).json()["rows"]
        none = (await client.get("/api/inbox", params={"stuck": "true"})).json()["rows"]
        one = (await client.get("/api/inbox/message", params=key)).json()
        unknown = await client.get("/api/inbox/message", params={**key, "source": "shipping"})
    first = await _publisher(scene, "/api/inbox/release", key)
    again = await _publisher(scene, "/api/inbox/release", key)

    assert [row["message_id"] for row in rows["rows"]] == ["order/8"]
    assert rows["cursor"] is not None
    assert (processing, none) == (one, [])
    assert (one["message_id"], one["status"], one["attempts"]) == ("order/7?&", "processing", 1)
    assert unknown.status_code == 404
    assert (first, again) == ({"released": True}, {"released": False})
    assert (BY, "inbox release") in [line[:2] for line in await scene.actions()]


async def test_cursors_of_a_fan_out_move_only_to_where_the_request_says(scene: Scene) -> None:
    async def are_done() -> bool:
        shards = await scene.app.fanouts.cursors("mail.sync", "inbox")
        return len(shards) == 2 and all(each.completed for each in shards)

    async with scene.app.worker():
        await scene.app.fanouts.run("mail.sync", "inbox")
        await until(are_done)
    work = {"topic": "mail.sync", "work": "inbox"}
    before = await scene.app.fanouts.cursors("mail.sync", "inbox")

    for wish in (work, {**work, "to": None}, {**work, "to": "2026-11-01T00:00:00Z", "to_start": True}):
        said = await _publisher(scene, "/api/fanouts/seek", wish, 422)
        assert said["error"]["message"] == "give to, a time such as 2026-11-01T02:00:00Z, or to_start, and not both"
    assert await scene.app.fanouts.cursors("mail.sync", "inbox") == before

    moved = await _publisher(scene, "/api/fanouts/seek", {**work, "to": "2026-11-01T02:00:00"})
    shards = await scene.app.fanouts.cursors("mail.sync", "inbox")
    assert (moved["moved"], {each.completed for each in shards}) == (2, {datetime(2026, 11, 1, 2, tzinfo=UTC)})
    await _publisher(scene, "/api/fanouts/seek", {**work, "to_start": True})
    assert {each.completed for each in await scene.app.fanouts.cursors("mail.sync", "inbox")} == {None}


async def test_a_payload_that_does_not_fit_is_refused_in_words_that_work_here(scene: Scene) -> None:
    @scene.app.consumer("typed.orders")
    async def take(order: dict[str, int]) -> None: ...

    wish = {"topic": "typed.orders", "payload": []}
    said = await _publisher(scene, "/api/messages", wish, 422)

    assert said["error"]["message"].endswith('change the payload, or send "validate": false beside it')
    await _publisher(scene, "/api/messages", {**wish, "validate": False}, 201)
