"""What is wrong with a request is told in few words, however many it had."""

from typing import Any

import pytest

from tests.dashboard.scene import Scene

LONG = "x" * 60_000
ODD = "a - at `$.b` unknown field `" * 2_000
"""What our own words are made of."""


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/consumers/pause", {"group": "ship", LONG: 1}),
        ("/api/consumers/pause", {"group": "ship", ODD: 1}),
        ("/api/bulk", {"action": LONG, "filter": {}}),
        ("/api/bulk", {"action": "revive", "filter": {LONG: 1}}),
        ("/api/messages", {"topic": "t", "payload": 1, "headers": {LONG: 1}}),
    ],
    ids=["a field", "a field like our words", "a value", "a field within", "a name in a place"],
)
async def test_what_was_sent_is_not_sent_back(scene: Scene, path: str, body: dict[str, Any]) -> None:
    async with scene.operator() as client:
        answer = await client.post(path, json=body)

    assert answer.status_code == 422
    assert len(answer.text) < 700


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/api/consumers/pause", {"group": "ship", "nonsense": 1}, "unknown field nonsense: use group, reason"),
        (
            "/api/bulk",
            {"action": "revive", "filter": {"nonsense": 1}},
            "filter: Object contains unknown field",
        ),
        ("/api/consumers/pause", {"group": 1}, "group: expected str, got int"),
        ("/api/consumers/pause", {}, "missing required field group"),
    ],
)
async def test_what_is_wrong_is_told_with_its_place(scene: Scene, path: str, body: dict[str, Any], told: str) -> None:
    async with scene.operator() as client:
        answer = await client.post(path, json=body)

    assert answer.status_code == 422
    assert told in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=died", "use cancelled, dead, done, lapsed, parked, ready, running, scheduled, any, live, retrying"),
        ("status=dead", "there is no parameter 'status': this route takes "),
    ],
)
async def test_a_query_that_is_wrong_is_told_what_it_may_say(scene: Scene, query: str, told: str) -> None:
    async with scene.viewer() as client:
        answer = await client.get(f"/api/messages?{query}")

    assert answer.status_code == 422
    assert told in answer.json()["error"]["message"]
