"""A call in a context of its own is in every other way the call itself."""

import asyncio
from contextvars import ContextVar

import pytest

from mainspring.runtime.crew import in_own_context

colour: ContextVar[str] = ContextVar("colour", default="none")


async def test_what_it_sets_is_its_own_and_what_was_set_before_it_sees() -> None:
    async def call() -> list[str]:
        seen = [colour.get()]
        colour.set("red")
        await asyncio.sleep(0)
        return [*seen, colour.get(), await asyncio.create_task(told())]

    async def told() -> str:
        return colour.get()

    token = colour.set("blue")
    try:
        assert await in_own_context(call) == ["blue", "red", "red"]
        assert colour.get() == "blue"
    finally:
        colour.reset(token)


async def test_it_runs_on_the_task_that_awaits_it() -> None:
    async def call() -> object:
        await asyncio.sleep(0)
        return asyncio.current_task()

    assert await in_own_context(call) is asyncio.current_task()


async def test_whatever_can_be_awaited_may_be_called() -> None:
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(ready.set_result, 7)

    assert await in_own_context(lambda: ready) == 7


async def test_what_it_raises_comes_through_with_nothing_else() -> None:
    async def call() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone") as raised:
        await in_own_context(call)

    assert raised.value.__context__ is None


async def test_it_is_cancelled_where_it_waits_and_may_go_on() -> None:
    begun = asyncio.Event()

    async def call() -> str:
        colour.set("red")
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return colour.get()

    async def awaits() -> str:
        return await in_own_context(call)

    task = asyncio.create_task(awaits())
    await begun.wait()
    task.cancel()

    assert await task == "red"


async def test_an_error_after_a_cancellation_is_not_blamed_on_it() -> None:
    begun = asyncio.Event()

    async def call() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        raise LookupError("gone")

    async def awaits() -> None:
        await in_own_context(call)

    task = asyncio.create_task(awaits())
    await begun.wait()
    task.cancel()
    with pytest.raises(LookupError, match="gone") as raised:
        await task

    assert raised.value.__context__ is None


def test_one_that_is_never_ended_is_closed() -> None:
    closed: list[str] = []

    async def call() -> None:
        colour.set("red")
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(colour.get())

    async def awaits() -> None:
        await in_own_context(call)

    waiting = awaits()
    waiting.send(None)
    waiting.close()

    assert closed == ["red"]
