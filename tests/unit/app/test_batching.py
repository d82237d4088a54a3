"""Batch consumers as they are registered: what is read, and what is refused with what to write."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

import pytest

from mainspring import BatchContext, Consumer, Context, Depends, LogContext, Mainspring, Middleware, Receipt, Resolver
from mainspring.app.config import Options
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import Consumers
from mainspring.app.consume.context import Publishing
from mainspring.app.consume.middleware import Next
from mainspring.app.message.catalogue import Catalogue
from mainspring.model.errors import BadOption, BadSignature, Misuse
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Batching, Run
from tests.unit.app.stage import Desk, delivery


@dataclass
class OrderPlaced:
    id: int


async def index(orders: list[OrderPlaced], ctx: BatchContext) -> None:
    """Put them into the index."""


def index_plainly(orders: Sequence[OrderPlaced]) -> None:
    """The same in a thread."""


def register(
    function: Callable[..., Any], *topics: Any, resolver: Resolver | None = None, **options: Any
) -> Registration:
    catalogue = Catalogue()
    catalogue.register(OrderPlaced, "orders.placed")
    return Consumers(catalogue, Options(), resolver).register(function, topics, options)


def batch_of(made: Registration, *payloads: bytes) -> Batch:
    handler = made.handler(app())
    runs = [Run(delivery(payload, id=place, attempt=place), handler, 30.0) for place, payload in enumerate(payloads, 1)]
    return Batch(runs, handler)


def app() -> Publishing:
    return Desk()


def test_the_defaults_of_a_batch_consumer() -> None:
    made, plain = register(index, batch=100), register(index_plainly, batch=1, linger="0s", concurrency=3)

    assert (made.topics, made.batching, made.concurrency) == (("orders.placed",), Batching(100, 0.05), 10)
    assert (plain.threaded, plain.batching, plain.concurrency) == (True, Batching(1, 0.0), 3)
    shown = made.declaration("shop").options
    assert (shown["batch"], shown["linger"], shown["kind"]) == ("100", "50ms", "async")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"batch": 0}, "batch=0 must be a whole number from 1 to 1,000"),
        ({"batch": "many"}, "batch='many' must be a whole number from 1 to 1,000"),
        ({"batch": 1_001}, "batch=1001 must be a whole number from 1 to 1,000"),
        ({"batch": 10, "linger": "2m"}, "linger='2m' is out of bounds: it must be between 0s and 1m"),
        ({"batch": 10, "linger": "soon"}, "linger='soon'"),
        ({"batch": 500, "concurrency": 21}, "would hold 10,500 messages in one process, and 10,000 is the most"),
    ],
)
def test_what_is_out_of_bounds_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadOption, match=complaint.replace("(", r"\(")):
        register(index, **options)


def test_to_linger_needs_a_batch() -> None:
    async def one(order: OrderPlaced) -> None: ...

    with pytest.raises(BadOption, match=r"takes one at a time: give it batch=…, too, or leave linger out"):
        register(one, linger="50ms")


def test_processes_take_no_batches() -> None:
    with pytest.raises(
        BadOption, match="batch= and cpu=True, whose processes are sent one message at a time: drop one"
    ):
        register(index_plainly, batch=10, cpu=True)


def test_the_payload_of_a_batch_is_a_list() -> None:
    async def one(order: OrderPlaced) -> None: ...
    async def some(orders: tuple[OrderPlaced, ...]) -> None: ...
    async def bare(orders: list) -> None: ...  # type: ignore[type-arg]
    async def untyped(orders) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    async def none(ctx: BatchContext) -> None: ...

    refusals: dict[Callable[..., Any], str] = {
        one: "its payload 'order' is OrderPlaced: it is given a list, so write `order: list[OrderPlaced]`",
        some: "'orders' is tuple[tests.unit.app.test_batching.OrderPlaced, ...]: it is given a list, so write "
        "`orders: list[YourMessage]`",
        bare: "its payload 'orders' is list: it is given a list, so write `orders: list[YourMessage]`",
        untyped: "its payload 'orders' has no type: it is given a list, so write `orders: list[YourMessage]`",
        none: "has batch=10 and takes no payload: write `messages: list[YourMessage]` as its first parameter",
    }
    for function, said in refusals.items():
        with pytest.raises(BadSignature) as refused:
            register(function, "orders.placed", batch=10)
        assert said in str(refused.value)


def test_each_kind_of_consumer_has_its_own_context() -> None:
    async def wrong(orders: list[OrderPlaced], ctx: Context) -> None: ...
    async def lone(order: OrderPlaced, ctx: BatchContext) -> None: ...
    def tenant(ctx: Context) -> str:
        return ctx.group

    async def provided(orders: list[OrderPlaced], tenant: Annotated[str, Depends(tenant)]) -> None: ...

    with pytest.raises(BadSignature, match=r"wrong asks for a Context, and is called with many messages: write BatchC"):
        register(wrong, batch=10)
    with pytest.raises(BadSignature, match=r"lone asks for a BatchContext, which only consumers with batch=… have"):
        register(lone)
    with pytest.raises(BadSignature, match=r"tenant asks for a Context, and is called with many messages"):
        register(provided, batch=10)


def test_a_resolver_has_no_scope_for_a_batch() -> None:
    class Everything:
        serves_functions = True

        def marks(self, annotation: Any) -> bool:
            return False

        def scope(self, ctx: Context) -> Any: ...
        def scope_blocking(self, ctx: Context) -> Any: ...

    def ask(orders: list[OrderPlaced], *, database: OrderPlaced) -> None: ...

    with pytest.raises(BadSignature, match=r"the scopes of the app's resolver are of one message: let it have what it"):
        register(ask, batch=10, resolver=Everything())


def test_middleware_that_knows_only_of_single_messages_is_refused() -> None:
    class Tenant(Middleware):
        async def handling(self, ctx: Context, call_next: Next) -> object:
            return await call_next()

    with pytest.raises(BadOption) as refused:
        register(index, batch=10, middleware=[LogContext(), Tenant()])
    assert "Tenant.handling wraps one message" in str(refused.value)
    assert "`async def handling_batch(self, ctx: BatchContext, call_next)`" in str(refused.value)

    class Scoped(Middleware):
        def calling(self, ctx: Context) -> AbstractContextManager[object]:
            return nullcontext(ctx)

    with pytest.raises(BadOption, match=r"Scoped.calling .* write `def calling_batch\(self, ctx: BatchContext\)` in"):
        register(index, batch=10, middleware=[Scoped()])


@pytest.mark.parametrize("threaded", [False, True])
async def test_what_goes_with_a_batch_to_where_it_runs_is_entered_there(threaded: bool) -> None:
    here, entered = threading.get_ident(), list[tuple[int, bool, str]]()

    class Scoped(Middleware):
        @contextmanager
        def calling_batch(self, ctx: BatchContext) -> Iterator[None]:
            entered.append((len(ctx.contexts), threading.get_ident() == here, "in"))
            yield
            entered.append((len(ctx.contexts), threading.get_ident() == here, "out"))

    batch = batch_of(
        register(index_plainly if threaded else index, batch=10, middleware=[Scoped()]), b'{"id": 1}', b"garbage"
    )
    call: Any = batch.handler.call
    if threaded:
        await asyncio.to_thread(call, batch.delivery, batch)
    else:
        await call(batch.delivery, batch)

    assert entered == [(2, not threaded, "in"), (1, not threaded, "out")]  # what cannot be read is known only then


async def test_a_batch_consumer_takes_a_list_and_is_sent_one_message() -> None:
    """The checks of types are mypy's: an ignore that is not needed is an error there."""
    app = Mainspring("memory://")
    batched = app.consumer("a", batch=10)(index)
    listed = app.consumer("b", batch=10, linger="1s")(index_plainly)

    @app.consumer("c", batch=10)
    class Batched(Consumer[OrderPlaced]):
        async def consume(self, orders: list[OrderPlaced]) -> None: ...

    async with app:
        assert_type(await batched.send(OrderPlaced(1), delay="1h"), Receipt)
        assert_type(await listed.send(OrderPlaced(1)), Receipt)
        assert_type(await Batched.send(OrderPlaced(1)), Receipt)

        await batched.send("text", validate=False)  # type: ignore[call-overload]
        await listed.send(3, validate=False)  # type: ignore[call-overload]
        with pytest.raises(Misuse, match="index is sent a list: send it one message at a time, or several by app"):
            await batched.send([OrderPlaced(1)])
    assert_type(listed([OrderPlaced(1)]), None)


async def test_the_handler_gets_what_can_be_read_and_the_rest_is_told_apart() -> None:
    seen: list[Any] = []

    async def handle(orders: list[OrderPlaced], ctx: BatchContext) -> None:
        seen.append((orders, [(each.message, each.attempt, each.key) for each in ctx.contexts]))

    made = register(handle, batch=10)
    batch = batch_of(made, b'{"id": 1}', b"garbage", b'{"id": 3}')

    call: Any = batch.handler.call
    await call(batch.delivery, batch)
    unreadable = batch_of(made, b"garbage")
    await call(unreadable.delivery, unreadable)

    first, third = OrderPlaced(1), OrderPlaced(3)
    assert seen == [([first, third], [(first, 1, None), (third, 3, None)])]
    assert [run.delivery.id for run in batch.unread] == [2]
    assert [(run.delivery.id, type(said)) for run, said in batch.answered([None, ValueError()])] == [
        (2, type(batch.unread[batch.runs[1]])),
        (1, type(None)),
        (3, ValueError),
    ]


def test_what_a_batch_needs_is_made_once_and_a_class_takes_batches_too() -> None:
    seen: list[Any] = []

    def session(ctx: BatchContext) -> str:
        return f"{len(ctx.contexts)} for {ctx.group}"

    class Index(Consumer[OrderPlaced]):
        def __init__(self, session: Annotated[str, Depends(session)]) -> None:
            self.session = session

        def consume(self, orders: list[OrderPlaced], ctx: BatchContext) -> None:
            seen.append((self.session, orders, ctx.remaining, ctx.cancelled, repr(ctx)))

    batch = batch_of(register(Index, batch=10), b'{"id": 1}', b'{"id": 2}')

    batch.handler.call(batch.delivery, batch)

    assert seen == [
        ("2 for receipts", [OrderPlaced(1), OrderPlaced(2)], None, False, "<BatchContext of 2 messages for receipts>")
    ]
