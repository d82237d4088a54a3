"""How many a search finds, as far as that is counted; and how many causes of death there are."""

from typing import Any

import pytest

from mainspring.dashboard.api import messages
from mainspring.dashboard.api import messages as causes
from tests.dashboard.scene import SECRET, Scene, opened, until


async def test_all_that_match_are_counted_whatever_a_page_holds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_AT_ONCE", 1)
    asked: list[dict[str, str]] = [
        {"state": "scheduled"},
        {"state": "dead", "group": "charge"},
        {"state": "dead", "key": "card:1"},
        {"state": "dead", "text": "DE00"},
        {"state": "dead", "key": "card:9"},
        {"state": "parked"},
    ]

    async with scene.operator() as client:
        found = [(await client.get("/api/messages/count", params=each)).json() for each in asked]

    assert [each["count"] for each in found] == [2, 2, 1, 2, 0, 1]
    assert [each["more"] for each in found] == [False] * 6


@pytest.mark.parametrize(
    ("bounds", "count"),
    [({"_COUNTED": 3, "_AT_ONCE": 2}, 3), ({"_SCANNED": 2, "_AT_ONCE": 2}, 2), ({"_PAGES": 2, "_AT_ONCE": 1}, 2)],
    ids=["as many as are counted", "as many as are looked at", "as many as some pages have"],
)
async def test_counting_ends_and_says_that_there_may_be_more(
    bounds: dict[str, int], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bounds.items():
        monkeypatch.setattr(messages, name, value)

    async with opened(dead=0, waiting=5) as scene, scene.viewer() as client:
        found = (await client.get("/api/messages/count", params={"state": "scheduled"})).json()

    assert found == {"count": count, "more": True}


async def test_who_may_not_search_may_not_count_what_a_search_finds(scene: Scene) -> None:
    async with scene.viewer() as viewer, scene.client() as stranger:
        texts = [await viewer.get("/api/messages/count", params={"text": SECRET[:4]})]
        texts.append(await viewer.get("/api/messages/count", params={"state": "dead", "error": SECRET[:4]}))
        unknown = await stranger.get("/api/messages/count")

    assert [answer.status_code for answer in texts] == [403, 403]
    assert unknown.status_code == 401


@pytest.mark.parametrize("query", [{"cursor": "7"}, {"limit": "7"}, {"state": "lost"}])
async def test_a_count_has_no_pages(scene: Scene, query: dict[str, str]) -> None:
    async with scene.viewer() as client:
        answer = await client.get("/api/messages/count", params=query)

    assert answer.status_code == 422


async def test_dead_letters_from_before_causes_were_told_apart_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.model.fingerprint.fingerprint", lambda _kind, _error: "")
    async with opened() as scene, scene.operator() as client:
        (cause,) = (await client.get("/api/dead/causes")).json()["rows"]
        named = {"state": "dead", "fingerprint": cause["fingerprint"]}
        found = (await client.get("/api/messages", params=named)).json()
        count = (await client.get("/api/messages/count", params=named)).json()
        bulk = (await client.post("/api/bulk", json={"action": "discard", "filter": named})).json()
        await until(lambda: _is_over(client, bulk["id"]))
        ended = (await client.get(f"/api/bulk/{bulk['id']}")).json()

    assert (cause["fingerprint"], cause["count"]) == ("-", 2)
    assert {row["message_id"] for row in found["rows"]} == set(scene.dead)
    assert count == {"count": 2, "more": False}
    assert (ended["state"], ended["done"]) == ("done", 2)


async def _is_over(client: Any, id: str) -> bool:
    return bool((await client.get(f"/api/bulk/{id}")).json()["state"] != "running")


async def test_no_others_than_those_without_a_cause_are_meant_by_it(scene: Scene) -> None:
    async with scene.operator() as client:
        found = (await client.get("/api/messages/count", params={"state": "dead", "fingerprint": "-"})).json()

    assert found == {"count": 0, "more": False}


async def test_more_causes_than_are_shown_are_told_of(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(("one", "other"))
    monkeypatch.setattr("mainspring.model.fingerprint.fingerprint", lambda _kind, _error: next(made))
    async with opened() as twofold, twofold.viewer() as client, scene.viewer() as other:
        both = (await client.get("/api/dead/causes")).json()
        monkeypatch.setattr(causes, "_MOST", 1)
        some = (await client.get("/api/dead/causes")).json()
        all_of_one = (await other.get("/api/dead/causes")).json()

    assert (len(both["rows"]), both["more"]) == (2, False)
    assert (len(some["rows"]), some["more"]) == (1, True)
    assert (len(all_of_one["rows"]), all_of_one["more"]) == (1, False)
