"""Pydantic models come back as they were published, whatever they call their fields in JSON."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, computed_field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mainspring.model.errors import Unreadable
from mainspring.storage import codec
from mainspring.storage.codec import MsgpackCodec

T = TypeVar("T")


class Plain(BaseModel):
    id: int


class Aliased(BaseModel):
    id: int = Field(alias="orderId")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: int = Field(alias="orderId")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int = Field(alias="orderId")


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    order_id: int


class ByEither(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    id: int = Field(alias="orderId")


class WrittenByAlias(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    id: int = Field(alias="orderId")


class ReadOtherwise(BaseModel):
    id: int = Field(validation_alias="orderId", serialization_alias="ORDER")


class WrittenOtherwise(BaseModel):
    id: int = Field(serialization_alias="ORDER")


class Chosen(BaseModel):
    id: int = Field(validation_alias=AliasChoices("orderId", "order"))


class Deep(BaseModel):
    first: str = Field(validation_alias=AliasPath("names", 0))


class Nested(BaseModel):
    lines: list[Strict]
    first: dict[str, Aliased]


class Tree(BaseModel):
    name: str = Field(alias="N")
    children: list["Tree"] = []


class Page(BaseModel, Generic[T]):
    items: list[T] = Field(alias="Items")


class Cat(BaseModel):
    kind: Literal["cat"] = Field("cat", alias="Kind")


class Dog(BaseModel):
    kind: Literal["dog"] = Field("dog", alias="Kind")


class Home(BaseModel):
    pet: Cat | Dog = Field(alias="Pet", discriminator="kind")


class Computed(BaseModel):
    id: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.id


class StrictlyComputed(Computed):
    model_config = ConfigDict(extra="forbid")


class Embedded(BaseModel):
    settings: pydantic.Json[dict[str, int]]


class Crossed(BaseModel):
    """Each field has the name of the other."""

    first: str = Field(alias="second")
    second: str = Field(alias="first")


class Holding(BaseModel):
    crossed: Crossed


@pydantic_dataclass
class Ordered:
    id: int = Field(alias="orderId")


@dataclass
class Around:
    inner: Strict
    more: list[Nested]


INSTANCES: list[tuple[Any, Any]] = [
    (Plain, Plain(id=1)),
    (Aliased, Aliased(orderId=1)),
    (Strict, Strict(orderId=1)),
    (Open, Open(orderId=1, more="kept")),  # type: ignore[call-arg]
    (Camel, Camel(orderId=1)),  # type: ignore[call-arg]
    (ByEither, ByEither(orderId=1)),
    (WrittenByAlias, WrittenByAlias(orderId=1)),
    (ReadOtherwise, ReadOtherwise(orderId=1)),  # type: ignore[call-arg]
    (WrittenOtherwise, WrittenOtherwise(id=1)),
    (Chosen, Chosen(order=1)),  # type: ignore[call-arg]
    (Deep, Deep(names=["Ada"])),  # type: ignore[call-arg]
    (Nested, Nested(lines=[Strict(orderId=1)], first={"a": Aliased(orderId=2)})),
    (Tree, Tree(N="a", children=[Tree(N="b")])),
    (Page[Strict], Page[Strict](Items=[Strict(orderId=1)])),
    (Home, Home(Pet=Dog(Kind="dog"))),
    (Computed, Computed(id=1)),
    (StrictlyComputed, StrictlyComputed(id=1)),
    (Embedded, Embedded(settings='{"a": 1}')),  # type: ignore[arg-type]
    (Crossed, Crossed(second="1", first="2")),
    (Holding, Holding(crossed=Crossed(second="1", first="2"))),
    (Ordered, Ordered(orderId=1)),
    (list[Strict], [Strict(orderId=1)]),
    (Strict | None, Strict(orderId=1)),
    (Around, Around(Strict(orderId=1), [Nested(lines=[], first={"a": Aliased(orderId=2)})])),
]


@pytest.mark.parametrize(("annotation", "value"), INSTANCES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_model_is_read_as_it_was_published(annotation: Any, value: Any) -> None:
    msgpack = MsgpackCodec()

    assert codec.decoder(annotation)(*codec.encode(value)) == value
    assert msgpack.decoder(annotation)(msgpack.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Plain(id=1), b'{"id":1}'),
        (Aliased(orderId=1), b'{"id":1}'),
        (WrittenByAlias(orderId=1), b'{"orderId":1}'),
        (WrittenOtherwise(id=1), b'{"id":1}'),
        (Computed(id=1), b'{"id":1,"double":2}'),
    ],
)
def test_fields_are_stored_by_name_and_computed_ones_where_they_can_be_read(value: Any, stored: bytes) -> None:
    assert codec.encode(value)[0] == stored


@pytest.mark.parametrize("payload", [b'{"orderId":1}', b'{"id":1}'])
def test_a_message_is_read_by_alias_too_as_others_write_it(payload: bytes) -> None:
    assert codec.decoder(Strict)(payload, codec.JSON) == Strict(orderId=1)


def test_what_is_neither_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="order_id"):
        codec.decoder(Strict)(b'{"order_id":1}', codec.JSON)


def test_a_model_that_writes_and_reads_itself_decides() -> None:
    class Own(BaseModel):
        id: int = Field(alias="orderId")

        def model_dump_json(self) -> str:  # type: ignore[override]
            return f'{{"own":{self.id}}}'

        @classmethod
        def model_validate_json(cls, payload: bytes) -> "Own":  # type: ignore[override]
            return cls(orderId=int(payload[7:-1]))

    assert codec.encode(Own(orderId=1))[0] == b'{"own":1}'
    assert codec.decoder(Own)(b'{"own":1}', codec.JSON) == Own(orderId=1)
