"""What a search over HTTP may ask for, and what it is told where it may not."""

import asyncio
from typing import Any

import pytest

from tests.dashboard.scene import SECRET, Scene


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"limit": "0"}, "limit: expected int >= 1"),
        ({"limit": "-1"}, "limit: expected int >= 1"),
        ({"limit": "100000"}, "limit: expected int <= 200"),
        ({"cursor": "7"}, "cursor='7' is not a cursor of app.messages.search()"),
        ({"cursor": "a\x00"}, "cursor: "),
        ({"before": "7"}, "there is no parameter 'before'"),
        ({"state": "lost"}, "state: invalid enum value 'lost'"),
        ({"since": "2026-01-01T00:00:00"}, "since: "),
        (
            {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
            "since=2026-01-02T00:00:00+00:00 is after until=2026-01-01T00:00:00+00:00: nothing was published between",
        ),
        ({"text": "a\x00"}, "text: "),
        ({"kind": "sometimes"}, "kind: invalid enum value 'sometimes'"),
        ({"correlation_id": "a\x00"}, "correlation_id: "),
        ({"key": "a\x00"}, "key: "),
        ({"topic": "a\x00"}, "topic: "),
    ],
)
async def test_what_cannot_be_searched_for_is_refused_with_the_reason(
    scene: Scene, query: dict[str, str], told: str
) -> None:
    async with scene.operator() as client:
        answers = [await client.get("/api/messages", params=query)]
        if not query.keys() & {"limit", "cursor", "before"}:
            answers.append(await client.get("/api/messages/count", params=query))
            answers.append(await client.post("/api/bulk", json={"action": "cancel", "filter": query}))

    assert [answer.status_code for answer in answers] == [422] * len(answers)
    for answer in answers:
        assert told.lower().replace("`", "") in answer.json()["error"]["message"].lower().replace("`", "")


@pytest.mark.parametrize("name", ["text", "key", "topic", "error"])
async def test_half_a_character_is_refused(scene: Scene, name: str) -> None:
    async with scene.operator() as client:
        body = b'{"action": "cancel", "filter": {"%s": "\\ud800"}}' % name.encode()
        answer = await client.post("/api/bulk", content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 422


async def test_what_has_failed_and_waits_for_its_next_attempt_is_a_state_to_search_for(scene: Scene) -> None:
    async with scene.operator() as client:
        page: dict[str, Any] = (await client.get("/api/messages", params={"state": "retrying"})).json()
        counted = (await client.get("/api/messages/count", params={"state": "retrying"})).json()
        bulk = await client.post("/api/bulk", json={"action": "run_now", "filter": {"state": "retrying"}})

    assert (page["rows"], page["cursor"]) == ([], None)
    assert counted == {"count": 0, "more": False}
    assert bulk.status_code == 202


async def test_messages_are_found_by_operation_and_kind_in_every_state(scene: Scene) -> None:
    first = await scene.app.publish("orders.placed", {"order": 70}, correlation_id="basket:7", delay="1h")
    await scene.app.publish("nobody.listens", {"order": 71}, correlation_id="basket:7")

    async def found(client: Any, **query: str) -> list[tuple[str, str, str]]:
        rows = (await client.get("/api/messages", params=query)).json()["rows"]
        return [(row["topic"], row["state"], row["kind"]) for row in rows]

    async with scene.viewer() as client:
        both = await found(client, state="any", correlation_id="basket:7")
        delayed = await found(client, state="any", correlation_id="basket:7", kind="delayed")
        root = await found(client, correlation_id=str(first.id))
        count = (await client.get("/api/messages/count", params={"state": "any", "correlation_id": "basket:7"})).json()
    async with scene.operator() as client:
        by_text = await found(client, state="any", text='"order":71')
        bulk = await client.post("/api/bulk", json={"action": "cancel", "filter": {"state": "any"}})

    waits, parked = ("orders.placed", "scheduled", "delayed"), ("nobody.listens", "parked", "immediate")
    assert (both, delayed, root, by_text) == ([waits, parked], [waits], [], [parked])
    assert count == {"count": 2, "more": False}
    assert (bulk.status_code, "set filter.state to" in bulk.json()["error"]["message"]) == (422, True)


async def test_a_bulk_action_is_for_the_operation_that_was_searched_for(scene: Scene) -> None:
    wanted = [await scene.app.publish("orders.placed", number, delay="1h", correlation_id="b:7") for number in range(3)]
    await scene.app.publish("orders.placed", 4, delay="1h", correlation_id="b:8")

    async with scene.operator() as client:
        wish = {"action": "cancel", "filter": {"state": "scheduled", "correlation_id": "b:7", "kind": "delayed"}}
        started = (await client.post("/api/bulk", json=wish)).json()
        while (bulk := (await client.get(f"/api/bulk/{started['id']}")).json())["state"] == "running":
            await asyncio.sleep(0.01)
        (line,) = (await client.get("/api/audit", params={"subject": "correlation id b:7"})).json()["rows"]
        others = (await client.get("/api/audit", params={"by": "nobody of this name"})).json()["rows"]

    assert (bulk["done"], others) == (len(wanted), [])
    assert line["subject"] == "state scheduled, correlation id b:7, kind delayed"


async def test_lists_show_payloads_without_their_secrets(scene: Scene) -> None:
    turned = {"value": SECRET, "name": "password"}
    await scene.app.publish("orders.placed", {"fields": [turned], "iban": "DE00"}, delay="1h")
    await scene.app.publish("orders.placed", {"pad": "x" * 300, "pin": SECRET}, delay="1h")

    async with scene.viewer() as client:
        pages = [(await client.get("/api/messages", params={"state": each})).text for each in ("live", "dead", "done")]
        newest = (await client.get("/api/messages", params={"limit": 2})).json()["rows"]

    assert SECRET not in "".join(pages)
    assert newest[1]["preview"] == '{"fields":[{"value":"•••","name":"password"}],"iban":"DE00"}'
    assert newest[0]["preview"].startswith('{"pad":"xxx')


@pytest.mark.parametrize(
    "payload",
    [
        {"card number": SECRET},
        {"card.number": SECRET},
        {"fields": [{"value": SECRET, "name": "password"}]},
        {"fields": [{"name": "password", "type": "text", "value": SECRET}]},
        {"note": "password=x", "card number": SECRET},
    ],
    ids=repr,
)
async def test_a_long_payload_is_masked_in_lists_as_on_its_page(scene: Scene, payload: dict[str, object]) -> None:
    receipt = await scene.app.publish("orders.placed", {**payload, "pad": "x" * 400}, delay="1h")

    async with scene.viewer() as client:
        listed = (await client.get("/api/messages", params={"limit": 1})).json()["rows"][0]
        page = (await client.get(f"/api/messages/{receipt.id}")).text

    assert SECRET not in page
    assert SECRET[:4] not in listed["preview"]
    assert listed["preview"].endswith("x…")
