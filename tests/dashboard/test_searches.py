"""What a search over HTTP may ask for, and what it is told where it may not."""

from typing import Any

import pytest

from tests.dashboard.scene import Scene


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"limit": "0"}, "limit: expected int >= 1"),
        ({"limit": "-1"}, "limit: expected int >= 1"),
        ({"limit": "100000"}, "limit: expected int <= 200"),
        ({"cursor": "7"}, "cursor='7' is not a cursor of app.messages.search()"),
        ({"cursor": "a\x00"}, "cursor: "),
        ({"before": "7"}, "unknown field before"),
        ({"state": "lost"}, "state: invalid enum value 'lost'"),
        ({"since": "2026-01-01T00:00:00"}, "since: "),
        (
            {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
            "since=2026-01-02T00:00:00+00:00 is after until=2026-01-01T00:00:00+00:00: nothing was published between",
        ),
        ({"text": "a\x00"}, "text: "),
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
