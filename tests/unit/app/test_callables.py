"""Whatever can be called, in a module whose annotations are text: partials, objects, and classes of every making."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, Optional, Self

import pytest

from mainspring import Consumer, Context, Depends
from mainspring.app.consume import signature
from mainspring.app.names import handler_name
from mainspring.model.errors import BadSignature
from tests.unit.app.stage import MESSAGE, Desk, delivery, running
from tests.unit.app.written_elsewhere import Listed, Rated

HERE = __name__


@dataclass
class Order:
    id: int


def call(handler: Callable[..., Any]) -> Any:
    shape = signature.read(handler)
    compiled = signature.compile_call(shape, signature.payload_decoder(shape), Desk())
    held = delivery(b'{"id":7}')
    answer = compiled(held, running(held))
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def limit() -> int:
    return 5


def charge(order: Order, ctx: Context, most: Annotated[int, Depends(limit)], *, currency: str) -> object:
    return order, ctx.message_id, most, currency


async def charge_later(currency: str, order: Order) -> object:
    return currency, order


class Charge:
    def __call__(self, order: Order, ctx: Context) -> object:
        return order, ctx.message_id


class ChargeLater:
    async def __call__(self, currency: str, order: Order) -> object:
        return currency, order


def test_a_partial_takes_what_is_left() -> None:
    euros = functools.partial(charge, currency="EUR")

    assert call(euros) == (Order(7), MESSAGE, 5, "EUR")
    assert call(functools.partial(charge_later, "EUR")) == ("EUR", Order(7))
    assert call(functools.partial(functools.partial(charge_later), "EUR")) == ("EUR", Order(7))


def test_an_object_is_read_by_its_call() -> None:
    assert call(Charge()) == (Order(7), MESSAGE)
    assert call(Charge().__call__) == (Order(7), MESSAGE)
    assert call(functools.partial(ChargeLater(), "EUR")) == ("EUR", Order(7))


def test_a_partial_is_named_by_what_it_binds() -> None:
    assert handler_name(functools.partial(charge_later, "EUR")) == f"functools.partial({HERE}.charge_later)"


def test_a_partial_that_leaves_the_payload_no_place_says_why() -> None:
    with pytest.raises(BadSignature) as refused:
        signature.read(functools.partial(charge_later, currency="EUR"))

    assert str(refused.value) == (
        f"functools.partial({HERE}.charge_later) binds 'currency' by name, so 'order' after it can be passed by name "
        "only, and a payload is passed by position: bind 'currency' by position, or put the payload first"
    )


class Made:
    """One whose parameters are those of ``__new__``."""

    most: int

    def __new__(cls, most: Annotated[int, Depends(limit)]) -> Self:
        made = super().__new__(cls)
        made.most = most
        return made


class Inherits(Made):
    pass


class Meta(type):
    def __call__(cls, most: Annotated[int, Depends(limit)]) -> Any:
        made = super().__call__()
        made.most = most
        return made


class ByMeta(metaclass=Meta):
    most: int


class Tupled(NamedTuple):
    most: Annotated[int, Depends(limit)]


@dataclass
class Derived(Rated):
    """Its first field is written in another module, whose names are not known here."""

    most: Annotated[int, Depends(limit)]


class Makes:
    def __call__(self, most: Annotated[int, Depends(limit)]) -> Made:
        return Made(most)


def make(offset: int, most: Annotated[int, Depends(limit)]) -> Made:
    return Made(most + offset)


@pytest.mark.parametrize("provider", [Made, Inherits, ByMeta, Tupled, Derived, Makes(), functools.partial(make, 0)])
def test_whatever_can_be_called_is_a_provider(provider: Any) -> None:
    def handler(order: Order, made: Any) -> object:
        return made.most

    handler.__annotations__["made"] = Annotated[Any, Depends(provider)]  # text could not name what is local

    assert call(handler) == 5


def opening(name: str) -> Iterator[str]:
    yield name


def test_a_partial_that_yields_is_entered() -> None:
    def handler(order: Order, made: Annotated[str, Depends(functools.partial(opening, "held"))]) -> object:
        return made

    assert call(handler) == "held"


class NewConsumer(Consumer[Order]):
    most: int

    def __new__(cls, most: Annotated[int, Depends(limit)]) -> Self:
        made = super().__new__(cls)
        made.most = most
        return made

    def __init__(self, most: int) -> None: ...

    async def consume(self, ctx: Context | None = None) -> object:
        assert ctx is not None
        return ctx.message, self.most


def test_a_consumer_may_be_made_by_new() -> None:
    assert call(NewConsumer) == (Order(7), 5)


class Yields:
    def __call__(self, order: Order) -> Iterator[Order]:
        yield order


@pytest.mark.parametrize("handler", [Yields(), functools.partial(opening), functools.partial(Yields())])
def test_a_handler_that_yields_is_refused_whatever_it_is(handler: Any) -> None:
    with pytest.raises(BadSignature, match="yields: a handler returns its outcome"):
        signature.read(handler)


def union(order: Order, ctx: Context | None = None) -> object:
    return None if ctx is None else ctx.message_id


def optional(order: Order, ctx: Optional[Context] = None) -> object:  # noqa: UP045 - written so by many
    return None if ctx is None else ctx.message_id


def first(ctx: Context | None, order: Order) -> object:
    return None if ctx is None else ctx.message_id


def by_name(order: Order, *, context: Context | None = None) -> object:
    return None if context is None else context.message_id


def noted(order: Order, ctx: Annotated[Context | None, "of the message"] = None) -> object:
    return None if ctx is None else ctx.message_id


def alone(context: Context | None = None) -> object:
    return None if context is None else context.message_id


def of_a_provider(order: Order, found: Annotated[object, Depends(alone)]) -> object:
    return found


@pytest.mark.parametrize("handler", [union, optional, first, by_name, noted, alone, of_a_provider])
def test_a_context_that_may_be_none_is_given(handler: Callable[..., Any]) -> None:
    assert call(handler) == MESSAGE


def either(order: Order | Decimal) -> object:
    return order


def test_a_payload_of_several_types_is_no_context() -> None:
    assert call(either) == Order(7)


def test_what_cannot_be_resolved_is_named_as_it_is_in_the_likeliest_place() -> None:
    with pytest.raises(BadSignature) as refused:
        signature.read(Listed(Order))

    assert "the type 'Unknown' of parameter 'order'" in str(refused.value)
    assert "cannot be resolved (name 'Unknown' is not defined)" in str(refused.value)
