"""What handlers need besides their message: made before, closed after, once per dispatch."""

import asyncio
import contextlib
import inspect
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mainspring import Consumer, Context, Depends, Mainspring
from mainspring.app.consume import signature
from mainspring.model.errors import BadSignature, Misuse, Unreadable
from tests.unit.app.stage import MESSAGE, Desk, delivery, running


@dataclass
class Order:
    id: int


class Journal:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


journal = Journal()


@pytest.fixture(autouse=True)
def _blank() -> None:
    journal.lines.clear()


def call(handler: Callable[..., Any], payload: bytes = b'{"id":7}') -> Any:
    shape = signature.read(handler)
    compiled = signature.compile_call(shape, signature.payload_decoder(shape), Desk())
    held = delivery(payload)
    answer = compiled(held, running(held))
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def settings() -> dict[str, int]:
    journal("settings")
    return {"limit": 5}


async def connection(settings: Annotated[dict[str, int], Depends(settings)]) -> AsyncIterator[str]:
    journal("open")
    try:
        yield f"connection of {settings['limit']}"
    except ValueError:
        journal("rollback")
        raise
    finally:
        journal("close")


def cursor(settings: Annotated[dict[str, int], Depends(settings)]) -> Iterator[str]:
    journal("cursor")
    yield f"cursor of {settings['limit']}"
    journal("cursor closed")


async def tenant(ctx: Context) -> str:
    return f"tenant of {ctx.message_id}"


def test_a_provider_may_be_a_plain_function() -> None:
    async def handler(order: Order, found: Annotated[dict[str, int], Depends(settings)]) -> object:
        return order, found

    assert call(handler) == (Order(7), {"limit": 5})


def test_a_provider_may_be_async_and_ask_for_the_context() -> None:
    async def handler(order: Order, who: Annotated[str, Depends(tenant)]) -> object:
        return order.id, who

    assert call(handler) == (7, f"tenant of {MESSAGE}")


def test_what_is_opened_first_is_closed_last_after_the_handler() -> None:
    async def handler(
        order: Order,
        held: Annotated[str, Depends(connection)],
        *,
        rows: Annotated[str, Depends(cursor)],
        ctx: Context,
    ) -> object:
        journal("handler")
        return held, rows, ctx.attempt

    assert call(handler) == ("connection of 5", "cursor of 5", 1)
    assert journal.lines == ["settings", "open", "cursor", "handler", "cursor closed", "close"]


def test_a_failure_is_told_to_who_yielded_and_stays_a_failure() -> None:
    async def handler(order: Order, held: Annotated[str, Depends(connection)]) -> None:
        raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order"):
        call(handler)

    assert journal.lines == ["settings", "open", "rollback", "close"]


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_provider_cannot_swallow_the_handlers_failure(kind: str) -> None:
    @contextlib.contextmanager
    def forgiving() -> Iterator[None]:
        with contextlib.suppress(ValueError):
            yield

    async def coroutine(order: Order, _: Annotated[None, Depends(forgiving)]) -> None:
        raise ValueError("no such order")

    def function(order: Order, _: Annotated[None, Depends(forgiving)]) -> None:
        raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order"):
        call(coroutine if kind == "async" else function)


def test_a_failure_while_closing_fails_the_attempt() -> None:
    def commits() -> Iterator[None]:
        yield
        raise OSError("the disk is full")

    async def handler(order: Order, _: Annotated[None, Depends(commits)]) -> str:
        return "done"

    with pytest.raises(OSError, match="the disk is full"):
        call(handler)


def test_a_provider_is_asked_once_per_dispatch_unless_it_says_otherwise() -> None:
    async def handler(
        order: Order,
        one: Annotated[dict[str, int], Depends(settings)],
        same: Annotated[dict[str, int], Depends(settings)],
        other: Annotated[dict[str, int], Depends(settings, cached=False)],
    ) -> object:
        return one is same, one is other

    assert call(handler) == (True, False)
    assert journal.lines == ["settings", "settings"]


class Repository:
    def __init__(self, settings: Annotated[dict[str, int], Depends(settings)], ctx: Context) -> None:
        self.limit = settings["limit"]
        self.message = ctx.message_id


def test_a_class_makes_itself() -> None:
    async def handler(
        order: Order, orders: Annotated[Repository, Depends()], again: Annotated[Repository, Depends]
    ) -> object:
        return orders.limit, orders.message, orders is again

    assert call(handler) == (5, MESSAGE, True)


def test_a_plain_function_has_plain_providers() -> None:
    def handler(order: Order, rows: Annotated[str, Depends(cursor)], ctx: Context) -> object:
        journal("handler")
        return rows, ctx.attempt

    assert call(handler) == ("cursor of 5", 1)
    assert journal.lines == ["settings", "cursor", "handler", "cursor closed"]


def test_a_handler_may_need_something_and_no_message() -> None:
    def handler(*, found: Annotated[dict[str, int], Depends(settings)]) -> object:
        return found

    assert call(handler, payload=b"not even json") == {"limit": 5}


def test_bytes_that_do_not_fit_open_nothing() -> None:
    async def handler(order: Order, held: Annotated[str, Depends(connection)]) -> None: ...

    with pytest.raises(Unreadable):
        call(handler, payload=b'{"id":"seven"}')

    assert journal.lines == []


# --- classes -------------------------------------------------------------------------------------------------


class Report(Consumer[Order]):
    def __init__(self, settings: Annotated[dict[str, int], Depends(settings)]) -> None:
        self.limit = settings["limit"]

    async def consume(self, ctx: Context) -> object:
        return self.limit, ctx.message


class Ship(Consumer[Order]):
    def consume(self, order: Order, *, rows: Annotated[str, Depends(cursor)]) -> object:
        return order, rows


def test_a_class_is_made_for_every_message_with_its_constructor_injected() -> None:
    assert call(Report) == (5, Order(7))
    assert call(Ship) == (Order(7), "cursor of 5")


async def test_a_registered_class_stays_a_class_and_can_be_sent_to() -> None:
    app = Mainspring("memory://")
    app.message("orders.placed")(Order)

    @app.consumer()
    class Bill(Consumer[Order]):
        async def consume(self, order: Order) -> None: ...

    async with app:
        receipt = await Bill.send(Order(7))
        [waiting] = await app.messages.list(group="Bill")
        await asyncio.to_thread(Bill.send_blocking, Order(8))

        assert isinstance(Bill, type)
        assert waiting.message_id == receipt.id
        assert len(await app.messages.list(group="Bill")) == 2


async def test_a_class_that_is_not_registered_says_so() -> None:
    with pytest.raises(Misuse, match=r"Ship is not registered: put @app.consumer\(…\) above it"):
        await Ship.send(Order(1))


# --- what cannot be served -----------------------------------------------------------------------------------


async def chicken(egg: "Annotated[str, Depends(egg)]") -> str:
    return egg


async def egg(chicken: "Annotated[str, Depends(chicken)]") -> str:
    return chicken


def needy(table: str) -> str:
    return table


async def circular(order: Order, first: Annotated[str, Depends(chicken)]) -> None: ...


async def unfilled(order: Order, rows: Annotated[str, Depends(needy)]) -> None: ...


def blocking(order: Order, who: Annotated[str, Depends(tenant)]) -> None: ...


async def as_default(order: Order, found: dict[str, int] = Depends(settings)) -> None: ...  # type: ignore[assignment]  # noqa: B008


async def unmade(order: Order, found: Annotated[int | str, Depends()]) -> None: ...


class Bare(Consumer[Order]):
    pass


HERE = __name__


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (
            circular,
            f"the providers of {HERE}.circular form a cycle: {HERE}.chicken → {HERE}.egg → {HERE}.chicken",
        ),
        (
            unfilled,
            (
                f"the provider {HERE}.needy has a parameter 'table' that nothing fills: give it a default, annotate "
                "it with Context, or write `table: Annotated[…, Depends(provider)]`"
            ),
        ),
        (
            blocking,
            (
                f"{HERE}.blocking is a plain function, and its provider {HERE}.tenant is async: write `async def` for "
                "the handler, or a plain provider"
            ),
        ),
        (
            as_default,
            (
                f"parameter 'found' of {HERE}.as_default has Depends(settings) as its default: write "
                "`found: Annotated[…, Depends(settings)]`, so that the function can still be called"
            ),
        ),
        (
            unmade,
            (
                f"parameter 'found' of {HERE}.unmade has Depends() without a provider, and int | str is no class that "
                "could make itself: write Depends(function)"
            ),
        ),
        (
            Bare,
            (
                f"{HERE}.Bare is a class: write `class Bare(Consumer[YourMessage])` with a method "
                "`async def consume(self, message, ctx)`, or a function"
            ),
        ),
    ],
)
def test_what_cannot_be_served_is_said_at_registration(handler: Any, message: str) -> None:
    with pytest.raises(BadSignature) as refused:
        Mainspring("memory://").consumer("orders.placed")(handler)

    assert str(refused.value) == message


def test_more_closing_than_python_can_nest_is_refused() -> None:
    def many(count: int) -> Any:
        async def handler(order: Order, **_: Any) -> list[str]:
            return [*journal.lines]

        parameters = [inspect.Parameter("order", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Order)]
        for number in range(count):
            wanted = Annotated[str, Depends(cursor, cached=False)]
            parameters.append(inspect.Parameter(f"c{number}", inspect.Parameter.KEYWORD_ONLY, annotation=wanted))
        handler.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return handler

    assert len(call(many(16))) == 17
    assert journal.lines.count("cursor closed") == 16
    with pytest.raises(BadSignature, match="has 17 providers that yield, and 16 is the most"):
        call(many(17))


def test_a_traceback_shows_the_call_that_was_written_out() -> None:
    def broken() -> int:
        raise LookupError("no such setting")

    async def handler(order: Order, found: Annotated[int, Depends(broken)]) -> None: ...

    with pytest.raises(LookupError) as raised:
        call(handler)

    assert "made_3 = make_3()" in "".join(traceback.format_exception(raised.value))


def test_another_librarys_depends_is_told_apart() -> None:
    import fastapi

    async def handler(order: Order, found: Annotated[dict[str, int], fastapi.Depends(settings)]) -> None: ...

    with pytest.raises(BadSignature, match=r"has another library's Depends.*from mainspring import Depends"):
        Mainspring("memory://").consumer("orders.placed")(handler)


def test_a_provider_that_cannot_be_called_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match=r"Depends\(5\): a provider is a function or a class"):
        Depends(5)  # type: ignore[arg-type]
