"""What one message's handler leaves in context variables is not there for the next."""

import asyncio
from contextvars import ContextVar

import pytest

from mainspring import Context, Mainspring, Middleware
from mainspring.app.consume.context import BatchContext
from mainspring.app.consume.middleware import Next
from tests.integration.app.measuring import until_measured

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
COUNT = 3


class Tenants(Middleware):
    """Says whose message it is, and never takes it back."""

    async def handling(self, ctx: Context, call_next: Next) -> object:
        tenant.set(f"{tenant.get()}, {ctx.key}")
        return await call_next()

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        tenant.set(f"{tenant.get()}, all")
        return await call_next()


async def published(app: Mainspring) -> None:
    async with app.worker():
        for number in range(COUNT):
            await app.publish("work", number, key=str(number))
            await until_measured(app, number + 1)


async def test_of_an_async_handler() -> None:
    app, seen = Mainspring("memory://"), list[str]()

    @app.consumer("work", concurrency=1)
    async def work(number: int) -> None:
        seen.append(tenant.get())
        tenant.set("ann")
        await asyncio.sleep(0)
        seen.append(tenant.get())

    await published(app)

    assert seen == ["nobody", "ann"] * COUNT


async def test_of_a_handler_that_never_waits() -> None:
    app, seen = Mainspring("memory://"), list[str]()

    @app.consumer("work", concurrency=1)
    async def work(number: int) -> None:
        seen.append(tenant.get())
        tenant.set("ann")

    await published(app)

    assert seen == ["nobody"] * COUNT


async def test_of_a_handler_that_fails_or_runs_out_of_time() -> None:
    app, seen = Mainspring("memory://"), list[str]()

    @app.consumer("work", concurrency=1, retry="none", timeout="20ms")
    async def work(number: int) -> None:
        seen.append(tenant.get())
        tenant.set("ann")
        if number == 0:
            raise OSError("the lorry is away")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(tenant.get())

    await published(app)

    assert seen == ["nobody", *("nobody", "ann") * (COUNT - 1)]


async def test_of_a_plain_handler() -> None:
    app, seen = Mainspring("memory://"), list[str]()

    @app.consumer("work", concurrency=1)
    def work(number: int) -> None:
        seen.append(tenant.get())
        tenant.set("ann")

    await published(app)

    assert seen == ["nobody"] * COUNT


@pytest.mark.parametrize("is_async", [True, False])
async def test_of_a_batch_consumer(*, is_async: bool) -> None:
    app, seen = Mainspring("memory://", middleware=[Tenants()]), list[str]()

    def note() -> None:
        seen.append(tenant.get())
        tenant.set("ann")

    if is_async:

        @app.consumer("work", batch=2, concurrency=1)
        async def work(numbers: list[int]) -> None:
            note()
    else:

        @app.consumer("work", batch=2, concurrency=1)
        def works(numbers: list[int]) -> None:
            note()

    await published(app)

    assert seen == ["nobody, all"] * COUNT


@pytest.mark.parametrize("is_async", [True, False])
async def test_of_middleware_and_its_handler_sees_it(*, is_async: bool) -> None:
    app, seen = Mainspring("memory://", middleware=[Tenants()]), list[str]()

    if is_async:

        @app.consumer("work", concurrency=1)
        async def work(number: int) -> None:
            seen.append(tenant.get())
    else:

        @app.consumer("work", concurrency=1)
        def works(number: int) -> None:
            seen.append(tenant.get())

    await published(app)

    assert seen == [f"nobody, {number}" for number in range(COUNT)]
