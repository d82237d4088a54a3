"""No beginning of a payload shows what is masked in the payload."""

import json
from typing import Any

import pytest

from mainspring.dashboard.security.redaction import MASK, Redaction
from mainspring.model.masking import Masking, Secrets
from mainspring.storage.codec.formats import preview

SECRET = "hunter2hunter2"
DIGITS = 987654321987654321

HIDDEN: list[Any] = [
    {"card number": SECRET},
    {"card.number": SECRET, "note": "password=x"},
    {"user/password": SECRET},
    {"ibän_password": SECRET},
    {"note": "password=x", "card number": SECRET},
    {"note": 'say "password: x, y" twice', "card number": SECRET},
    {"fields": [{"value": SECRET, "name": "password"}]},
    {"fields": [{"name": "password", "type": "text", "value": SECRET}]},
    {"fields": [{"value": {"deep": [SECRET]}, "order": {"a": 1}, "name": "password"}]},
    {"tokens": [SECRET, SECRET], "x": 1},
    {"secret": {"a": {"b": SECRET}}},
    {"pin": DIGITS},
    [["authorization", SECRET], ["x", "y"]],
    [["pin", DIGITS]],
    {"url": f"postgresql://ann:{SECRET}@db/shop"},
    {"url": f"postgresql://ann:{SECRET} and more@db/shop"},
    {"url": f"https://ghp_{SECRET}{SECRET}@example.org/x"},
    {"log": f'sent {{"password": "{SECRET}"}} and failed'},
    {"log": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----"},
]


@pytest.mark.parametrize("payload", HIDDEN, ids=repr)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_whatever_is_masked_in_a_payload_is_masked_in_each_beginning(
    payload: Any, indent: int | None, is_ascii: bool
) -> None:
    masking = Redaction()
    whole = json.dumps(payload, indent=indent, ensure_ascii=is_ascii)
    assert not _leaks(json.dumps(masking.value(payload), ensure_ascii=False))

    for end in range(1, len(whole) + 1):
        for shown in (masking.head(whole[:end]), masking.preview(f"{whole[:end]}…")):
            assert not _leaks(shown), (whole[:end], shown)


@pytest.mark.parametrize("payload", HIDDEN, ids=repr)
def test_a_preview_that_storage_has_cut_is_masked_as_the_payload_is(payload: Any) -> None:
    for before in range(180, 200):
        stored = json.dumps({"pad": "x" * before, "more": payload}).encode()
        for head in (stored, stored[: before + 60]):
            assert not _leaks(Redaction().preview(preview(head, "application/json", len(stored))))


@pytest.mark.parametrize(
    "payload",
    [
        {"password": SECRET},
        {"fields": [{"value": SECRET, "name": "password"}]},
        {"fields": [{"name": "password", "type": "text", "value": SECRET}]},
        {"log": f"sent Bearer {SECRET}"},
        [["authorization", SECRET]],
    ],
    ids=repr,
)
def test_storage_itself_masks_secrets_in_each_beginning(payload: Any) -> None:
    whole = json.dumps(payload)
    for end in range(1, len(whole) + 1):
        shown = preview(whole[:end].encode(), "application/json", len(whole))
        assert not _leaks(shown), shown


@pytest.mark.parametrize("masking", [Redaction(), Secrets()])
def test_what_is_no_secret_is_shown_as_it_was_written(masking: Masking) -> None:
    text = '{"order": 17,  "name": "Ann \\u00e4", "lines": [{"sku": "a"}, {"sku": "b"'
    assert masking.head(text) == text
    assert masking.head(text + "}]}") == text + "}]}"
    assert masking.head("plain, with no brackets") == "plain, with no brackets"
    assert masking.head("[INFO] started") == "[INFO] started"
    assert masking.head("17") == "17"


def test_what_is_masked_stands_where_it_was() -> None:
    shown = Redaction().preview('{"card number":"4111","pad":"xxx…')
    assert shown == f'{{"card number":"{MASK}","pad":"xxx…'
    assert Redaction(()).preview('{"value":"4111","pad":"xxx…') == '{"value":"4111","pad":"xxx…'
    assert "4111" not in Redaction().head("[" * 900 + '{"card number":"4111"')
    assert "4111" not in Redaction().head("[" * 99_000 + '{"card number":"4111"')
    assert "4111" not in Redaction().head('{"card\\u0020number":"4111","pad":"xxx')


def _leaks(text: str) -> bool:
    return SECRET[:3] in text or "987" in text
