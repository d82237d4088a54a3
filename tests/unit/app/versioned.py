"""A message type in its third version, and what brings the older ones up to date."""

from dataclasses import dataclass
from typing import Any

from mainspring import MsgpackCodec
from mainspring.app.message.catalogue import Catalogue

ORDERS = __name__


@dataclass
class OrderPlaced:
    id: int
    lines: list[str]
    currency: str = "EUR"


def several_lines(old: dict[str, Any]) -> dict[str, Any]:
    return {"id": old["id"], "lines": [old["line"]]}


def with_currency(old: dict[str, Any]) -> dict[str, Any]:
    old["currency"] = "USD"
    return old


def catalogue(kind: Any = OrderPlaced, version: int = 3, codec: str | None = None) -> Catalogue:
    made = Catalogue([MsgpackCodec()])
    made.register(kind, "orders.placed", codec, version)
    return made


def complete() -> Catalogue:
    made = catalogue()
    made.add_upcaster(OrderPlaced, 2, with_currency)
    made.add_upcaster(OrderPlaced, 1, several_lines)
    return made
