import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Bury, Cancel, Context, Done, Mainspring, Retry, Snooze, Testing, errors, intervals


async def test_what_is_due_runs_in_the_tests_own_task(app: Mainspring, kit: Testing) -> None:
    tasks: list[Any] = []

    @app.consumer("orders.placed")
    async def remember(order: dict[str, int]) -> None:
        tasks.append(asyncio.current_task())

    await app.publish("orders.placed", {"order": 7})
    runs = await kit.drain()

    assert tasks == [asyncio.current_task()]
    assert [(ran.group, ran.payload, ran.outcome, ran.attempt) for ran in runs] == [
        ("remember", {"order": 7}, "done", 1)
    ]


async def test_a_plain_function_runs_in_a_thread_and_may_publish_from_it(app: Mainspring, kit: Testing) -> None:
    threads: list[threading.Thread] = []

    @app.consumer("orders.placed")
    def forward(order: dict[str, int], ctx: Context) -> None:
        threads.append(threading.current_thread())
        app.sync.publish("orders.seen", order)
        ctx.sync.publish("orders.caused", order)

    await app.publish("orders.placed", {"order": 7})
    await kit.drain()

    assert threads[0] is not threading.current_thread()
    (seen,), (caused,) = kit.published("orders.seen"), kit.published("orders.caused")
    assert (seen.causation_id, caused.causation_id) == (None, kit.published("orders.placed")[0].id)


async def test_what_computes_in_a_process_runs_in_a_thread_here(app: Mainspring, kit: Testing) -> None:
    app.consumer("numbers", cpu=True)(square)

    await app.publish("numbers", 7)
    runs = await kit.drain()

    assert [(ran.outcome, ran.output) for ran in runs] == [("done", "49")]


def square(number: int) -> Done:
    return Done(str(number * number))


async def test_runs_come_by_due_time_then_urgency_then_order_of_publishing(app: Mainspring, kit: Testing) -> None:
    handled: list[str] = []

    @app.consumer("a.*", group="first")
    async def first(name: str) -> None:
        handled.append(name)

    @app.consumer("b.*", group="second")
    async def second(name: str) -> None:
        handled.append(name)

    await app.publish("b.x", "late", delay="2s")
    await app.publish("a.x", "soon", delay="1s")
    kit.elapse("3s")
    await app.publish("a.x", "one")
    await app.publish("b.x", "two")
    await app.publish("a.x", "three")
    await app.publish("b.x", "urgent", priority="urgent")
    await kit.drain()

    assert handled == ["soon", "late", "urgent", "one", "two", "three"]


async def test_what_a_handler_publishes_is_drained_too(app: Mainspring, kit: Testing) -> None:
    @app.consumer("countdown")
    async def count(number: int, ctx: Context) -> None:
        if number:
            await ctx.publish("countdown", number - 1)

    await app.publish("countdown", 3)

    assert [ran.payload for ran in await kit.drain()] == [3, 2, 1, 0]
    assert await kit.drain() == []


async def test_a_message_cancelled_by_the_one_before_it_does_not_run(app: Mainspring, kit: Testing) -> None:
    @app.consumer("payments.paid")
    async def settle(order: str) -> None:
        assert (await app.cancel("payments.timeout", key=order)).cancelled == 1

    @app.consumer("payments.timeout")
    async def remind(order: str) -> None: ...

    @app.consumer("payments.audit")
    async def audit(order: str) -> None: ...

    await app.publish("payments.paid", "order:42")
    await app.publish("payments.timeout", "order:42", key="order:42")
    await app.publish("payments.audit", "order:42")
    await app.publish("payments.timeout", "order:43", key="order:43")
    runs = await kit.drain()

    assert [(ran.group, ran.payload) for ran in runs] == [
        ("settle", "order:42"),
        ("audit", "order:42"),
        ("remind", "order:43"),
    ]


async def test_every_outcome_is_told(app: Mainspring, kit: Testing) -> None:
    @app.consumer("work", retry=intervals(5))
    async def work(what: str) -> Any:
        if what == "fail":
            raise LookupError("not there yet")
        return {"done": Done("42 rows"), "snooze": Snooze("5m", "busy"), "cancel": Cancel("obsolete")}[what]

    for what in ("done", "snooze", "cancel", "fail"):
        await app.publish("work", what)
    done, snoozed, cancelled, failed = await kit.drain()

    assert (done.outcome, done.output, done.error) == ("done", "42 rows", None)
    assert (snoozed.outcome, snoozed.error, snoozed.again_at) == ("snoozed", "busy", kit.pending[1].due_at)
    assert (cancelled.outcome, cancelled.error) == ("cancelled", "obsolete")
    assert (failed.outcome, failed.error) == ("failed", "LookupError: not there yet")
    assert isinstance(failed.exception, LookupError)


async def test_a_returned_retry_is_a_failure_within_the_attempts_of_the_policy(app: Mainspring, kit: Testing) -> None:
    # The policy retries nothing but OSError, and after an hour: what the handler returns takes precedence.
    @app.consumer("work", retry=intervals("1h", "1h", retry_on=(OSError,)))
    async def work(what: str, ctx: Context) -> Any:
        return Retry if ctx.attempt == 1 else Retry("5m", "not there yet")

    await app.publish("work", "it")
    (first,) = await kit.drain()
    assert first.again_at is not None
    (again,) = await kit.advance(first.again_at - kit.now)
    with kit.expect_dead("work", error="not there yet"):
        (last,) = await kit.advance("5m")

    assert (first.outcome, first.error) == ("failed", "it returned Retry")
    assert first.again_at == first.at + timedelta(hours=1)
    assert (again.outcome, again.error, again.again_at) == ("failed", "not there yet", again.at + timedelta(minutes=5))
    assert (last.outcome, last.attempt, last.again_at) == ("dead", 3, None)


async def test_a_returned_bury_is_a_dead_letter_whatever_the_policy(app: Mainspring, kit: Testing) -> None:
    @app.consumer("work", retry=intervals(5, 5))
    async def work(what: str) -> Any:
        return Bury("there is no such order\x00")

    await app.publish("work", "it")
    with kit.expect_dead("work", error="there is no such order"):
        (ran,) = await kit.drain()

    assert (ran.outcome, ran.attempt, ran.again_at) == ("dead", 1, None)


async def test_a_retry_after_no_duration_fails_by_the_policy_and_says_so(app: Mainspring, kit: Testing) -> None:
    @app.consumer("work", retry=intervals("1m"))
    async def work(what: str) -> Any:
        return Retry("soon", "x")

    await app.publish("work", "it")
    (ran,) = await kit.drain()

    assert (ran.outcome, ran.again_at) == ("failed", ran.at + timedelta(minutes=1))
    assert ran.error is not None
    assert "Retry" in ran.error
    assert "'soon'" in ran.error


async def test_a_paused_group_waits(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    await app.groups.pause("ship")
    await app.publish("orders.placed", 1)

    assert await kit.advance("1d") == []
    await app.groups.resume("ship")
    assert len(await kit.drain()) == 1


async def test_a_consumer_registered_within_the_test_gets_what_was_published_before_it(
    app: Mainspring, kit: Testing
) -> None:
    await app.publish("orders.placed", 1)
    assert await kit.drain() == []

    @app.consumer("orders.placed")
    async def late(order: int) -> None: ...

    assert [ran.group for ran in await kit.drain()] == ["late"]


async def test_handlers_that_never_come_to_an_end_are_named(app: Mainspring) -> None:
    @app.consumer("ping")
    async def ping() -> None:
        await app.publish("pong", None)

    @app.consumer("pong")
    async def pong() -> None:
        await app.publish("ping", None)

    with app.testing(limit=100) as kit:
        await app.publish("ping", None)

        with pytest.raises(errors.EndlessWork, match=r"100 runs at one instant.* ping \(50\), pong \(50\)"):
            await kit.drain()


async def test_a_drain_within_a_handler_is_refused(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=intervals(1))
    async def eager(order: int) -> None:
        await kit.drain()

    await app.publish("orders.placed", 1)
    (ran,) = await kit.drain()

    assert isinstance(ran.exception, errors.Misuse)
    assert "running already" in str(ran.exception)


async def test_middleware_stands_around_as_ever(app: Mainspring) -> None:
    from mainspring.app.consume.middleware import Middleware, Next

    told: list[str] = []

    class Telling(Middleware):
        async def handling(self, ctx: Context, call_next: Next) -> object:
            told.append(f"before {ctx.group}")
            try:
                return await call_next()
            finally:
                told.append(f"after {ctx.group}")

    app = Mainspring("memory://", middleware=[Telling()])

    @app.consumer("work")
    async def awaited(what: int) -> None:
        told.append("awaited")

    @app.consumer("work")
    def blocking(what: int) -> None:
        app.sync.publish("more", what)
        told.append("blocking")

    with app.testing() as kit:
        await app.publish("work", 1)
        await kit.drain()

    expected = ["before awaited", "awaited", "after awaited", "before blocking", "blocking", "after blocking"]
    assert told == expected


async def test_a_run_knows_what_its_handler_last_said(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed")
    def count(order: int, ctx: Context) -> None:
        if order:
            ctx.progress(f"{order} of 2")
            ctx.progress(f"{order + 1} of 2")

    await app.publish("orders.placed", 0)
    await app.publish("orders.placed", 1)
    await kit.drain()

    assert [ran.progress for ran in kit.runs] == [None, "2 of 2"]
