import dataclasses
import subprocess
import sys
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mainspring.model.errors import BadSignature, Unreadable
from mainspring.storage.codec import BYTES, JSON, decoder


@dataclasses.dataclass
class Order:
    id: int
    lines: list[int] = dataclasses.field(default_factory=list)


class Line(msgspec.Struct):
    sku: str


class Basket(TypedDict):
    lines: list[str]
    note: NotRequired[str]


class Customer(pydantic.BaseModel):
    name: str
    age: int = 0


@pydantic_dataclass
class Address:
    city: str


@dataclasses.dataclass
class Sale:
    customer: Customer


class Opaque:
    pass


@dataclasses.dataclass
class Holder:
    inner: Opaque


@pytest.mark.parametrize(
    ("annotation", "payload", "value"),
    [
        (Order, b'{"id":1,"lines":[2]}', Order(1, [2])),
        (Order, b'{"id":1,"unknown":true}', Order(1)),
        (Line, b'{"sku":"a","unknown":1}', Line("a")),
        (Basket, b'{"lines":["x"],"unknown":1}', {"lines": ["x"]}),
        (Customer, b'{"name":"Ann","unknown":1}', Customer(name="Ann")),
        (Address, b'{"city":"Oslo"}', Address(city="Oslo")),
        (Sale, b'{"customer":{"name":"Ann"}}', Sale(Customer(name="Ann"))),
        (list[Customer], b'[{"name":"Ann"}]', [Customer(name="Ann")]),
        (Customer | None, b"null", None),
        (Customer | int, b"5", 5),
        (dict[str, Customer], b'{"a":{"name":"Ann"}}', {"a": Customer(name="Ann")}),
        (dict, b'{"a":1}', {"a": 1}),
        (list[int], b"[1]", [1]),
        (int, b"7", 7),
        (str | None, b"null", None),
        (Order | int, b"7", 7),
        (Literal["a", "b"], b'"b"', "b"),
        (Annotated[int, msgspec.Meta(gt=0)], b"1", 1),
        (None, b"null", None),
        (Any, b'{"a":[1]}', {"a": [1]}),
        (object, b"[1]", [1]),
    ],
)
def test_every_kind_of_payload_is_read(annotation: Any, payload: bytes, value: object) -> None:
    assert decoder(annotation)(payload, JSON) == value


def test_a_decoder_asked_for_bytes_hands_them_over() -> None:
    assert decoder(bytes)(b"\x00", BYTES) == b"\x00"
    assert decoder(bytes)(b"{}", JSON) == b"{}"


def test_an_untyped_handler_gets_bytes_as_bytes() -> None:
    assert decoder(Any)(b"\x00", BYTES) == b"\x00"


def test_another_spelling_of_json_is_json() -> None:
    assert decoder(int)(b"1", "application/vnd.shop+json; charset=utf-8") == 1


@pytest.mark.parametrize(
    ("annotation", "payload", "message"),
    [
        (Order, b'{"id":"1"}', "the payload is not Order: Expected `int`, got `str` - at `$.id`"),
        (Order, b'{"id":1,"lines":[1,"a"]}', "the payload is not Order: Expected `int`, got `str` - at `$.lines[1]`"),
        (Order, b"{}", "the payload is not Order: Object missing required field `id`"),
        (Basket, b'{"lines":5}', "the payload is not Basket: Expected `array`, got `int` - at `$.lines`"),
        (dict, b"[]", "the payload is not dict: Expected `object`, got `array`"),
        (list[int], b"{}", "the payload is not list[int]: Expected `array`, got `object`"),
        (int, b"", "the payload is not int: Input data was truncated"),
        (Any, b"\xff", "the payload is not JSON: JSON is malformed: invalid character (byte 0)"),
        (None, b"1", "the payload is not None: Expected `null`, got `int`"),
        (
            Customer,
            b'{"name":1,"age":"x"}',
            (
                "the payload is not Customer: Input should be a valid string - at `$.name`; Input should be a valid "
                "integer, unable to parse string as an integer - at `$.age`"
            ),
        ),
        (list[Customer], b"[{}]", f"the payload is not {list[Customer]}: Field required - at `$[0].name`"),
    ],
)
def test_a_payload_that_does_not_fit_says_where(annotation: Any, payload: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as refused:
        decoder(annotation)(payload, JSON)

    assert str(refused.value) == message


@pytest.mark.parametrize("annotation", [Any, list, dict])
def test_a_bottomless_payload_is_unreadable(annotation: Any) -> None:
    payload = b'{"a":' * 100_000 if annotation is dict else b"[" * 100_000

    with pytest.raises(Unreadable, match="recursion"):
        decoder(annotation)(payload, JSON)


def test_bytes_for_a_typed_handler_are_unreadable() -> None:
    with pytest.raises(Unreadable) as refused:
        decoder(Order)(b"{}", BYTES)

    assert str(refused.value) == (
        "content type 'application/octet-stream' is not decoded, and the handler asks for Order: annotate its payload "
        "with bytes, or publish something else"
    )


@pytest.mark.parametrize(
    "content_type", ["application/msgpack", "text/plain", "none such", "", ";", "application/json+zip"]
)
@pytest.mark.parametrize("annotation", [Order, dict, Any])
def test_a_content_type_that_nobody_knows_is_unreadable(annotation: Any, content_type: str) -> None:
    with pytest.raises(Unreadable) as refused:
        decoder(annotation)(b'{"id":1}', content_type)

    assert str(refused.value).startswith(f"no codec for content type {content_type!r} here, only for application/json")


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (
            Opaque,
            (
                "Opaque cannot be a payload: use a dataclass, msgspec.Struct, pydantic model, TypedDict, dict, list or "
                "scalar"
            ),
        ),
        (
            Holder,
            (
                "Holder cannot be a payload because it holds Opaque: use a dataclass, msgspec.Struct, pydantic model, "
                "TypedDict, dict, list or scalar"
            ),
        ),
        (
            Order | Line,
            (
                f"{Order | Line} cannot be a payload: Type unions may not contain more than one dict-like type "
                f"(`Struct`, `dict`, `TypedDict`, `dataclass`) - type `{Order | Line}` is not supported"
            ),
        ),
    ],
)
def test_a_type_that_no_payload_fits_is_refused_at_once(annotation: Any, message: str) -> None:
    with pytest.raises(BadSignature) as refused:
        decoder(annotation)

    assert str(refused.value) == message


def test_a_type_that_refers_to_itself_is_fine() -> None:
    assert decoder(Tree)(b'{"children":[{}]}', JSON) == Tree([Tree()])


@dataclasses.dataclass
class Tree:
    children: list["Tree"] = dataclasses.field(default_factory=list)


def test_pydantic_is_never_imported_for_those_who_do_not_use_it() -> None:
    program = (
        "import sys\n"
        "from mainspring.storage.codec import decoder, encode\n"
        "decoder(dict)(encode({'a': 1})[0], 'application/json')\n"
        "assert 'pydantic' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
