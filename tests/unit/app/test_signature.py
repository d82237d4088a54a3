import asyncio
import functools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from mainspring.app.consume import signature
from mainspring.app.consume.context import Context
from mainspring.app.names import handler_name
from mainspring.model.errors import BadSignature, Unreadable
from mainspring.runtime.verdicts import formatted
from tests.unit.app.stage import MESSAGE, Desk, delivery, running

if TYPE_CHECKING:
    from decimal import Decimal as Hidden

ACCEPTED = "a handler takes (payload), (payload, ctx), (ctx) or (), and Annotated[…, Depends(…)] besides"


@dataclass
class Order:
    id: int


def call(function: Callable[..., Any], payload: bytes = b'{"id":7}') -> Any:
    shape = signature.read(function)
    compiled = signature.compile_call(shape, signature.payload_decoder(shape), Desk())
    held = delivery(payload)
    return compiled(held, running(held))


def test_a_handler_may_take_the_payload() -> None:
    def handler(order: Order) -> Order:
        return order

    assert call(handler) == Order(7)


def test_a_handler_may_take_payload_and_context() -> None:
    def handler(order: Order, ctx: Context) -> tuple[Order, object]:
        return order, ctx.message_id

    assert call(handler) == (Order(7), MESSAGE)


def test_a_handler_may_take_only_the_context() -> None:
    def handler(context: Context) -> object:
        return context.message_id

    assert call(handler) == MESSAGE


def test_a_handler_may_take_nothing() -> None:
    assert call(lambda: "called") == "called"


def test_the_traceback_of_a_failure_begins_in_the_handler() -> None:
    def handler(order: Order) -> None:
        raise LookupError(order.id)

    with pytest.raises(LookupError) as raised:
        call(handler)

    _here, _called, compiled, *_ = (trace for trace, _ in traceback.walk_tb(raised.tb))
    assert "the call of" in compiled.f_code.co_filename
    below = raised.tb.tb_next and raised.tb.tb_next.tb_next
    shown = formatted(raised.value.with_traceback(below), 10_000)
    assert shown is not None
    assert shown.splitlines()[1:3] == [
        f'  File "{__file__}", line {handler.__code__.co_firstlineno + 1}, in handler',
        "    raise LookupError(order.id)",
    ]


def test_a_parameter_called_ctx_is_the_context() -> None:
    def handler(order, ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return order, ctx.message_id

    assert call(handler) == ({"id": 7}, MESSAGE)


def test_a_parameter_called_ctx_with_another_type_is_the_payload() -> None:
    def handler(ctx: dict[str, int]) -> dict[str, int]:
        return ctx

    assert call(handler) == {"id": 7}


def test_the_context_may_come_first() -> None:
    def handler(ctx: Context, order: Order) -> tuple[object, Order]:
        return ctx.message_id, order

    assert call(handler) == (MESSAGE, Order(7))


def test_the_context_may_be_keyword_only() -> None:
    def with_payload(order: Order, *, ctx: Context) -> tuple[Order, object]:
        return order, ctx.message_id

    def alone(*, ctx: Context) -> object:
        return ctx.message_id

    assert call(with_payload) == (Order(7), MESSAGE)
    assert call(alone) == MESSAGE


def test_an_untyped_payload_is_decoded_as_it_comes() -> None:
    assert call(lambda anything: anything) == {"id": 7}


def test_parameters_with_defaults_and_stars_are_left_alone() -> None:
    def handler(
        order: Order, ctx: Context, retries: int = 3, *rest: object, flag: bool = True, **more: object
    ) -> object:
        return order, retries, rest, flag, more

    assert call(handler) == (Order(7), 3, (), True, {})


def test_an_async_handler_gives_its_coroutine() -> None:
    async def handler(order: Order) -> Order:
        return order

    assert asyncio.run(call(handler)) == Order(7)


def test_annotations_written_as_text_are_resolved() -> None:
    def handler(order: "Order", ctx: "Context") -> "NowhereDefined":  # type: ignore[name-defined]  # noqa: F821
        return order, ctx.attempt

    assert call(handler) == (Order(7), 1)


def test_a_local_type_is_found_where_the_function_uses_it() -> None:
    @dataclass
    class Local:
        id: int

    def handler(order: "Local") -> object:
        return isinstance(order, Local)

    assert call(handler) is True


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    def handler(order: Order) -> Order:
        return order

    @functools.wraps(handler)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return handler(*args, **kwargs)

    assert call(wrapper) == Order(7)
    assert handler_name(wrapper) == handler_name(handler)


def test_more_arguments_after_the_payload_are_left_out() -> None:
    def handler(order: Order, *args: Any, **kwargs: Any) -> object:
        return order, args, kwargs

    assert call(handler) == (Order(7), (), {})


def test_an_object_that_can_be_called_is_a_handler() -> None:
    class Handler:
        def __call__(self, order: Order) -> Order:
            return order

    assert call(Handler()) == Order(7)


def test_a_partial_is_a_handler() -> None:
    def handler(order: Order, *, limit: int) -> tuple[Order, int]:
        return order, limit

    assert call(functools.partial(handler, limit=3)) == (Order(7), 3)


def test_a_payload_that_does_not_fit_is_unreadable() -> None:
    def handler(order: Order) -> None:
        raise AssertionError

    with pytest.raises(Unreadable, match="the payload is not Order: Expected `int`, got `str`"):
        call(handler, b'{"id":"7"}')


def test_the_payload_of_a_handler_without_one_is_never_read() -> None:
    assert call(lambda: "called", b"\xff") == "called"


class AClass:
    pass


def yielding(order: Order) -> Iterator[int]:
    yield 1


def three(order: Order, other: int, ctx: Context) -> None:
    pass


def keyword(order: Order, *, session: object) -> None:
    pass


def two_contexts(a: Context, b: Context) -> None:
    pass


def with_default(limit: int = 5) -> None:
    pass


def anything(*args: Any, **kwargs: Any) -> None:
    pass


def by_name(ctx: Context, **kwargs: Any) -> None:
    pass


def unresolvable(order: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    pass


def hidden(order: "Hidden") -> None:
    pass


def opaque(order: AClass) -> None:
    pass


HERE = __name__


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            AClass,
            (
                f"{HERE}.AClass is a class: write `class AClass(Consumer[YourMessage])` with a method "
                "`async def consume(self, message, ctx)`, or a function"
            ),
        ),
        (yielding, f"{HERE}.yielding yields: a handler returns its outcome, so write `return` instead of `yield`"),
        (
            three,
            f"{HERE}.three has a parameter 'other' that nothing fills: give it a default or a provider; {ACCEPTED}",
        ),
        (
            keyword,
            f"{HERE}.keyword has a parameter 'session' that nothing fills: give it a default or a provider; {ACCEPTED}",
        ),
        (two_contexts, f"{HERE}.two_contexts asks for two contexts, 'a' and 'b': keep one"),
        (
            with_default,
            (
                f"parameter 'limit' of {HERE}.with_default is in the payload's place and has a default: remove the "
                f"default, or put `*` before it if it is not the payload; {ACCEPTED}"
            ),
        ),
        (
            anything,
            (
                f"{HERE}.anything takes `*args: Any`, from which the payload's type cannot be read: write a first "
                "parameter, `order: OrderPlaced`; above a handler, a decorator needs functools.wraps"
            ),
        ),
        (
            by_name,
            (
                f"{HERE}.by_name takes `**kwargs: Any`, from which the payload's type cannot be read: write a first "
                "parameter, `order: OrderPlaced`; above a handler, a decorator needs functools.wraps"
            ),
        ),
        (
            unresolvable,
            (
                f"the type 'Nowhere' of parameter 'order' of {HERE}.unresolvable cannot be resolved (name 'Nowhere' "
                "is not defined): import or define it at module level, not under `if TYPE_CHECKING` and not inside "
                "a function"
            ),
        ),
        (
            hidden,
            (
                f"the type 'Hidden' of parameter 'order' of {HERE}.hidden cannot be resolved (name 'Hidden' is not "
                "defined): import or define it at module level, not under `if TYPE_CHECKING` and not inside a function"
            ),
        ),
        (
            opaque,
            (
                f"parameter 'order' of {HERE}.opaque: AClass cannot be a payload: use a dataclass, msgspec.Struct, "
                "pydantic model, TypedDict, dict, list or scalar"
            ),
        ),
    ],
)
def test_a_signature_that_cannot_be_served_says_what_to_change(function: Any, message: str) -> None:
    with pytest.raises(BadSignature) as refused:
        call(function)

    assert str(refused.value) == message


def test_a_builtin_without_a_signature_is_refused() -> None:
    with pytest.raises(BadSignature, match="has no signature to read: wrap it in a function"):
        signature.read(max)
