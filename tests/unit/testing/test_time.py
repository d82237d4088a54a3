from datetime import UTC, datetime, timedelta

import pytest

from mainspring import Context, Mainspring, Testing, errors, exponential, intervals

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


async def test_a_day_passes_at_once_and_ends_exactly_a_day_later(app: Mainspring) -> None:
    with app.testing(start=NOON) as kit:
        assert kit.now == NOON

        assert await kit.advance("24h") == []
        assert kit.now == NOON + timedelta(hours=24)
        await kit.advance(timedelta(minutes=1))
        assert kit.now == NOON + timedelta(hours=24, minutes=1)


async def test_everything_runs_at_its_own_instant(app: Mainspring) -> None:
    seen: list[tuple[str, datetime]] = []

    with app.testing(start=NOON) as kit:

        @app.consumer("reminders")
        async def remind(name: str, ctx: Context) -> None:
            seen.append((name, kit.now))

        await app.publish("reminders", "tomorrow", delay="1d")
        await app.publish("reminders", "soon", delay="15m")
        await app.publish("reminders", "at three", at=NOON + timedelta(hours=3))
        await app.publish("reminders", "too late", delay="2d")
        runs = await kit.advance("24h")

    assert seen == [
        ("soon", NOON + timedelta(minutes=15)),
        ("at three", NOON + timedelta(hours=3)),
        ("tomorrow", NOON + timedelta(days=1)),
    ]
    assert [ran.at for ran in runs] == [at for _, at in seen]


async def test_retries_come_when_their_policy_says(app: Mainspring) -> None:
    with app.testing(start=NOON) as kit:

        @app.consumer("work", retry=exponential("1s", factor=10, cap="1h", attempts=4, jitter=0))
        async def stubborn(what: int, ctx: Context) -> None:
            if ctx.attempt < 4:
                raise OSError("away")

        await app.publish("work", 1)
        runs = await kit.advance("1h")

    assert [(ran.attempt, ran.outcome, (ran.at - NOON).total_seconds()) for ran in runs] == [
        (1, "failed", 0.0),
        (2, "failed", 1.0),
        (3, "failed", 11.0),
        (4, "done", 111.0),
    ]


async def test_what_has_expired_is_cancelled_instead_of_run(app: Mainspring, kit: Testing) -> None:
    @app.consumer("offers")
    async def offer(price: int) -> None:
        raise AssertionError("it ran")

    await app.groups.pause("offer")
    await app.publish("offers", 1, expires="1h")
    await kit.advance("2h")
    await app.groups.resume("offer")
    (ran,) = await kit.drain()

    assert (ran.outcome, ran.error) == ("cancelled", "expired before it could run")


async def test_the_whole_app_goes_by_this_clock(app: Mainspring) -> None:
    with app.testing(start=NOON) as kit:

        @app.consumer("work", timeout="30s")
        async def look(what: int, ctx: Context) -> None:
            assert ctx.published_at == NOON
            assert ctx.deadline == NOON + timedelta(seconds=30)
            kit.elapse("10s")
            assert ctx.remaining == timedelta(seconds=20)

        await app.publish("work", 1)
        with pytest.raises(errors.BadOption, match="has passed"):
            await app.publish("work", 1, at=NOON - timedelta(seconds=1), past="raise")
        (ran,) = await kit.drain()
        kept = (await app.stats.tally()).now

    assert (ran.outcome, ran.took) == ("done", timedelta(seconds=10))
    assert kept == NOON + timedelta(seconds=10)


async def test_an_id_may_come_again_when_its_day_is_over(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    first = await app.publish("orders.placed", 1)
    await kit.drain()
    assert (await app.publish("orders.placed", 1, message_id=first.id)).status == "duplicate"
    await kit.advance("25h")

    assert (await app.publish("orders.placed", 1, message_id=first.id)).status == "stored"


async def test_a_handler_that_takes_too_long_times_out_without_waiting(app: Mainspring, kit: Testing) -> None:
    reached: list[str] = []

    @app.consumer("reports", timeout="30s", retry=intervals(1))
    async def report(number: int) -> None:
        kit.elapse("29s")
        reached.append("within")
        kit.elapse("1s")
        reached.append("past")

    await app.publish("reports", 1)
    (ran,) = await kit.drain()

    assert reached == ["within"]
    assert (ran.outcome, ran.error, ran.took) == (
        "failed",
        "TimedOut: it ran past its timeout of 30 s",
        timedelta(seconds=30),
    )
    assert isinstance(ran.exception, TimeoutError)


async def test_a_plain_function_that_takes_too_long_is_told(app: Mainspring, kit: Testing) -> None:
    told: list[bool] = []

    @app.consumer("reports", timeout="30s", retry=intervals(1))
    def report(number: int, ctx: Context) -> None:
        kit.elapse("31s")
        told.append(ctx.cancelled)

    await app.publish("reports", 1)
    (ran,) = await kit.drain()

    assert told == [True]
    assert (ran.outcome, ran.error) == ("failed", "TimedOut: it ran past its timeout of 30 s")


async def test_a_handler_that_waits_for_ever_fails_the_test_and_stays_pending(app: Mainspring) -> None:
    import asyncio

    with app.testing(patience="50ms") as kit:

        @app.consumer("work")
        async def stuck(what: int) -> None:
            await asyncio.Event().wait()

        await app.publish("work", 1)
        with pytest.raises(errors.StuckHandler, match=r"stuck has not ended within 0.05 s of real time") as failure:
            await kit.drain()

        assert "kit.elapse('31s')" in str(failure.value)
        assert [waiting.attempt for waiting in kit.pending] == [0]


async def test_a_thread_that_waits_for_ever_is_shown_where_it_stands(app: Mainspring) -> None:
    import threading

    gate = threading.Event()
    with app.testing(patience="50ms") as kit:

        @app.consumer("work")
        def stuck(what: int) -> None:
            gate.wait(60)  # the line that is shown

        await app.publish("work", 1)
        with pytest.raises(errors.StuckHandler, match="the line that is shown"):
            await kit.drain()
        gate.set()
