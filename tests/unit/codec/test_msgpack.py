"""MessagePack takes what JSON takes, with the same strictness and the same limits."""

import dataclasses
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mainspring.model.errors import BadSignature, Unencodable, Unreadable
from mainspring.storage.codec import DEPTH, Codec, MsgpackCodec

MSGPACK = MsgpackCodec()


@dataclasses.dataclass
class Order:
    id: int
    placed: datetime | None = None


class Line(msgspec.Struct):
    sku: str


class Basket(TypedDict):
    lines: list[str]


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    id: UUID
    since: datetime


@pydantic_dataclass
class Address:
    city: str


@dataclasses.dataclass
class Sale:
    address: Address


ADA = Customer(id=UUID(int=1), since=datetime(2030, 1, 2, tzinfo=UTC))


def test_it_is_a_codec() -> None:
    codec: Codec = MSGPACK

    assert codec.content_type == "application/msgpack"


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (Order(1, datetime(2030, 1, 2, tzinfo=UTC)), Order),
        (Line("a"), Line),
        (Basket(lines=["x"]), Basket),
        (ADA, Customer),
        ([ADA], list[Customer]),
        (Address(city="Oslo"), Address),
        (Sale(Address(city="Oslo")), Sale),
        ({"a": [1, 2.5, None, True, b"\x00"]}, Any),
        ({"a": 1}, object),
        ({"a": 1}, dict),
        (b"\x00\xff", bytes),
        (Decimal("1.10"), Decimal),
        (7, int),
        (None, None),
    ],
)
def test_every_kind_of_payload_comes_back(value: Any, annotation: Any) -> None:
    assert MSGPACK.decoder(annotation)(MSGPACK.encode(value)) == value


def test_it_is_messagepack() -> None:
    assert MSGPACK.encode({"a": 1}) == b"\x81\xa1a\x01"


def test_unknown_fields_are_ignored_and_nothing_is_coerced() -> None:
    read = MSGPACK.decoder(Order)

    assert read(MSGPACK.encode({"id": 1, "unknown": True})) == Order(1)
    with pytest.raises(Unreadable, match="the payload is not Order: Expected `int`, got `str`"):
        read(MSGPACK.encode({"id": "1"}))


def test_what_has_no_encoding_is_named_with_its_place() -> None:
    with pytest.raises(Unencodable) as refused:
        MSGPACK.encode({"a": [1, object()]})

    assert str(refused.value) == (
        "a payload cannot hold object at `$.a[1]`: it has no MessagePack form; use a dataclass, msgspec.Struct, "
        "pydantic model, TypedDict, dict, list or scalar"
    )


def test_a_type_that_no_payload_fits_is_refused() -> None:
    class Opaque:
        pass

    with pytest.raises(BadSignature, match="Opaque cannot be a payload"):
        MSGPACK.decoder(Opaque)


def nested(levels: int, *, by: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if by == "list" else {"a": value}
    return value


@pytest.mark.parametrize("by", ["list", "dict"])
def test_it_nests_as_deep_as_json_may(by: str) -> None:
    assert MSGPACK.encode(nested(DEPTH, by=by))
    assert MSGPACK.encode([nested(DEPTH - 1, by=by), *([[]] * DEPTH)])
    with pytest.raises(Unencodable, match=f"nests deeper than {DEPTH} levels"):
        MSGPACK.encode([nested(DEPTH, by=by), *([[]] * DEPTH)])
    with pytest.raises(Unencodable, match=f"nests deeper than {DEPTH} levels"):
        MSGPACK.encode(nested(DEPTH + 1, by=by))
    with pytest.raises(Unencodable, match=f"nests deeper than {DEPTH} levels"):
        MSGPACK.encode(nested(5_000, by=by))


@given(st.binary(min_size=DEPTH, max_size=400))
def test_bytes_that_look_like_depth_are_not_deep(payload: bytes) -> None:
    assert MSGPACK.decoder(bytes)(MSGPACK.encode(payload)) == payload
