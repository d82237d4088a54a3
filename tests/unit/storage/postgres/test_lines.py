"""Connections that are lent to one script at a time."""

import asyncio

from mainspring.storage.postgres.gateway import Lines


async def never() -> None:
    raise AssertionError("nothing connects here")


async def test_a_line_that_a_waiting_caller_is_about_to_get_is_in_use() -> None:
    lines = Lines(never, lambda _error: None, 1)  # type: ignore[arg-type]
    begun = asyncio.Event()

    async def use() -> None:
        begun.set()
        async with lines.line():
            assert lines.use.busy == 1

    async with lines.line():
        waiting = asyncio.create_task(use())
        await begun.wait()
    # It was given back, and what waits for it has not run since. What is not in use may be closed now.
    assert lines.use.busy == 1
    await waiting
    assert lines.use.busy == 0
