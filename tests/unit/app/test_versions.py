"""Registering versions and upcasters: what is refused, and what to change."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Mainspring, MsgpackCodec
from mainspring.app.message.catalogue import Catalogue
from mainspring.model.errors import BadOption, BadSignature, Conflict, Unreadable
from tests.unit.app.versioned import ORDERS, OrderPlaced, catalogue, complete, several_lines, with_currency

JSON = "application/json"


def test_a_gap_is_found_when_a_worker_starts() -> None:
    made = catalogue(version=4)
    made.add_upcaster(OrderPlaced, 1, several_lines)
    made.add_upcaster(OrderPlaced, 3, with_currency)

    with pytest.raises(BadOption) as refused:
        made.check()

    assert str(refused.value) == (
        "OrderPlaced has upcasters, but none from version 2 to 3, and it is at version 4: write "
        "@app.upcaster(OrderPlaced, 2), or remove the ones from older versions"
    )


async def test_a_worker_does_not_start_with_a_gap() -> None:
    app = Mainspring("memory://")
    app.message("orders.placed", version=3)(OrderPlaced)
    app.upcaster(OrderPlaced, 1)(several_lines)

    @app.consumer()
    async def handler(order: OrderPlaced) -> None: ...

    with pytest.raises(BadOption, match="none from version 2 to 3"):
        async with app.worker():
            pass


def test_an_upcaster_stays_the_function_it_is() -> None:
    app = Mainspring("memory://")
    app.message("orders.placed", version=2)(OrderPlaced)

    assert app.upcaster(OrderPlaced, 1)(several_lines) is several_lines


async def in_the_background(old: dict[str, Any]) -> dict[str, Any]:
    return old


def yielding(old: dict[str, Any]) -> Any:
    yield old


def no_parameter() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("kind", "version", "function", "error", "message"),
    [
        (int, 1, several_lines, BadOption, r"@app.upcaster\(int, 1\): no such message type is registered"),
        ([], 1, several_lines, BadOption, r"@app.upcaster\(\[\], 1\): no such message type is registered"),
        (
            OrderPlaced,
            3,
            several_lines,
            BadOption,
            (
                "several_lines reads version 3 of OrderPlaced, which is at version 3: write "
                r"@app.message\(…, version=4\) above the type, or name an older version here"
            ),
        ),
        (OrderPlaced, 7, several_lines, BadOption, "reads version 7 of OrderPlaced, which is at version 3"),
        (OrderPlaced, 0, several_lines, BadOption, "version=0 must be a whole number from 1 to"),
        (OrderPlaced, "1", several_lines, BadOption, "version='1' must be a whole number from 1 to"),
        (OrderPlaced, True, several_lines, BadOption, "version=True must be a whole number from 1 to"),
        (OrderPlaced, 1, None, BadSignature, r"@app.upcaster\(…\) goes above a function, not None"),
        (OrderPlaced, 1, OrderPlaced, BadSignature, r"@app.upcaster\(…\) goes above a function, not <class"),
        (OrderPlaced, 1, in_the_background, BadSignature, "must be a plain function, `def`, that returns the next"),
        (OrderPlaced, 1, yielding, BadSignature, "must be a plain function, `def`, that returns the next"),
        (OrderPlaced, 1, no_parameter, BadSignature, "is called with the older payload alone, as in `def upgrade"),
        (OrderPlaced, 1, lambda _old, _more: {}, BadSignature, "is called with the older payload alone"),
    ],
)
def test_a_wrong_upcaster_is_refused_with_what_to_change(
    kind: Any, version: Any, function: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        catalogue().add_upcaster(kind, version, function)


def test_one_version_has_one_upcaster() -> None:
    made = complete()
    made.add_upcaster(OrderPlaced, 1, several_lines)

    with pytest.raises(Conflict) as refused:
        made.add_upcaster(OrderPlaced, 1, with_currency)

    assert str(refused.value) == (
        f"version 1 of OrderPlaced already has an upcaster, {ORDERS}.several_lines: remove it, or let "
        f"{ORDERS}.with_currency read another version"
    )


def test_a_copied_upcaster_that_kept_its_name_and_version_is_refused() -> None:
    def first() -> Callable[[Any], Any]:
        def upgrade(old: Any) -> Any:
            return old

        return upgrade

    def second() -> Callable[[Any], Any]:
        def upgrade(old: Any) -> Any:
            return old

        upgrade.__qualname__ = first().__qualname__
        return upgrade

    made = catalogue()
    made.add_upcaster(OrderPlaced, 1, first())

    with pytest.raises(Conflict, match="already has an upcaster"):
        made.add_upcaster(OrderPlaced, 1, second())


def test_what_can_be_called_with_one_payload_can_be_an_upcaster() -> None:
    made = catalogue(version=2)
    made.add_upcaster(OrderPlaced, 1, functools.partial(lambda more, old: old | more, {"lines": []}))

    assert made.decoder(OrderPlaced)(b'{"id":1}', JSON) == OrderPlaced(1, [])


@pytest.mark.parametrize("version", [0, -1, 1.5, "2", None, 10_001])
def test_a_version_is_a_whole_number(version: Any) -> None:
    with pytest.raises(BadOption, match=r"version=.* must be a whole number from 1 to 10,000"):
        Mainspring("memory://").message("orders.placed", version=version)(OrderPlaced)


@pytest.mark.parametrize("kind", [dict, int, list[OrderPlaced], Any])
def test_a_type_that_is_not_ones_own_has_no_versions(kind: Any) -> None:
    with pytest.raises(BadOption, match="so only a class of your own has versions"):
        Mainspring("memory://").message("orders.placed", version=2)(kind)


def test_a_type_has_one_version() -> None:
    made = catalogue(version=2)
    made.register(OrderPlaced, "orders.placed", None, 2)

    with pytest.raises(Conflict) as refused:
        made.register(OrderPlaced, "orders.placed", None, 3)

    assert str(refused.value) == (
        "OrderPlaced is already registered as 'application/json; version=2', and now as 'application/json; version=3': "
        "keep one @app.message(…)"
    )


def test_a_version_that_comes_after_its_consumer_is_refused() -> None:
    made = Catalogue()
    made.decoder(OrderPlaced | None)

    with pytest.raises(Conflict, match=r"a consumer of OrderPlaced was registered before its @app.message"):
        made.register(OrderPlaced, "orders.placed", None, 2)
    made.register(OrderPlaced, "orders.placed")


def test_a_type_that_only_its_codec_can_read_has_no_upcasters() -> None:
    class Opaque:
        pass

    class OpaqueCodec(MsgpackCodec):
        content_type = "application/x-opaque"

        def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
            return lambda _payload: Opaque()

    made = Catalogue([OpaqueCodec()])
    made.register(Opaque, "opaque", "application/x-opaque", 2)

    with pytest.raises(BadSignature, match=r"has no use: what it returns is read as JSON, and .*Opaque cannot be"):
        made.add_upcaster(Opaque, 1, several_lines)
    with pytest.raises(Unreadable, match=r"older versions of .*Opaque cannot be read"):
        made.decoder(Opaque)(b"", "application/x-opaque")
    assert isinstance(made.decoder(Opaque)(b"", "application/x-opaque; version=2"), Opaque)


SHOP = """
from dataclasses import dataclass

@app.message("orders.placed", version={version})
@dataclass
class Order:
    id: int

@app.upcaster(Order, 1)
def upgrade(old):
    return old
"""


def test_a_module_loaded_anew_brings_its_versions_with_it() -> None:
    app = Mainspring("memory://")

    for version in (2, 2, 3, 2):
        names: dict[str, Any] = {"app": app, "__name__": "shop"}
        exec(compile(SHOP.format(version=version), "shop.py", "exec"), names)

        assert (
            app._code.catalogue.encode(names["Order"](1), "orders.placed")[1] == f"application/json; version={version}"
        )
        with pytest.raises(BadOption) if version == 3 else contextlib.nullcontext():
            app._code.catalogue.check()
