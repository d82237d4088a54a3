"""Codecs of an app: which are accepted, who is encoded by which, and what they do wrong when publishing."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import JsonCodec, Mainspring, MsgpackCodec
from mainspring.app.message.catalogue import Catalogue, read_codecs
from mainspring.app.message.envelope import MISSING, Envelope
from mainspring.model.errors import BadOption, Conflict, PayloadTooLarge, Unencodable
from tests.unit.app.stage import Desk

MSGPACK = "application/msgpack"


@dataclass
class OrderPlaced:
    id: int


@dataclass
class Plain:
    id: int


class Squeezed(JsonCodec):
    content_type = "application/json+zlib"

    def encode(self, value: Any) -> bytes:
        return zlib.compress(super().encode(value))

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        read = super().decoder(annotation)
        return lambda payload: read(zlib.decompress(payload))


class Failing(MsgpackCodec):
    def __init__(self, does: Callable[[], Any]) -> None:
        self.does = does

    def encode(self, value: Any) -> bytes:
        encoded: bytes = self.does()
        return encoded


def catalogue(*codecs: Any, own: str = MSGPACK) -> Catalogue:
    made = Catalogue(read_codecs(codecs or [MsgpackCodec()]))
    made.register(OrderPlaced, "orders.placed", own)
    made.register(Plain, "orders.plain")
    return made


def envelope(made: Catalogue, limit: int = 1_000) -> Envelope:
    return Envelope(made, limit, Desk().clock)


def test_a_type_is_written_by_its_codec_and_others_are_json() -> None:
    made = envelope(catalogue())

    typed = made.draft(OrderPlaced(1), MISSING)
    plain = made.draft(Plain(1), MISSING)

    assert (typed.payload, typed.content_type) == (b"\x81\xa2id\x01", MSGPACK)
    assert (plain.payload, plain.content_type) == (b'{"id":1}', "application/json")


UNCHECKED = {"validate": False}


def test_whatever_is_published_on_the_topic_of_a_type_is_written_by_its_codec() -> None:
    made = envelope(catalogue())

    for message in (("orders.placed", {"id": 1}), (OrderPlaced, {"id": 1}), ("elsewhere", OrderPlaced(1))):
        draft = made.draft(*message)

        assert (draft.payload, draft.content_type) == (b"\x81\xa2id\x01", MSGPACK)
    assert made.draft("elsewhere", {"id": 1}).content_type == "application/json"
    assert made.draft("orders.placed", b"\x00", UNCHECKED).payload == MsgpackCodec().encode(b"\x00")


def test_a_type_that_is_not_ones_own_has_a_codec_on_its_topic_only() -> None:
    made = Catalogue([MsgpackCodec()])
    made.register(dict, "plain", MSGPACK)
    read = made.decoder(dict)

    assert made.encode({"a": 1}, "plain") == (b"\x81\xa1a\x01", MSGPACK)
    assert made.encode({"a": 1}, "elsewhere") == (b'{"a":1}', "application/json")
    assert read(b"\x81\xa1a\x01", MSGPACK) == read(b'{"a":1}', "application/json; version=7") == {"a": 1}


def test_a_straight_message_is_written_by_the_codec_of_its_topic() -> None:
    draft = envelope(catalogue()).draft({"id": 1}, MISSING, group="receipts", topic="orders.placed")

    assert draft.content_type == MSGPACK


def test_json_may_be_named() -> None:
    assert catalogue(own="application/json").encode(OrderPlaced(1), "orders.placed") == (
        b'{"id":1}',
        "application/json",
    )


def test_the_limit_is_on_what_is_stored() -> None:
    zeros = {"id": "0" * 5_000}
    made = catalogue(Squeezed(), own="application/json+zlib")

    assert len(envelope(made, limit=100).draft("orders.placed", zeros, UNCHECKED).payload) < 100
    with pytest.raises(PayloadTooLarge, match=r"the payload for topic 'orders.placed' is 5,0"):
        envelope(catalogue(), limit=100).draft("orders.placed", zeros)


def test_the_limit_on_depth_holds_inside_a_codec() -> None:
    value: Any = 1
    for _ in range(65):
        value = [value]

    for made in (catalogue(), catalogue(Squeezed(), own="application/json+zlib")):
        with pytest.raises(Unencodable, match="nests deeper than 64 levels"):
            made.encode(value, "orders.placed")


def boom() -> bytes:
    raise LookupError("no key for tenant 7")


@pytest.mark.parametrize(
    ("does", "message"),
    [
        (
            boom,
            (
                "codec 'application/msgpack' cannot encode OrderPlaced for topic 'orders.placed': LookupError: no key "
                "for tenant 7 (test_codecs.py:"
            ),
        ),
        (
            lambda: "text",
            (
                "codec 'application/msgpack' encoded OrderPlaced for topic 'orders.placed' as str: encode(…) must "
                "return bytes"
            ),
        ),
        (
            lambda: MsgpackCodec().encode({"a": object()}),
            (
                "codec 'application/msgpack' cannot encode OrderPlaced for topic 'orders.placed': a payload cannot "
                "hold object at `$.a`"
            ),
        ),
    ],
)
def test_what_a_codec_cannot_write_is_refused_with_the_cause(does: Callable[[], Any], message: str) -> None:
    with pytest.raises(Unencodable) as refused:
        envelope(catalogue(Failing(does))).draft(OrderPlaced(1), MISSING)

    assert str(refused.value).startswith(message)


def test_a_codec_may_return_any_kind_of_bytes() -> None:
    assert catalogue(Failing(lambda: bytearray(b"a"))).encode(OrderPlaced(1), "t") == (b"a", MSGPACK)
    assert type(catalogue(Failing(lambda: memoryview(b"a"))).encode(OrderPlaced(1), "t")[0]) is bytes


def test_a_replacement_keeps_the_version_unless_it_is_of_the_type() -> None:
    made = Catalogue()
    made.register(OrderPlaced, "orders.placed", None, 3)

    def content_type(payload: object, topic: str = "orders.placed") -> str:
        older = "application/json; version=2"
        return envelope(made).draft(payload, MISSING, UNCHECKED, topic=topic, instead_of=older).content_type

    assert content_type({"id": 1}) == "application/json; version=2"
    assert content_type({"id": 1}, topic="elsewhere") == "application/json; version=2"
    assert content_type(OrderPlaced(1)) == "application/json; version=3"
    assert content_type(b"\x00") == "application/octet-stream"


class NoDecoder:
    content_type = "application/x"

    def encode(self, value: Any) -> bytes:
        return b""


class Named(MsgpackCodec):
    def __init__(self, content_type: Any) -> None:
        self.content_type = content_type


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        (None, "codecs=None must be a list of codecs, as in codecs=[MsgpackCodec()]"),
        ("application/msgpack", "codecs='application/msgpack' must be a list of codecs, as in codecs=[MsgpackCodec()]"),
        ([MsgpackCodec], "codecs holds the class MsgpackCodec: make one, MsgpackCodec(…)"),
        (["msgpack"], "codecs holds 'msgpack': a codec has content_type, encode(value) and decoder(annotation)"),
        (
            [Named("application/json")],
            (
                "the content type of Named is 'application/json', which is built in: choose another, as in "
                "'application/vnd.shop+json'"
            ),
        ),
        (
            [Named("msgpack")],
            (
                "the content type of Named is 'msgpack': write a type and a subtype in lower case, as in "
                "'application/msgpack'"
            ),
        ),
        (
            [MsgpackCodec(), Named(MSGPACK)],
            "codecs holds two for content type 'application/msgpack': keep one, since it is found by that",
        ),
    ],
)
def test_what_is_no_codec_is_refused_with_what_to_change(codecs: Any, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://", codecs=codecs)

    assert str(refused.value) == message


def test_half_a_codec_is_none() -> None:
    with pytest.raises(BadOption, match=r"a codec has content_type, encode\(value\) and decoder\(annotation\)"):
        Mainspring("memory://", codecs=[NoDecoder()])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            "application/msgpak",
            (
                "codec='application/msgpak' is not the content type of a codec of this app. Did you mean "
                "'application/msgpack'? There are application/json, application/msgpack: give others to "
                "Mainspring(codecs=[…])"
            ),
        ),
        (
            MsgpackCodec,
            (
                f"codec={MsgpackCodec!r} is not the content type of a codec of this app. There are application/json, "
                "application/msgpack: give others to Mainspring(codecs=[…])"
            ),
        ),
    ],
)
def test_a_type_names_a_codec_of_its_app(own: Any, message: str) -> None:
    app = Mainspring("memory://", codecs=[MsgpackCodec()])

    with pytest.raises(BadOption) as refused:
        app.message("orders.placed", codec=own)(OrderPlaced)

    assert str(refused.value) == message


def test_a_type_has_one_codec() -> None:
    with pytest.raises(Conflict, match="OrderPlaced is already registered as 'application/msgpack', and now as 'appl"):
        catalogue().register(OrderPlaced, "orders.placed")
