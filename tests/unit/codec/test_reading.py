"""What is stored says its content type, and is read by that: codecs of the user's own, and what they do wrong."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from mainspring.model.errors import BadSignature, Unreadable
from mainspring.storage.codec import JSON, Codec, JsonCodec, MsgpackCodec, Versions, decoder
from tests.unit.codec.wrapping import Signed, Squeezed

MSGPACK = "application/msgpack"


@dataclass
class Order:
    id: int


class Customer(pydantic.BaseModel):
    name: str


class Broken:
    """Whatever it is asked, it fails."""

    content_type = "application/x-broken"

    def encode(self, value: object) -> bytes:
        raise KeyError("no key")

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        def decode(payload: bytes) -> Any:
            raise KeyError("no key")

        return decode


class OnlyOrders:
    """Knows one type, as generated code does."""

    content_type = "application/x-order"

    def encode(self, value: Any) -> bytes:
        return b"%d" % value.id

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        if annotation is not Order:
            raise LookupError(f"{annotation} was not generated")
        return lambda payload: Order(int(payload))


class Opaque:
    """No JSON fits it."""


class OpaqueCodec:
    content_type = "application/x-opaque"

    def encode(self, value: object) -> bytes:
        return b"."

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        if annotation is not Opaque:
            raise TypeError("not mine")
        return lambda _payload: Opaque()


def known(*codecs: Codec) -> dict[str, Codec]:
    return {each.content_type: each for each in codecs}


def test_each_payload_is_read_by_the_content_type_it_is_stored_with() -> None:
    squeezed, signed = Squeezed(JsonCodec()), Signed(MsgpackCodec(), b"secret")

    for annotation in (Order, dict[str, int], Any):
        read = decoder(annotation, known(MsgpackCodec(), squeezed, signed))
        one = Order(1) if annotation is Order else {"id": 1}

        assert read(b'{"id":1}', JSON) == one
        assert read(b'{"id":1}', "application/vnd.shop+json; charset=utf-8") == one
        assert read(MsgpackCodec().encode({"id": 1}), MSGPACK) == one
        assert read(squeezed.encode({"id": 1}), squeezed.content_type) == one
        assert read(signed.encode({"id": 1}), signed.content_type.upper()) == one


def test_a_handler_that_asks_for_bytes_gets_them_as_they_are_stored() -> None:
    assert decoder(bytes, known(Squeezed(JsonCodec())))(b"\x00", "application/json+zlib") == b"\x00"


@pytest.mark.parametrize(
    ("payload", "content_type", "message"),
    [
        (b"\xc1", MSGPACK, "codec 'application/msgpack': the payload is not Order: MessagePack data is malformed"),
        (b"", MSGPACK, "codec 'application/msgpack': the payload is not Order: Input data was truncated"),
        (
            MsgpackCodec().encode({"id": "1"}),
            MSGPACK,
            "codec 'application/msgpack': the payload is not Order: Expected `int`, got `str` - at `$.id`",
        ),
        (
            b"not zlib",
            "application/json+zlib",
            "codec 'application/json+zlib' could not read it as Order: error: Error -3",
        ),
        (
            zlib.compress(b'{"id":"x"}'),
            "application/json+zlib",
            "codec 'application/json+zlib': the payload is not Order: Expected `int`, got `str` - at `$.id`",
        ),
        (
            zlib.compress(b"0" * 1_000_000),
            "application/json+zlib",
            "codec 'application/json+zlib' could not read it as Order: ValueError: it is more than 1000 bytes (wrap",
        ),
        (
            b"0" * 32 + b'{"id":1}',
            "application/vnd.shop.signed+json",
            "codec 'application/vnd.shop.signed+json': the signature does not fit",
        ),
        (
            b"",
            "application/x-broken",
            "codec 'application/x-broken' could not read it as Order: KeyError: 'no key' (test_reading.py:",
        ),
    ],
)
def test_what_a_codec_cannot_read_is_unreadable_with_the_cause(payload: bytes, content_type: str, message: str) -> None:
    read = decoder(Order, known(MsgpackCodec(), Squeezed(JsonCodec()), Signed(JsonCodec(), b"secret"), Broken()))

    with pytest.raises(Unreadable) as refused:
        read(payload, content_type)

    assert str(refused.value).startswith(message)
    assert refused.value.__cause__ is not None


@pytest.mark.parametrize("annotation", [Any, list, dict])
def test_a_bottomless_payload_is_unreadable(annotation: Any) -> None:
    payload = b"\x81\xa1a" * 100_000 if annotation is dict else b"\x91" * 100_000

    with pytest.raises(Unreadable, match="recursion"):
        decoder(annotation, known(MsgpackCodec()))(payload, MSGPACK)


def test_a_pydantic_model_complains_on_one_line_through_any_codec() -> None:
    with pytest.raises(Unreadable) as refused:
        decoder(Customer, known(MsgpackCodec()))(MsgpackCodec().encode({"name": 1}), MSGPACK)

    assert str(refused.value) == (
        "codec 'application/msgpack': the payload is not Customer: Input should be a valid string - at `$.name`"
    )


def test_a_codec_that_does_not_know_the_type_leaves_the_others_alone() -> None:
    read = decoder(dict, known(OnlyOrders()))

    assert read(b'{"id":1}', JSON) == {"id": 1}
    with pytest.raises(Unreadable) as refused:
        read(b"1", "application/x-order")
    assert str(refused.value).startswith(
        "content type 'application/x-order' cannot be read as dict: LookupError: <class 'dict'> was not generated"
    )


def test_a_type_that_only_a_codec_can_read_is_read_by_that() -> None:
    read = decoder(Opaque, known(OpaqueCodec()))

    assert isinstance(read(b".", "application/x-opaque"), Opaque)
    with pytest.raises(Unreadable, match="'application/json' cannot be read as Opaque: BadSignature: Opaque cannot"):
        read(b"{}", JSON)


def test_a_type_that_nobody_can_read_is_refused_at_once() -> None:
    with pytest.raises(BadSignature, match="Opaque cannot be a payload: use a dataclass"):
        decoder(Opaque, known(OnlyOrders()))


def test_a_message_type_must_be_readable_by_its_own_codec() -> None:
    with pytest.raises(BadSignature, match="codec 'application/x-order' cannot read Opaque: LookupError"):
        decoder(Opaque, known(OpaqueCodec(), OnlyOrders()), Versions("Opaque", "application/x-order"))
    with pytest.raises(BadSignature, match="Opaque cannot be a payload: use a dataclass"):
        decoder(Opaque, known(OpaqueCodec()), Versions("Opaque"))


def test_a_codec_that_returns_no_reader_has_refused() -> None:
    class Lazy(OnlyOrders):
        def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
            return None  # type: ignore[return-value]

    with pytest.raises(Unreadable, match=r"TypeError: decoder\(Order\) returned None, which cannot be called"):
        decoder(Order, known(Lazy()))(b"1", "application/x-order")


def test_readers_are_built_once() -> None:
    built = []

    class Counting(MsgpackCodec):
        def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
            built.append(annotation)
            return super().decoder(annotation)

    read = decoder(Order, known(Counting()))
    for _ in range(3):
        assert read(MsgpackCodec().encode({"id": 1}), MSGPACK) == Order(1)

    assert built == [Order]
