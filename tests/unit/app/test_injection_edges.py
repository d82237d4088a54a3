"""Injection where it is easily got wrong: what is swallowed, skipped, generic, or a callable object."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any, Generic, TypeVar

import pytest

from mainspring import Consumer, Context, Depends, Mainspring
from mainspring.app.consume import signature
from mainspring.model.errors import BadSignature
from tests.unit.app.stage import MESSAGE, Desk, delivery, running

T = TypeVar("T")


@dataclass
class Order:
    id: int


def call(handler: Callable[..., Any]) -> Any:
    shape = signature.read(handler)
    compiled = signature.compile_call(shape, signature.payload_decoder(shape), Desk())
    held = delivery(b'{"id":7}')
    answer = compiled(held, running(held))
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def swallowing() -> Iterator[None]:
    with contextlib.suppress(LookupError):
        yield


async def swallowing_too() -> AsyncIterator[None]:
    with contextlib.suppress(LookupError):
        yield


def never_made(made: bool = False) -> Iterator[str]:
    if not made:
        raise LookupError("no connection")
    yield "connection"


def never_committed() -> Iterator[str]:
    yield "session"
    raise LookupError("the commit failed")


@pytest.mark.parametrize("outer", [swallowing, swallowing_too])
@pytest.mark.parametrize("inner", [never_made, never_committed])
def test_what_a_provider_swallows_of_another_is_still_a_failure(outer: Any, inner: Any) -> None:
    async def handler(
        order: Order, first: Annotated[None, Depends(outer)], second: Annotated[str, Depends(inner)]
    ) -> str:
        return "done"

    with pytest.raises(LookupError):
        call(handler)


def limit() -> int:
    return 5


def test_a_parameter_after_one_that_keeps_its_default_is_passed_by_name() -> None:
    def by_context(order: Order, flag: bool = False, ctx: Context = None) -> object:  # type: ignore[assignment]
        return flag, ctx.message_id

    def by_provider(order: Order, flag: bool = False, most: Annotated[int, Depends(limit)] = 0) -> object:
        return flag, most

    def provider(flag: bool = False, most: Annotated[int, Depends(limit)] = 0) -> object:
        return flag, most

    def through(order: Order, made: Annotated[object, Depends(provider)]) -> object:
        return made

    assert call(by_context) == (False, MESSAGE)
    assert call(by_provider) == (False, 5)
    assert call(through) == (False, 5)


def test_one_that_cannot_be_named_is_refused() -> None:
    def handler(order: Order, flag: bool = False, ctx: Context = None, /) -> None: ...  # type: ignore[assignment]

    with pytest.raises(BadSignature, match="takes 'ctx' after 'flag', which keeps its default: swap them"):
        signature.read(handler)


class Untyped(Consumer[Order]):
    async def consume(self, message, ctx: Context) -> object:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return message, ctx.message


class Recorded(Consumer[T], Generic[T]):
    async def consume(self, message: T) -> object:
        return message


class Orders(Recorded[Order]):
    pass


class Quiet(Consumer[T], Generic[T]):
    async def consume(self, ctx: Context) -> object:
        return ctx.message


class QuietOrders(Quiet[Order]):
    pass


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(Untyped, (Order(7), Order(7))), (Orders, Order(7)), (QuietOrders, Order(7))],
)
def test_the_type_of_the_class_is_what_the_message_is_read_as(kind: type, answer: object) -> None:
    assert call(kind) == answer


def test_a_class_that_leaves_its_message_open_is_refused() -> None:
    with pytest.raises(BadSignature, match=r"Recorded leaves open what ~T is: write Consumer\[YourMessage\]"):
        Mainspring("memory://").consumer("orders.placed")(Recorded)


class Opening:
    """A provider that is an object, and yields."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __call__(self) -> Iterator[str]:
        self.lines.append("open")
        yield "held"
        self.lines.append("closed")


def wrapped() -> Callable[[], Iterator[str]]:
    def opening() -> Iterator[str]:
        yield "held"

    @wraps(opening)
    def wrapper() -> Iterator[str]:
        return opening()

    return wrapper


def test_whatever_yields_is_entered_and_closed() -> None:
    lines: list[str] = []
    opening, wrapper = Opening(lines), wrapped()

    def handler(order: Order, a: Annotated[str, Depends(opening)], b: Annotated[str, Depends(wrapper)]) -> object:
        return a, b, [*lines]

    assert call(handler) == ("held", "held", ["open"])
    assert lines == ["open", "closed"]


@dataclass
class Numbered:
    """Equal to every other, and unhashable."""

    number: int = field(compare=False)

    def __call__(self) -> int:
        return self.number


def test_providers_are_told_apart_by_what_they_are() -> None:
    one, two = Numbered(1), Numbered(2)

    def handler(order: Order, a: Annotated[int, Depends(one)], b: Annotated[int, Depends(two)]) -> object:
        return a, b

    assert call(handler) == (1, 2)
