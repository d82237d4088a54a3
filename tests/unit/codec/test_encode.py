import dataclasses
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mainspring.model.errors import Unencodable
from mainspring.storage.codec import BYTES, DEPTH, JSON, encode

ADVICE = "use a dataclass, msgspec.Struct, pydantic model, TypedDict, dict, list or scalar"


@dataclasses.dataclass
class Order:
    id: int
    note: object = None


class Line(msgspec.Struct):
    sku: str
    extra: object = None


class Basket(TypedDict):
    lines: list[str]


class Customer(pydantic.BaseModel):
    name: str
    since: datetime


@pydantic_dataclass
class Address:
    city: str


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (Order(1), b'{"id":1,"note":null}'),
        (Line("a"), b'{"sku":"a","extra":null}'),
        (Basket(lines=["x"]), b'{"lines":["x"]}'),
        (
            Customer(name="Ann", since=datetime(2030, 1, 2, tzinfo=UTC)),
            b'{"name":"Ann","since":"2030-01-02T00:00:00Z"}',
        ),
        (Address(city="Oslo"), b'{"city":"Oslo"}'),
        ({"a": [1, 2.5, None, True]}, b'{"a":[1,2.5,null,true]}'),
        ([Address(city="Oslo"), Order(2)], b'[{"city":"Oslo"},{"id":2,"note":null}]'),
        ("text", b'"text"'),
        (7, b"7"),
        (None, b"null"),
        (Colour.RED, b'"red"'),
        (Decimal("1.10"), b'"1.10"'),
        (UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (float("nan"), b"null"),
        ({1: "a"}, b'{"1":"a"}'),
    ],
)
def test_every_kind_of_payload_becomes_json(value: object, payload: bytes) -> None:
    assert encode(value) == (payload, JSON)


@pytest.mark.parametrize("value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
def test_bytes_are_stored_as_they_are(value: Any) -> None:
    assert encode(value) == (b"\x00\xff", BYTES)


def test_a_pydantic_model_inside_something_else_is_written_by_itself() -> None:
    customer = Customer(name="Ann", since=datetime(2030, 1, 2, tzinfo=UTC))

    assert encode({"who": customer})[0] == b'{"who":{"name":"Ann","since":"2030-01-02T00:00:00Z"}}'


def test_a_pydantic_model_keeps_its_own_way_of_writing() -> None:
    class Shouting(pydantic.BaseModel):
        text: str

        @pydantic.field_serializer("text")
        def shout(self, text: str) -> str:
            return text.upper()

    assert encode(Shouting(text="hi"))[0] == b'{"text":"HI"}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), f"a payload cannot hold object: it has no JSON form; {ADVICE}"),
        ({"a": [1, {"b": object()}]}, f"a payload cannot hold object at `$.a[1].b`: it has no JSON form; {ADVICE}"),
        (
            Order(1, note=print),
            f"a payload cannot hold builtin_function_or_method at `$.note`: it has no JSON form; {ADVICE}",
        ),
        (Line("a", extra={3: 1j}), f"a payload cannot hold complex at `$.extra[3]`: it has no JSON form; {ADVICE}"),
        ({"a": {(1, 2): 3}}, f"a payload cannot hold dict at `$.a`: its key (1, 2) is not text or a number; {ADVICE}"),
        (
            {"a": "\ud800"},
            (
                "a payload cannot hold str at `$.a`: 'utf-8' codec can't encode character '\\ud800' in position 0: "
                f"surrogates not allowed; {ADVICE}"
            ),
        ),
    ],
)
def test_what_has_no_encoding_is_named_with_its_place(value: object, message: str) -> None:
    with pytest.raises(Unencodable) as refused:
        encode(value)

    assert str(refused.value) == message


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def test_the_deepest_payload_allowed_is_stored() -> None:
    payload, _ = encode(nested(DEPTH))

    assert msgspec.json.decode(payload) == nested(DEPTH)


@pytest.mark.parametrize("depth", [DEPTH + 1, 500, 100_000])
def test_a_deeper_payload_is_refused(depth: int) -> None:
    with pytest.raises(Unencodable) as refused:
        encode(nested(depth))

    assert str(refused.value) == "the payload nests deeper than 64 levels: send a flatter one, or a reference to it"


def test_a_payload_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(Unencodable, match="nests deeper than 64 levels"):
        encode(loop)


def test_brackets_in_text_are_not_depth() -> None:
    text = '[{"' * 200 + "\\"

    assert msgspec.json.decode(encode([text, {text: text}])[0]) == [text, {text: text}]


def test_wide_is_not_deep() -> None:
    assert len(encode([[{}]] * 1000)[0]) == 5001


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.unmeasured
@given(JSON_VALUES)
def test_json_values_survive(value: Any) -> None:
    payload, content_type = encode(value)

    assert content_type == JSON
    assert msgspec.json.decode(payload) == value
