"""What text and payloads quote is masked however it is written, and masking costs no more than its length."""

import asyncio
from dataclasses import make_dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from mainspring.dashboard.api.payloads import LONGEST, payload_of
from mainspring.dashboard.responses import plain
from mainspring.dashboard.security.redaction import MASK, Redaction, masked_at
from mainspring.model.errors import BadOption
from mainspring.model.redaction import redacted
from tests.dashboard.scene import SECRET, Scene, opened

DEFAULT = Redaction()
KEY = f"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n{SECRET}\n-----END RSA PRIVATE KEY-----"


TEXTS = [
    "detail",
    "error",
    "freeze_reason",
    "output",
    "pause_reason",
    "problem",
    "progress",
    "subject",
    "summary",
    "traceback",
]


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_of_a_response_is_masked_wherever_it_is(name: str) -> None:
    view = make_dataclass("View", [(name, str | None), ("topic", str)])
    page = msgspec.defstruct("Page", [(name, str), ("rows", list[Any]), ("left_out", Any)])

    told = plain(page("pin=1", [view(f"password={SECRET}", "pin=1"), view(None, "t")], msgspec.UNSET), DEFAULT)

    assert told == {
        name: f"pin={MASK}",
        "rows": [{name: f"password={MASK}", "topic": "pin=1"}, {name: None, "topic": "t"}],
    }


def test_a_response_has_instants_in_utc_and_durations_in_seconds() -> None:
    there = datetime(2026, 7, 1, 9, tzinfo=timezone(timedelta(hours=2)))

    told = plain({"at": there, "every": (timedelta(minutes=1), {7: timedelta(milliseconds=5)})})

    assert told == {"at": there, "every": [60.0, {"7": 0.005}]}
    assert told["at"].tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"sent Authorization: Token {SECRET}\nto x", f"sent Authorization: {MASK}\nto x"),
        (f'Authorization: Digest username="x", response="{SECRET}"', f"Authorization: {MASK}"),
        (f"sent Cookie: a=b; sessionid={SECRET}\nto x", f"sent Cookie: {MASK}\nto x"),
        (f'{{"Authorization": "Bearer {SECRET}", "n": 1}}', f'{{"Authorization": {MASK}, "n": 1}}'),
        (f"bad key {KEY} here", f"bad key {MASK} here"),
        (f"private_key = {KEY}\nnext", f"private_key = {MASK}\nnext"),
        (f'private_key="{KEY[:-20]}', f"private_key={MASK}"),
        (f'api_key="{"x" * 5000}{SECRET}", n=1', f"api_key={MASK}, n=1"),
        (f'secret="two\nlines {SECRET}", n=1', f"secret={MASK}, n=1"),
        (f'body {{\\"password\\": \\"a {SECRET}\\", \\"n\\": 1}}', f'body {{\\"password\\": {MASK}, \\"n\\": 1}}'),
        (f'{{\\"password\\": \\"a\\\\\\"b {SECRET}\\"}}', f'{{\\"password\\": {MASK}}}'),
        (f"password: two {SECRET} words; n=1", f"password: {MASK}; n=1"),
        (f'passwords=["a", "{SECRET}"], n=1', f"passwords={MASK}, n=1"),
        (f'credentials={{"user": "u", "x": ["}}", "{SECRET}"]}} n=1', f"credentials={MASK} n=1"),
        (f"credentials={{'user': {SECRET}", f"credentials={MASK}"),
        (f"password=b'a {SECRET}' n=1", f"password={MASK} n=1"),
        (f"password=r'x'{SECRET} n=1", f"password={MASK} n=1"),
        (f"password => '{SECRET}', n", f"password => {MASK}, n"),
        (f"[('password', '{SECRET}'), ('n', 1)]", f"[('password', {MASK}), ('n', 1)]"),
        (f"(b'authorization', b'Bearer {SECRET}')", f"(b'authorization', {MASK})"),
        (f'{{"name": "password", "value": "{SECRET}"}}', f'{{"name": "password", "value": {MASK}}}'),
        (f"headers['x-api-key'] = '{SECRET}'", f"headers['x-api-key'] = {MASK}"),
        (f"?user=x&api_key={SECRET}&n=1", f"?user=x&api_key={MASK}&n=1"),
        (f"host=db password={SECRET} n=1", f"host=db password={MASK} n=1"),
    ],
)
def test_whatever_way_a_value_is_quoted_it_is_masked(text: str, shown: str) -> None:
    assert DEFAULT.text(text) == shown
    assert DEFAULT.text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "InvalidTokenError: not enough segments",
        "the fields 'password', 'name' are missing",
        "crate::auth::login failed",
        "2026-11-16T12:00:00Z: nothing",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_value_of_a_secret_stays(text: str) -> None:
    assert DEFAULT.text(text) == text


@pytest.mark.parametrize(
    "name", ["pass", "auth", "jwt", "bearer", "session_id", "sessionId", "signing_key", "pan", "db_pass"]
)
def test_more_names_tell_of_secrets(name: str) -> None:
    assert DEFAULT.value({name: SECRET}) == {name: MASK}


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"body": f'{{"password": "{SECRET}"}}'}, {"body": f'{{"password": {MASK}}}'}),
        ({"form": f"user=x&api_key={SECRET}"}, {"form": f"user=x&api_key={MASK}"}),
        ([f"Authorization: Bearer {SECRET}"], [f"Authorization: {MASK}"]),
        ({"headers": [["Authorization", SECRET]]}, {"headers": [["Authorization", MASK]]}),
        ({"name": "password", "value": SECRET}, {"name": "password", "value": MASK}),
        ({"pem": KEY}, {"pem": MASK}),
        ({"url": f"https://ada:{SECRET}@x/"}, {"url": f"https://{MASK}@x/"}),
        ({b"password": SECRET}, {b"password": MASK}),
        (["the token expired", "again"], ["the token expired", "again"]),
    ],
)
def test_text_within_payloads_is_masked(payload: Any, shown: Any) -> None:
    assert DEFAULT.value(payload) == shown


def test_whatever_is_masked_is_refused_when_it_comes_back() -> None:
    shown = DEFAULT.value({"url": f"https://ada:{SECRET}@x/"})

    assert masked_at(shown) == "payload.url"


def test_headers_are_masked_by_what_they_say_too() -> None:
    assert DEFAULT.headers({"x-raw": f"api_key={SECRET}"}) == {"x-raw": f"api_key={MASK}"}


async def test_reasons_are_masked_where_they_are_shown(scene: Scene) -> None:
    reason = f"old password={SECRET}"
    async with scene.operator() as client:
        await client.post("/api/consumers/pause", json={"group": "ship", "reason": reason})
        await client.post("/api/schedules/pause", json={"name": "weekly", "reason": reason})
        await client.post("/api/schedules/freeze", json={"reason": reason})
        paths = ("/api/consumers", "/api/schedules", "/api/schedule?name=weekly", "/api/audit")
        told = [(await client.get(path)).text for path in paths]

    assert [SECRET in each for each in told] == [False] * 4
    assert [f"old password={MASK}" in each for each in told] == [True] * 4


HOSTILE = {
    "letters": "a",
    "addresses": ":/:",
    "addresses that end": ':/:@"',
    "addresses in quotes": ":/:" * 100 + '"@',
    "names": "password=",
    "names with colons": "password:",
    "pairs": "('password',",
    "double quotes": 'token="\\',
    "quotes": "'\"",
    "quoted escapes": "password=['\\",
    "escaped quotes": 'password:\\"',
    "brackets": "secret=[{(",
    "closing brackets": "secret=[])}",
    "base64": "QUJDREVGRw+/",
    "keys": "-----BEGIN PRIVATE KEY",
    "keys that end": "-----BEGIN PRIVATE KEY-----END",
    "headers": "cookie:\n",
    "spaces": "password   ",
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("before", ["", "password=[", "token='"], ids=["bare", "in brackets", "in quotes"])
def test_masking_costs_no_more_than_the_length_of_the_text(before: str, part: str) -> None:
    # A tenth of a second; what grows by the square would take an hour.
    text = before + part * (400_000 // len(part))

    assert len(DEFAULT.text(text)) <= len(text) * 2
    assert len(redacted(text)) <= len(text) * 2


@pytest.mark.timeout(30)
def test_a_word_is_tried_once_and_not_from_each_of_its_letters() -> None:
    text = "a" * 4_000_000

    assert DEFAULT.text(text) == text


@pytest.mark.timeout(30)
def test_names_without_end_cost_nothing_whatever_is_redacted() -> None:
    starred = Redaction(["*a*b*c*d*e*f*g*", "x*y*z"])

    assert not starred.hides("ab" * 1_000_000)
    assert starred.hides("abcdefg")
    assert starred.hides("x-y-y-z")
    assert not starred.hides("xz")
    assert starred.value({"a" * 4_000_000: 1}) == {"a" * 4_000_000: 1}


def test_stars_alone_say_nothing() -> None:
    with pytest.raises(BadOption, match="has an empty name"):
        Redaction(["**"])


@pytest.mark.timeout(30)
def test_long_text_is_cut_before_it_is_masked() -> None:
    raw = ("x" * (LONGEST - 20) + f" password='{SECRET}' " + "y" * 4_000_000).encode()

    shown = payload_of(raw, "text/plain", DEFAULT)

    assert (len(shown.value), shown.truncated) == (LONGEST, True)
    assert SECRET[:2] not in shown.value


async def test_a_large_payload_is_shown_while_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[bool] = []

    def noted(self: Redaction, value: Any, depth: int = 0) -> Any:
        try:
            asyncio.get_running_loop()
            beside.append(False)
        except RuntimeError:
            beside.append(True)
        return whole(self, value, depth)

    whole = Redaction.value
    async with opened(dead=0, waiting=0) as scene, scene.viewer() as viewer:
        large = await scene.app.publish("nobody.listens", "x" * 20_000)
        small = await scene.app.publish("nobody.listens", "x")
        monkeypatch.setattr(Redaction, "value", noted)
        for receipt in (large, small):
            assert (await viewer.get(f"/api/messages/{receipt.id}")).status_code == 200

    assert beside == [True, False]


@pytest.mark.parametrize(
    "value",
    [
        {"a": msgspec.msgpack.Ext(5, b"x"), "password": SECRET},
        {None: 1, "password": SECRET},
        {"n": {(1, 2): 3}, "password": SECRET},
    ],
    ids=["a type of its own", "a key that is none", "a key of several"],
)
def test_what_json_has_no_word_for_is_shown_as_bytes_without_its_secrets(value: Any) -> None:
    shown = payload_of(msgspec.msgpack.encode(value), "application/msgpack", DEFAULT)

    assert (shown.kind, shown.text) == ("binary", None)
    assert SECRET.encode() not in bytes.fromhex(shown.value)
    assert msgspec.json.encode(shown)


def test_keys_of_bytes_are_masked_like_names() -> None:
    raw = msgspec.msgpack.encode({b"password": SECRET, "at": datetime(2026, 11, 16, tzinfo=UTC)})

    shown = payload_of(raw, "application/msgpack", DEFAULT)

    assert shown.kind == "json"
    assert SECRET not in (shown.text or "")
    assert "2026-11-16" in (shown.text or "")


async def test_what_was_searched_for_in_errors_is_not_told_to_viewers(scene: Scene) -> None:
    async with scene.operator() as operator, scene.viewer() as viewer:
        wish = {"action": "discard", "filter": {"state": "dead", "error": SECRET}}
        begun = (await operator.post("/api/bulk", json=wish)).json()
        while (await operator.get(f"/api/bulk/{begun['id']}")).json()["state"] == "running":
            await asyncio.sleep(0.01)
        told = [await viewer.get(path) for path in ("/api/bulk", f"/api/bulk/{begun['id']}", "/api/audit")]

    assert begun["filter"]["error"] == SECRET
    assert told[1].json()["done"] == 2
    assert [SECRET in answer.text for answer in told] == [False, False, False]
    assert told[2].json()["rows"][0]["subject"] == "state dead, error …"
