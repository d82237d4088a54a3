"""Containers that an application has already: dishka's and wireup's, and anything that keeps the protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import dishka
import pytest
import wireup

from mainspring import Consumer, Context, Depends, Mainspring, Resolver
from mainspring.app.consume import signature
from mainspring.app.consume.injection import read_resolver
from mainspring.model.errors import BadOption, BadSignature
from tests.unit.app.stage import MESSAGE, Desk, delivery, running


@dataclass
class Order:
    id: int


class Database:
    def __init__(self) -> None:
        self.open = True


@dataclass
class Orders:
    database: Database
    message: object


class ForDishka(dishka.Provider):
    message = dishka.from_context(provides=Context, scope=dishka.Scope.REQUEST)

    @dishka.provide(scope=dishka.Scope.REQUEST)
    def database(self) -> Iterator[Database]:
        made = Database()
        yield made
        made.open = False

    @dishka.provide(scope=dishka.Scope.REQUEST)
    def orders(self, database: Database, ctx: Context) -> Orders:
        return Orders(database, ctx.message_id)


@wireup.injectable(lifetime="scoped")
def wired_database() -> Iterator[Database]:
    made = Database()
    yield made
    made.open = False


@wireup.injectable(lifetime="scoped")
def wired_orders(database: Database, ctx: Context) -> Orders:
    return Orders(database, ctx.message_id)


@wireup.injectable(lifetime="scoped")
def context() -> Context:
    raise AssertionError("every scope brings its own")


def containers() -> list[Any]:
    parts = [wired_database, wired_orders, context]
    return [
        pytest.param(lambda: dishka.make_async_container(ForDishka()), "async", id="dishka, async"),
        pytest.param(lambda: dishka.make_container(ForDishka()), "blocking", id="dishka, blocking"),
        pytest.param(lambda: wireup.create_async_container(injectables=parts), "async", id="wireup, async"),
        pytest.param(lambda: wireup.create_sync_container(injectables=parts), "blocking", id="wireup, blocking"),
    ]


def call(handler: Callable[..., Any], container: object) -> Any:
    shape = signature.read(handler, read_resolver(container))
    compiled = signature.compile_call(shape, signature.payload_decoder(shape), Desk())
    held = delivery(b'{"id":7}')
    answer = compiled(held, running(held))
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


async def awaited(order: Order, orders: Orders, database: Database, ctx: Context) -> object:
    assert database.open
    return order, orders.database is database, orders.message, database


def plain(order: Order, orders: Orders, database: Database, ctx: Context) -> object:
    assert database.open
    return order, orders.database is database, orders.message, database


class Ship(Consumer[Order]):
    def __init__(self, orders: Orders) -> None:
        self.orders = orders

    async def consume(self, order: Order, database: Database) -> object:
        return order, self.orders.database is database, self.orders.message, database


@pytest.mark.parametrize("handler", [awaited, plain, Ship], ids=["async", "plain", "class"])
@pytest.mark.parametrize(("make", "kind"), containers())
def test_a_dispatch_is_a_scope_of_the_container(make: Callable[[], Any], kind: str, handler: Any) -> None:
    if kind == "async" and handler is plain:
        with pytest.raises(BadSignature, match=r"plain is a plain function, and the resolver is an async container"):
            call(handler, make())
        return

    order, shared, message, database = call(handler, make())

    assert (order, shared, message) == (Order(7), True, MESSAGE)
    assert not database.open


def test_a_marked_parameter_is_never_the_payload() -> None:
    async def for_dishka(orders: dishka.FromDishka[Orders]) -> object:
        return orders.message

    async def for_wireup(orders: wireup.Injected[Orders]) -> object:
        return orders.message

    parts = [wired_database, wired_orders, context]
    assert call(for_dishka, dishka.make_async_container(ForDishka())) == MESSAGE
    assert call(for_wireup, wireup.create_async_container(injectables=parts)) == MESSAGE


def test_depends_and_a_container_go_together() -> None:
    def limit(database: Database) -> int:
        return 5 if database.open else 0

    async def handler(order: Order, most: Annotated[int, Depends(limit)], database: Database) -> object:
        return most

    assert call(handler, dishka.make_async_container(ForDishka())) == 5


def test_what_the_container_does_not_know_fails_the_attempt_in_its_own_words() -> None:
    async def handler(order: Order, missing: float) -> None: ...

    with pytest.raises(dishka.exceptions.NoFactoryError):
        call(handler, dishka.make_async_container(ForDishka()))


class Own:
    """A resolver of the application's own: it makes whatever class is asked for."""

    serves_functions = False

    def marks(self, annotation: Any) -> bool:
        return False

    @contextlib.asynccontextmanager
    async def scope(self, ctx: Context) -> AsyncIterator[Callable[[Any], Any]]:
        async def get(annotation: Any) -> Any:
            return annotation()

        yield get

    def scope_blocking(self, ctx: Context) -> Any:
        raise NotImplementedError


def test_anything_that_keeps_the_protocol_is_a_resolver() -> None:
    async def handler(order: Order, database: Database) -> object:
        return type(database)

    assert isinstance(Own(), Resolver)
    assert call(handler, Own()) is Database


def test_anything_else_is_refused_by_name() -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://", resolver={"a": 1})

    assert str(refused.value) == (
        "resolver=builtins.dict is not known: pass a dishka or wireup container, or an object that implements "
        "mainspring.Resolver"
    )
