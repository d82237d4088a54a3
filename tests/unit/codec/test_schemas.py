"""JSON schemas of payload types: what they accept is what a consumer can read."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NewType, TypedDict

import jsonschema_rs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from mainspring.storage.codec import encode, json_reader
from mainspring.storage.codec.schemas import PLACE, PayloadSchemas

OrderId = NewType("OrderId", int)


class Line(msgspec.Struct):
    """One line.

    Of an order.
    """

    article: str
    size: tuple[int, str]


class Placed(msgspec.Struct, tag=True):
    order_id: OrderId
    lines: list[Line] = []


class Cancelled(msgspec.Struct, tag=True):
    reason: str


@dataclass
class Paid:
    order_id: int
    at: datetime


class Sent(TypedDict):
    parcel: str


class Weight(BaseModel):
    grams: int


class Parcel(BaseModel):
    number: str = Field(alias="no")
    weight: Weight
    route: tuple[str, str]


class Swapped(BaseModel):
    """Written by alias, since one is the name of another field."""

    a: int = Field(alias="b")
    b: str = Field(alias="c")


class Camel(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)

    order_id: int = Field(alias="orderId")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Node(msgspec.Struct):
    name: str
    children: list["Node"] = []


class Box(msgspec.Struct):
    """A model inside of a struct."""

    parcel: Parcel
    more: dict[str, Weight] = {}


def validator(annotation: Any) -> jsonschema_rs.Draft7Validator:
    schemas = PayloadSchemas([annotation])
    return jsonschema_rs.Draft7Validator(
        {"allOf": [schemas.of(annotation)], "components": {"schemas": schemas.components}}
    )


WEIGHT = Weight(grams=7)
PARCEL = Parcel(no="7", weight=WEIGHT, route=("a", "b"))
VALUES = [
    (int, 7, b'"7"'),
    (dict[str, int], {"a": 1}, b'{"a": "1"}'),
    (Line, Line("pen", (1, "L")), b'{"article": "pen", "size": [1, 2]}'),
    (Line, Line("pen", (1, "L")), b'{"article": "pen", "size": [1, "L", 3]}'),
    (Placed | Cancelled, Cancelled("late"), b'{"type": "Placed"}'),
    (Paid, Paid(7, datetime(2030, 1, 1)), b'{"order_id": 7}'),  # noqa: DTZ001
    (Sent, Sent(parcel="7"), b"{}"),
    (Annotated[str, msgspec.Meta(min_length=2)], "ab", b'"a"'),
    (Node, Node("a", [Node("b")]), b'{"name": "a", "children": [{}]}'),
    (Parcel, PARCEL, b'{"number": "7", "weight": {}, "route": ["a", "b"]}'),
    (Parcel, PARCEL, b'{"number": "7", "weight": {"grams": 1}, "route": ["a", "b", "c"]}'),
    (list[Weight], [WEIGHT], b"[{}]"),
    (Swapped, Swapped(b=7, c="x"), b'{"b": "x", "c": "x"}'),
    (Camel, Camel(orderId=7), b'{"orderId": "x"}'),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Cat(kind="cat"), b'{"kind": "cow"}'),
    (Box, Box(PARCEL, {"a": WEIGHT}), b'{"parcel": {}}'),
]


@pytest.mark.parametrize(("annotation", "value", "unfit"), VALUES)
def test_a_schema_accepts_what_is_published_and_rejects_what_no_consumer_can_read(
    annotation: Any, value: object, unfit: bytes
) -> None:
    payload, _ = encode(value)
    with pytest.raises((msgspec.ValidationError, ValueError)):
        json_reader(annotation)(unfit)

    checked = validator(annotation)

    assert list(checked.iter_errors(msgspec.json.decode(payload))) == []
    assert not checked.is_valid(msgspec.json.decode(unfit))


def test_two_types_of_one_name_have_two_schemas() -> None:
    struct = msgspec.defstruct("Parcel", [("label", str)])

    schemas = PayloadSchemas([Parcel, struct, Box])

    assert schemas.of(Parcel) == {"$ref": f"{PLACE}Parcel"}
    assert schemas.of(struct) == {"$ref": f"{PLACE}Parcel-2"}
    assert schemas.components["Box"]["properties"]["parcel"] == {"$ref": f"{PLACE}Parcel"}
    assert set(schemas.components["Parcel-2"]["properties"]) == {"label"}


def test_a_type_without_a_schema_hides_no_other() -> None:
    schemas = PayloadSchemas([object, complex, Sent])

    assert schemas.of(complex) == {}
    assert schemas.of(object) == {}
    assert schemas.of(Sent) == {"$ref": f"{PLACE}Sent"}


def test_a_field_may_be_named_like_a_keyword_and_a_description_has_no_indentation() -> None:
    keywords = msgspec.defstruct("Keywords", [("items", int), ("discriminator", str), ("prefixItems", list[int])])

    schemas = PayloadSchemas([keywords, Line])

    assert list(schemas.components["Keywords"]["properties"]) == ["items", "discriminator", "prefixItems"]
    assert schemas.components["Line"]["description"] == "One line.\n\nOf an order."
