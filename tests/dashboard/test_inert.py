"""Text that would be a program, were it taken for one: it is sent as JSON, as it was stored, and as nothing else."""

import json
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.dashboard import Dashboard
from tests.dashboard.scene import OPERATOR, client_of

CORPUS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    '"><iframe src="javascript:alert(1)">',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "]]><!--",
    "\u2028alert(1)\u2029",
    "data: evil\n\nevent: message\ndata: {}",
    "\u202egnp.exe",
    "\u202e<b>\u202c",
)


@pytest.mark.parametrize("text", CORPUS)
async def test_it_comes_back_as_it_was_stored_and_as_json(text: str) -> None:
    app = Mainspring("memory://", name="shop")
    key = text.replace("\n", " ")
    async with app, client_of(Dashboard(app, tokens={"operator": OPERATOR})) as client:
        client.headers["Authorization"] = f"Bearer {OPERATOR}"
        receipt = await app.publish("inert.text", {"text": text, text: 1}, key=key, headers={"x": text})
        one = await client.get(f"/api/messages/{receipt.id}")
        many = await client.get("/api/messages", params={"state": "parked"})

    for answer in (one, many):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    seen: dict[str, Any] = one.json()
    assert seen["payload"]["value"] == {"text": text, text: 1}
    assert json.loads(seen["payload"]["text"]) == {"text": text, text: 1}
    assert seen["key"] == key
    assert seen["headers"] == {"x": text}
    assert [row["key"] for row in many.json()["rows"]] == [key]


@pytest.mark.parametrize("text", CORPUS)
async def test_what_was_asked_is_not_repeated_as_a_page(text: str) -> None:
    app = Mainspring("memory://", name="shop")
    async with app, client_of(Dashboard(app, tokens={"operator": OPERATOR})) as client:
        client.headers["Authorization"] = f"Bearer {OPERATOR}"
        answers = [
            await client.get("/api/messages", params={"state": text}),
            await client.get("/api/preview", params={"rhythm": text}),
            await client.get("/api/schedule", params={"name": text}),
            await client.post("/api/consumers/pause", json={"group": text}),
            await client.get(f"/api/{text.encode().hex()}"),
        ]
        page = await client.get("/messages", params={"text": text})

    assert all(answer.headers["content-type"] == "application/json" for answer in answers)
    assert text not in page.text


async def test_an_event_cannot_be_ended_by_what_it_tells() -> None:
    app = Mainspring("memory://", name="shop")
    async with app, client_of(Dashboard(app, tokens={"operator": OPERATOR})) as client:
        client.headers["Authorization"] = f"Bearer {OPERATOR}"
        receipt = await app.publish("inert.text", {"text": "a\n\nevent: problem\ndata: {}\r\n\r\n\u2028"})
        body = (await client.get(f"/api/messages/{receipt.id}")).content

    assert b"\n" not in body
    assert b"\r" not in body
