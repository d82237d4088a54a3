"""Versions of a message type: stamped when published, brought up to date when delivered."""

from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

from mainspring import MsgpackCodec
from mainspring.model.errors import Unreadable
from tests.unit.app.versioned import ORDERS, OrderPlaced, catalogue, complete, several_lines, with_currency

JSON = "application/json"


class Structured(msgspec.Struct):
    id: int
    lines: list[str]


class Modelled(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    id: int
    lines: list[str]


class Listed(TypedDict):
    id: int
    lines: list[str]


def test_what_is_published_says_its_version() -> None:
    made = complete()

    for value in (OrderPlaced(1, []), {"id": 1, "lines": []}):
        assert made.encode(value, "orders.placed")[1] == "application/json; version=3"
    assert made.encode(OrderPlaced(1, []), "elsewhere")[1] == "application/json; version=3"
    assert made.encode({"id": 1}, "elsewhere")[1] == JSON
    assert made.encode(b"\x00", "orders.placed") == (b"\x00", "application/octet-stream")


@pytest.mark.parametrize(
    ("payload", "content_type", "order"),
    [
        (b'{"id":1,"line":"a"}', JSON, OrderPlaced(1, ["a"], "USD")),
        (b'{"id":1,"line":"a"}', "application/vnd.shop+json;version=1", OrderPlaced(1, ["a"], "USD")),
        (b'{"id":1,"lines":["a"]}', "application/json; version=2", OrderPlaced(1, ["a"], "USD")),
        (b'{"id":1,"lines":["a"]}', "application/json; version=3", OrderPlaced(1, ["a"], "EUR")),
        (b'{"id":1,"lines":["a"]}', "Application/JSON;version=3", OrderPlaced(1, ["a"], "EUR")),
        (MsgpackCodec().encode({"id": 1, "line": "a"}), "application/msgpack", OrderPlaced(1, ["a"], "USD")),
        (
            MsgpackCodec().encode({"id": 1, "lines": []}),
            "application/msgpack; version=2",
            OrderPlaced(1, [], "USD"),
        ),
        (MsgpackCodec().encode({"id": 1, "lines": []}), "application/msgpack; version=3", OrderPlaced(1, [], "EUR")),
    ],
)
@pytest.mark.parametrize("annotation", [OrderPlaced, Annotated[OrderPlaced, "any"], OrderPlaced | None])
def test_every_version_arrives_as_the_current_one(
    annotation: Any, payload: bytes, content_type: str, order: OrderPlaced
) -> None:
    assert complete().decoder(annotation)(payload, content_type) == order


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Structured, Structured(1, ["a"])),
        (Modelled, Modelled(id=1, lines=["a"])),
        (Listed, Listed(id=1, lines=["a"])),
    ],
)
def test_every_kind_of_type_can_be_upcast(kind: Any, value: object) -> None:
    made = catalogue(kind, 2)
    made.add_upcaster(kind, 1, several_lines)

    assert made.decoder(kind)(b'{"id":1,"line":"a"}', JSON) == value


@pytest.mark.parametrize("annotation", [dict, Any])
def test_a_handler_of_plain_values_gets_what_is_stored(annotation: Any) -> None:
    read = complete().decoder(annotation)

    assert read(b'{"id":1,"line":"a"}', JSON) == {"id": 1, "line": "a"}
    assert read(b'{"new":1}', "application/json; version=99") == {"new": 1}


def test_an_upcaster_may_be_registered_after_the_consumer() -> None:
    made = catalogue(version=2)
    read = made.decoder(OrderPlaced)

    made.add_upcaster(OrderPlaced, 1, several_lines)

    assert read(b'{"id":1,"line":"a"}', JSON) == OrderPlaced(1, ["a"])


def test_the_current_version_never_meets_an_upcaster() -> None:
    def never(old: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("it is current")

    made = catalogue(version=2)
    made.add_upcaster(OrderPlaced, 1, never)

    assert made.decoder(OrderPlaced)(b'{"id":1,"lines":[]}', "application/json; version=2") == OrderPlaced(1, [])


def test_a_newer_version_is_for_a_newer_worker() -> None:
    for made in (complete(), catalogue(version=1)):
        with pytest.raises(Unreadable, match=r"version 4 of OrderPlaced is newer than version [13], the newest known"):
            made.decoder(OrderPlaced)(b'{"id":1,"lines":[]}', "application/json; version=4")


def test_a_version_without_an_upcaster_is_unreadable() -> None:
    made = catalogue()
    made.add_upcaster(OrderPlaced, 2, with_currency)
    made.check()

    with pytest.raises(Unreadable) as refused:
        made.decoder(OrderPlaced)(b"{}", JSON)

    assert str(refused.value) == (
        "version 1 of OrderPlaced is older than any upcaster, and 3 is current: write @app.upcaster(OrderPlaced, 1)"
    )


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (
            b'{"id":1}',
            f"upcaster {ORDERS}.several_lines failed on a message of OrderPlaced, version 1: KeyError: 'line' (vers",
        ),
        (
            b"[]",
            f"upcaster {ORDERS}.several_lines failed on a message of OrderPlaced, version 1: TypeError: list indices",
        ),
        (b"{", "the payload is not JSON: Input data was truncated"),
        (
            b'{"id":"x","line":"a"}',
            "the upcasters of OrderPlaced made no version 3 out of version 1: the payload is not OrderPlaced: ",
        ),
    ],
)
def test_what_cannot_be_upcast_is_unreadable_with_the_cause(payload: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as refused:
        complete().decoder(OrderPlaced)(payload, JSON)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None for a message of OrderPlaced, version 1: it must return the next version, also where"),
        (object(), "made no version 2 out of version 1: a payload cannot hold object: it has no JSON form"),
    ],
)
def test_an_upcaster_that_returns_no_payload_is_named(returned: object, message: str) -> None:
    made = catalogue(version=2)
    made.add_upcaster(OrderPlaced, 1, lambda _old: returned)

    with pytest.raises(Unreadable, match=message):
        made.decoder(OrderPlaced)(b"{}", JSON)


def test_bytes_have_no_version() -> None:
    with pytest.raises(Unreadable, match="'application/octet-stream' is not decoded"):
        complete().decoder(OrderPlaced)(b"{}", "application/octet-stream")
