"""The threads of plain functions: each is busy until its function has returned."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from mainspring.runtime.offload import Threads


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """What functions wait for: set at the end, whatever happens."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_caller_that_gives_up_does_not_free_the_thread(hanging: threading.Event) -> None:
    threads, begun = Threads(2), threading.Event()

    def stuck() -> None:
        begun.set()
        hanging.wait(60)

    given_up = threads.call(stuck)
    await asyncio.to_thread(begun.wait, 60)
    given_up.cancel()
    await asyncio.wait([given_up])

    async with asyncio.timeout(30):
        assert await threads.call(lambda: "done") == "done"
    threads.close()


async def test_a_call_that_was_given_up_before_its_start_is_not_made(hanging: threading.Event) -> None:
    threads, calls = Threads(1), list[str]()
    first = threads.call(hanging.wait, 60)
    second = threads.call(calls.append, "given up")
    second.cancel()
    third = threads.call(calls.append, "made")

    hanging.set()
    await asyncio.wait([first, third])

    assert calls == ["made"]
    threads.close()
