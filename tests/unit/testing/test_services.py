"""A test runs the services of a worker: what they do with a run, they do in a test."""

import asyncio
import logging
from contextvars import ContextVar

import pytest

from mainspring import NO_RETRY, Mainspring, Testing, intervals

USER: ContextVar[str] = ContextVar("user", default="none")


async def test_variables_that_a_handler_sets_do_not_reach_the_next_run(app: Mainspring, kit: Testing) -> None:
    seen: list[str] = []

    @app.consumer("work")
    async def work(user: str) -> None:
        seen.append(USER.get())
        USER.set(user)

    @app.consumer("work")
    def plain(user: str) -> None:
        seen.append(USER.get())
        USER.set(user)

    USER.set("test")
    await app.publish("work", "ann")
    await app.publish("work", "ben")
    await kit.drain()

    assert seen == ["test"] * 4
    assert USER.get() == "test"


def test_blocking_handlers_see_the_variables_of_the_test_at_each_drain(app: Mainspring, kit: Testing) -> None:
    seen: list[str] = []

    @app.consumer("work")
    def work(user: str) -> None:
        seen.append(USER.get())

    for user in ("ann", "ben"):
        USER.set(user)
        app.sync.publish("work", user)
        kit.sync.drain()

    assert seen == ["ann", "ben"]


async def test_failures_are_logged_as_a_worker_logs_them(
    app: Mainspring, kit: Testing, caplog: pytest.LogCaptureFixture
) -> None:
    @app.consumer("work", retry=NO_RETRY)
    async def work(number: int) -> None:
        raise OSError("away")

    await app.publish("work", 1)
    with kit.expect_dead(), caplog.at_level(logging.WARNING, "mainspring.handlers"):
        await kit.drain()

    assert "failed, attempt 1, buried as a dead letter: OSError: away" in caplog.text


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_what_pytest_raises_in_a_handler_ends_the_test_and_its_message_stays(
    app: Mainspring, kit: Testing, kind: str
) -> None:
    @app.consumer("work")
    async def work(number: int) -> None:
        pytest.fail("not like this")

    @app.consumer("work.plain")
    def plain(number: int) -> None:
        pytest.fail("not like this")

    await app.publish("work" if kind == "async" else "work.plain", 1)
    with pytest.raises(pytest.fail.Exception, match="not like this"):
        await kit.drain()

    assert [waiting.attempt for waiting in kit.pending] == [0]
    assert kit.runs == []


async def test_a_test_that_is_cancelled_in_a_handler_is_cancelled_and_its_message_stays(
    app: Mainspring, kit: Testing
) -> None:
    started = asyncio.Event()

    @app.consumer("work")
    async def work(number: int) -> None:
        started.set()
        await asyncio.Event().wait()

    await app.publish("work", 1)
    test = asyncio.create_task(kit.drain())
    await started.wait()
    test.cancel()

    with pytest.raises(asyncio.CancelledError):
        await test
    assert [waiting.attempt for waiting in kit.pending] == [0]


async def test_a_handler_that_clears_up_after_its_timeout_has_timed_out_all_the_same(
    app: Mainspring, kit: Testing
) -> None:
    cleared: list[str] = []

    @app.consumer("work", timeout="30s", retry=intervals(60))
    async def work(number: int) -> None:
        try:
            kit.elapse("31s")
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # the task of the test itself was not cancelled
            cleared.append("up")

    await app.publish("work", 1)
    (ran,) = await kit.drain()

    assert cleared == ["up"]
    assert (ran.outcome, ran.error) == ("failed", "TimedOut: it ran past its timeout of 30 s")
    assert isinstance(ran.exception, TimeoutError)


async def test_each_message_of_a_batch_has_its_own_error_and_exception(app: Mainspring, kit: Testing) -> None:
    @app.consumer("work", batch=10, linger="1m", retry=intervals(60))
    async def work(numbers: list[int]) -> list[object]:
        return [None if number else LookupError(f"no {number}") for number in numbers]

    for payload in (0, 1, "no number"):
        await app.publish("work", payload, validate=False)
    runs = {str(ran.payload): ran for ran in await kit.drain()}

    assert {payload: ran.outcome for payload, ran in runs.items()} == {
        "0": "failed",
        "1": "done",
        "no number": "failed",
    }
    assert isinstance(runs["0"].exception, LookupError)
    assert runs["1"].exception is None
    assert "Unreadable" in type(runs["no number"].exception).__name__
