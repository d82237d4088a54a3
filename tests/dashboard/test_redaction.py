"""What is secret never leaves, wherever it stands; and what was masked is never written back."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from mainspring.dashboard.api import TABLE
from mainspring.dashboard.api.payloads import LONGEST, payload_of
from mainspring.dashboard.security.redaction import MASK, REDACTED, Redaction, masked_at
from mainspring.model.errors import BadOption
from mainspring.model.views import Beat, BrokerLink
from tests.dashboard.scene import SECRET, Scene, opened
from tests.dashboard.wishes import RECEIVED, open_join

DEFAULT = Redaction()


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "Password",
        "user_password",
        "userPassword",
        "DB_PASSWD",
        "secret",
        "client-secret",
        "token",
        "accessToken",
        "refresh_token",
        "Authorization",
        "x-api-key",
        "apiKey",
        "APIKEY",
        "credentials",
        "privateKey",
        "card_number",
        "cardNumber",
        "cvv",
        "customer_ssn",
        "Set-Cookie",
    ],
)
def test_names_that_tell_of_secrets_are_masked(name: str) -> None:
    assert DEFAULT.value({name: "x", "list": [{name: {"deep": 1}}]}) == {name: MASK, "list": [{name: MASK}]}


@pytest.mark.parametrize("name", ["passenger", "classname", "spinner", "number", "author", "key", "cookies"])
def test_other_names_are_shown(name: str) -> None:
    assert DEFAULT.value({name: "x"}) == {name: "x"}


def test_names_of_ones_own_are_added_or_stand_alone() -> None:
    added, alone = Redaction([*REDACTED, "iban", "*mail*"]), Redaction(["iban"])

    payload = {"iban": 1, "customer_iban": 2, "eMail": 3, "password": 4}

    assert added.value(payload) == {"iban": MASK, "customer_iban": MASK, "eMail": MASK, "password": MASK}
    assert alone.value(payload) == {"iban": MASK, "customer_iban": MASK, "eMail": 3, "password": 4}
    assert Redaction([]).value(payload) == payload


@pytest.mark.parametrize("names", ["password", ["*"], [""], ["--"]])
def test_names_that_say_nothing_are_refused(names: Any) -> None:
    with pytest.raises(BadOption, match="redact="):
        Redaction(names)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ValueError: secret=hunter2, user=ada", f"ValueError: secret={MASK}, user=ada"),
        ('{"api_key": "a b", "n": 1}', f'{{"api_key": {MASK}, "n": 1}}'),
        ("{'token': 'it\\'s', 'n': 1}", f"{{'token': {MASK}, 'n': 1}}"),
        ("Authorization: Bearer abc.def\nHost: x", f"Authorization: {MASK}\nHost: x"),
        ("at postgresql://ada:hunter2@db/shop", f"at postgresql://{MASK}@db/shop"),
        ("the token expired", "the token expired"),
        ("password:", "password:"),
        ("card_number = 4000, cvv: 123;", f"card_number = {MASK}, cvv: {MASK};"),
    ],
)
def test_text_that_quotes_fields_is_masked(text: str, shown: str) -> None:
    assert DEFAULT.text(text) == shown


def test_hostile_text_costs_no_more_than_its_length() -> None:
    text = "password=" * 20_000 + "a:" * 20_000

    assert MASK in DEFAULT.text(text)


def test_what_is_nested_beyond_reason_ends_in_an_ellipsis() -> None:
    deep: Any = SECRET
    for _ in range(300):
        deep = [deep]

    assert SECRET not in json.dumps(DEFAULT.value(deep))


async def test_no_reading_route_tells_a_secret(scene: Scene) -> None:
    queries = {
        "/api/messages": [{"state": state} for state in ("live", "dead", "done", "parked", "scheduled", "any")],
        "/api/consumer": [{"group": "charge"}, {"group": "ship"}],
        "/api/schedule": [{"name": "weekly"}],
        "/api/schedule/runs": [{"name": "weekly"}],
        "/api/preview": [{"rhythm": "0 9 * * *"}],
        "/api/fanouts/cursors": [{"topic": "mail.sync", "work": "inbox"}],
        "/api/inbox/message": [dict(RECEIVED)],
    }
    join = str(await open_join(scene))
    admission = await scene.app.inbox.admit(RECEIVED["message_id"], RECEIVED["source"], group=RECEIVED["group"])
    await scene.app.inbox.failed(admission, error=f"refused: password={SECRET}")
    link = BrokerLink("ship_by_carrier", "out", connected=False, error=f"refused, api_key={SECRET}", down_for=3.0)
    storage = await scene.app._connection.storage("the test")
    await storage.upkeep.beat(Beat("shop/w", "shop", "host", 1, ("ship_by_carrier",), 0, "poll", links=(link,)))
    paths = [route.path for route in TABLE if not route.changes and not route.only_streams]
    listed = await scene.app.messages.list(limit=200)
    ids = {str(row.message_id) for row in listed} | set(scene.dead)
    parked = await scene.app.messages.list("parked")
    ids |= {str(row.message_id) for row in parked}
    told: dict[str, str] = {}
    asked: list[tuple[str, dict[str, str]]]

    async with scene.operator() as client:
        bulk = await client.post(
            "/api/bulk", json={"action": "run_now", "filter": {"state": "scheduled", "topic": "x"}}
        )
        for path in paths:
            if path == "/api/bulk/{id}":
                asked = [(path.replace("{id}", bulk.json()["id"]), {})]
            elif path.startswith("/api/joins/"):
                asked = [(path.replace("{id}", join), {})]
            elif "{id}" in path:
                asked = [(path.replace("{id}", each), {}) for each in sorted(ids)]
            else:
                asked = [(path, query) for query in queries.get(path, [{}])]
            for where, query in asked:
                answer = await client.get(where, params=query)
                assert answer.status_code == 200, (where, answer.text)
                told[f"{where} {query}"] = answer.text

    assert [where for where, text in told.items() if SECRET in text] == []
    assert any(MASK in text for text in told.values())
    assert len(told) >= len(paths) + 4


async def test_a_message_is_shown_with_what_is_not_secret(scene: Scene) -> None:
    async with scene.viewer() as client:
        seen = (await client.get(f"/api/messages/{scene.dead[0]}")).json()

    assert seen["payload"]["value"] == {
        "number": 0,
        "card_number": MASK,
        "customer": {"name": "Ada", "Password": MASK, "accounts": [{"apiKey": MASK, "iban": "DE00"}]},
    }
    assert seen["headers"] == {"Authorization": MASK, "x-api-key": MASK, "shop": "berlin"}
    assert seen["runs"][0]["error"] == f"ValueError: the card was declined, card_number={MASK}"
    assert SECRET not in seen["runs"][0]["traceback"]


async def test_viewers_cannot_find_out_by_searching_what_is_masked(scene: Scene) -> None:
    async with scene.viewer() as viewer, scene.operator() as operator:
        refused = await viewer.get("/api/messages", params={"state": "dead", "text": SECRET[:4]})
        guessed = await viewer.get("/api/messages", params={"state": "dead", "error": f"card_number={SECRET[:4]}"})
        found = await operator.get("/api/messages", params={"state": "dead", "text": "DE00"})

    assert refused.status_code == guessed.status_code == 403
    assert "because matches reveal masked values" in refused.json()["error"]["message"]
    assert len(found.json()["rows"]) == 2


async def test_where_nothing_is_masked_viewers_may_search() -> None:
    async with opened(redact=[]) as scene, scene.viewer() as viewer:
        found = await viewer.get("/api/messages", params={"state": "dead", "text": SECRET})

    assert len(found.json()["rows"]) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"payload": {"card_number": MASK}},
        {"payload": ["a", {"b": f"x{MASK}"}]},
        {"payload": {MASK: 1}},
        {"payload_text": json.dumps({"card_number": MASK}, ensure_ascii=False)},
        {"payload": 1, "headers": {"Authorization": MASK}},
    ],
)
async def test_a_mask_is_never_published(scene: Scene, body: dict[str, Any]) -> None:
    async with scene.operator() as client:
        before = await scene.actions()
        answer = await client.post("/api/messages", json={"topic": "cards.charged", **body})

        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "masked"
        assert "write its value, or omit the field" in answer.json()["error"]["message"]
        assert await scene.actions() == before


async def test_a_mask_replaces_no_payload_and_triggers_no_schedule(scene: Scene) -> None:
    async with scene.operator() as client:
        masked = {"payload": {"card_number": MASK}}
        replaced = await client.post(f"/api/messages/{scene.dead[0]}/replace", json=masked)
        triggered = await client.post("/api/schedules/trigger", json={"name": "weekly", **masked})

    assert (replaced.status_code, triggered.status_code) == (422, 422)


def test_where_a_mask_stands_is_told() -> None:
    assert masked_at({"a": [{"b": MASK}]}) == "payload.a.0.b"
    assert masked_at({"a": ["…", 1, None]}) is None


def test_numbers_that_browsers_cannot_hold_are_told_as_text_too() -> None:
    shown = payload_of(b'{"id": 12345678901234567890}', "application/json", DEFAULT)

    assert shown.kind == "json"
    assert shown.text == '{\n  "id": 12345678901234567890\n}'


def test_a_long_payload_is_masked_and_then_cut() -> None:
    raw = json.dumps({"fill": "x" * LONGEST, "password": SECRET}).encode()

    shown = payload_of(raw, "application/json", DEFAULT)

    assert (shown.kind, shown.truncated, shown.text) == ("text", True, None)
    assert len(shown.value) == LONGEST
    assert SECRET not in shown.value


def test_msgpack_is_shown_as_what_it_holds() -> None:
    shown = payload_of(msgspec.msgpack.encode({"token": SECRET, "n": 1}), "application/msgpack; version=2", DEFAULT)

    assert shown.value == {"token": MASK, "n": 1}


def test_bytes_are_shown_in_hexadecimal() -> None:
    shown = payload_of(b"\x00\xff" * 4096, "application/octet-stream", DEFAULT)

    assert (shown.kind, shown.truncated) == ("binary", True)
    assert shown.value.startswith("00 ff 00 ff")


def test_json_that_is_none_is_shown_as_text() -> None:
    shown = payload_of(b'{"password": "hunter2', "application/json", DEFAULT)

    assert (shown.kind, shown.value) == ("text", f'{{"password": {MASK}')


async def test_what_an_operator_has_searched_for_is_not_told_to_viewers(scene: Scene) -> None:
    async with scene.operator() as operator, scene.viewer() as viewer:
        wish = {"action": "discard", "filter": {"state": "dead", "text": SECRET}}
        begun = (await operator.post("/api/bulk", json=wish)).json()
        while (await operator.get(f"/api/bulk/{begun['id']}")).json()["state"] == "running":
            await asyncio.sleep(0.01)
        told = [await viewer.get(path) for path in ("/api/bulk", f"/api/bulk/{begun['id']}", "/api/audit")]

    assert begun["filter"]["text"] == SECRET
    assert [SECRET in answer.text for answer in told] == [False, False, False]
    assert told[1].json()["done"] == 2
    assert told[2].json()["rows"][0]["subject"] == "state dead, text …"


@pytest.mark.parametrize("odd", [b"\xff", b"\x00"], ids=["no UTF-8", "a zero"])
@pytest.mark.parametrize("content_type", ["application/json", "text/plain; charset=utf-8"])
def test_what_calls_itself_text_is_masked_though_a_byte_of_it_is_none(odd: bytes, content_type: str) -> None:
    shown = payload_of(b'{"password": "hunter2", "note": "' + odd + b'"}', content_type, DEFAULT)

    assert shown.kind == "text"
    assert "hunter2" not in str(shown.value)
    assert "68 75 6e 74" not in str(shown.value)
    assert "note" in str(shown.value)
