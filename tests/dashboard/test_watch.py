"""Several answers that go on by one stream, since a browser has few connections."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from mainspring.dashboard import Identity, site, streams
from tests.dashboard.scene import OPERATOR, VIEWER, Scene, opened, until
from tests.dashboard.served import served

STREAM = {"Accept": "text/event-stream"}
NO_SUCH = "01890a5d-ac96-774b-bcce-b302099a8057"


@asynccontextmanager
async def _served(scene: Scene, token: str = OPERATOR) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}", **STREAM}
    async with (
        served(scene.dashboard, closing=scene.dashboard.end_streams) as url,
        httpx2.AsyncClient(base_url=url, timeout=60, headers=headers) as client,
    ):
        yield client


async def _events(answer: httpx2.Response) -> AsyncIterator[tuple[str, Any]]:
    kind = "message"
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)
            kind = "message"


async def _first(events: AsyncIterator[tuple[str, Any]], count: int) -> dict[int, tuple[str, Any]]:
    """The first event of each that is watched, by its number."""
    found: dict[int, tuple[str, Any]] = {}
    while len(found) < count:
        kind, said = await anext(events)
        found.setdefault(said["of"], (kind, said))
    return found


async def _reached(condition: Any) -> bool:
    return bool(condition())


async def test_each_is_sent_with_its_number_and_again_when_it_has_changed(scene: Scene) -> None:
    asked = {"of": ["overview?window=2h", "messages?state=ready", f"messages/{scene.dead[0]}"]}
    async with _served(scene) as client, client.stream("GET", "/api/watch", params=asked) as answer:
        events = _events(answer)
        first = await _first(events, 3)
        receipt = await scene.app.publish("orders.placed", {"order": 1})
        kind, said = await anext(events)
        while said["of"] != 1:
            kind, said = await anext(events)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert {kind for kind, _ in first.values()} == {"body"}
    assert set(first[0][1]) == {"of", "body"}
    assert first[0][1]["body"]["window"] == "2h"
    assert first[1][1]["body"]["rows"] == []
    assert first[2][1]["body"]["id"] == scene.dead[0]
    assert kind == "body"
    assert [row["message_id"] for row in said["body"]["rows"]] == [str(receipt.id)]


async def test_a_problem_of_one_does_not_end_the_others_and_is_told_once() -> None:
    asked = {"of": [f"messages/{NO_SUCH}", "messages?state=ready"]}
    async with (
        opened(dead=0, waiting=0) as scene,
        _served(scene) as client,
        client.stream("GET", "/api/watch", params=asked) as answer,
    ):
        events = _events(answer)
        first = await _first(events, 2)
        later = []
        for number in range(2):
            await scene.app.publish("orders.placed", {"order": number})
            later.append(await anext(events))

    problem, body = first[0], first[1]
    assert problem[0] == "problem"
    assert set(problem[1]["error"]) == {"code", "message", "status"}
    assert (problem[1]["of"], problem[1]["error"]["code"], problem[1]["error"]["status"]) == (0, "not_found", 404)
    assert (body[0], body[1]["of"]) == ("body", 1)
    assert [(kind, said["of"]) for kind, said in later] == [("body", 1), ("body", 1)]


async def test_it_shares_its_looks_with_other_streams_and_counts_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_EACH", 3)
    lively = scene.dashboard._live
    async with (
        _served(scene) as client,
        client.stream("GET", "/api/watch", params={"of": ["consumers", "leases", "consumers"]}) as one,
        client.stream("GET", "/api/watch", params={"of": ["leases", "workers"]}) as two,
        client.stream("GET", "/api/consumers") as three,
    ):
        for answer in (one, two, three):
            await anext(_events(answer))
        refused = await client.get("/api/watch", params={"of": "leases"})

        assert (lively.count, lively.polls) == (3, 3)

    assert refused.status_code == 429
    await until(lambda: _reached(lambda: (lively.count, lively.polls) == (0, 0)))


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ("no/such", "'no/such' is not a path below /api/"),
        ("", "of"),
        ("/api/overview", "is not a path below /api/"),
        ("../metrics", "is not a path below /api/"),
        ("openapi.json", "is not a path below /api/"),
        ("login", "'login' cannot be watched"),
        ("consumers/pause", "cannot be watched"),
        ("watch?of=overview", "'watch' cannot be watched"),
        ("messages?limit=many", "of messages: limit"),
        ("messages?state=dead&state=live", "of messages: 'state' is given twice"),
        (f"messages/{NO_SUCH}?id={NO_SUCH}", "'id' is given twice"),
        ("messages/no-id", "of messages/no-id: id"),
        ("overview?nonsense=1", "there is no parameter 'nonsense'"),
    ],
)
async def test_what_cannot_be_watched_is_refused_before_anything_is_sent(scene: Scene, of: str, told: str) -> None:
    async with scene.client(Authorization=f"Bearer {OPERATOR}", **STREAM) as client:
        answer = await client.get("/api/watch", params={"of": ["leases", of]})

    assert answer.status_code == 422
    assert told in answer.json()["error"]["message"]
    assert scene.dashboard._live.count == 0


@pytest.mark.parametrize("of", [[], ["leases"] * 9])
async def test_nothing_and_too_much_cannot_be_watched(scene: Scene, of: list[str]) -> None:
    async with scene.client(Authorization=f"Bearer {OPERATOR}", **STREAM) as client:
        answer = await client.get("/api/watch", params={"of": of})

    assert answer.status_code == 422


async def test_it_is_a_stream_and_nothing_else(scene: Scene) -> None:
    async with scene.operator() as client:
        answer = await client.get("/api/watch", params={"of": "leases"})

    assert answer.status_code == 406
    assert "Accept: text/event-stream" in answer.json()["error"]["message"]


async def test_who_may_not_ask_for_one_alone_may_not_watch_it(scene: Scene) -> None:
    async with scene.client(**STREAM) as stranger:
        refused = await stranger.get("/api/watch", params={"of": ["session", "leases"]})
    searching = {"of": ["messages?text=hunter2", "leases"]}
    async with _served(scene, VIEWER) as viewer, viewer.stream("GET", "/api/watch", params=searching) as answer:
        events = _events(answer)
        told = await _first(events, 2)

    assert refused.status_code == 401
    assert told[0][0] == "problem"
    assert told[0][1]["error"]["status"] == 403
    assert told[1][0] == "body"


async def test_it_ends_when_its_reader_is_no_longer_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ALLOWED", 0.0)
    known = True

    async def authenticate(_request: Any) -> Identity | None:
        return Identity("ada", "viewer") if known else None

    async with (
        opened(dead=0, tokens=None, authenticate=authenticate) as scene,
        _served(scene) as client,
        client.stream("GET", "/api/watch", params={"of": ["audit", "consumers"]}) as answer,
    ):
        events = _events(answer)
        await _first(events, 2)
        known = False
        rest = [event async for event in events]

    assert [(kind, said["of"], said["error"]["status"]) for kind, said in rest] == [
        ("problem", 0, 401),
        ("problem", 1, 401),
    ]


async def test_a_session_that_is_watched_makes_no_token_that_no_cookie_belongs_to() -> None:
    async def authenticate(_request: Any) -> Identity | None:
        return Identity("ada", "operator")

    async with (
        opened(dead=0, tokens=None, authenticate=authenticate) as scene,
        _served(scene) as client,
        client.stream("GET", "/api/watch", params={"of": "session"}) as answer,
    ):
        _, said = await anext(_events(answer))

    assert (said["body"]["user"], said["body"]["csrf"]) == ("ada", None)
