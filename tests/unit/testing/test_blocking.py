import asyncio
import threading

import pytest

from mainspring import NO_RETRY, Context, Mainspring, Testing, errors


def test_a_blocking_test_needs_no_loop(app: Mainspring, kit: Testing) -> None:
    threads: list[threading.Thread] = []

    @app.consumer("orders.placed")
    def ship(order: int) -> None:
        threads.append(threading.current_thread())
        app.sync.publish("orders.shipped", order, delay="1h")

    @app.consumer("orders.shipped")
    async def thank(order: int, ctx: Context) -> None:
        await asyncio.sleep(0)
        await ctx.publish("thanks", order)

    app.sync.publish("orders.placed", 7)
    assert [ran.group for ran in kit.sync.drain()] == ["ship"]
    assert [ran.group for ran in kit.sync.advance("1h")] == ["thank"]

    assert threads == [threading.current_thread()]
    assert [sent.payload for sent in kit.published("thanks")] == [7]


def test_a_blocking_test_waits_until_something_holds(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    async def shipped() -> bool:
        await asyncio.sleep(0)
        return bool(kit.delivered(ship))

    ship.sync.send(7, delay="1h")
    kit.sync.wait_until(shipped)
    ship.sync.send(8, delay="1h")
    kit.sync.wait_until(lambda: kit.delivered(ship)[1:])

    assert [ran.payload for ran in kit.delivered(ship)] == [7, 8]


def test_everything_of_the_blocking_app_works(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=NO_RETRY)
    def ship(order: int) -> None:
        raise OSError("away")

    stored = app.sync.publish_many([("orders.placed", 1), ("orders.placed", 2)])
    assert app.sync.cancel(stored[1].id).cancelled == 1
    with kit.expect_dead(ship):
        kit.sync.drain()

    assert len(app.sync.dead.list()) == 1
    assert app.sync.dead.discard(group="ship") == 1
    assert app.sync.health().status == "healthy"
    assert [(group.group, group.failed) for group in app.sync.stats.tally().groups] == [("ship", 1)]
    assert app.sync.migrate() == []
    assert [group.name for group in app.sync.groups.list()] == ["ship"]


def test_a_dead_letter_fails_a_blocking_test_too(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=NO_RETRY)
    async def ship(order: int) -> None:
        raise OSError("away")

    app.sync.publish("orders.placed", 7)
    with pytest.raises(errors.UnexpectedDeadLetter, match="OSError: away"):
        kit.sync.drain()


def test_middleware_around_a_plain_function_leaves_it_without_a_loop() -> None:
    from mainspring import Middleware
    from mainspring.app.consume.middleware import Next

    told: list[str] = []

    class Telling(Middleware):
        async def handling(self, ctx: Context, call_next: Next) -> object:
            await asyncio.sleep(0)
            told.append(ctx.group)
            return await call_next()

    app = Mainspring("memory://", middleware=[Telling()])

    @app.consumer("work")
    def work(what: int) -> None:
        app.sync.publish("more", what)

    with app.testing() as kit:
        app.sync.publish("work", 1)
        kit.sync.drain()

        assert told == ["work"]
        assert [sent.payload for sent in kit.published("more")] == [1]


async def test_a_coroutine_is_told_to_await(app: Mainspring, kit: Testing) -> None:
    with pytest.raises(errors.Misuse, match=r"write `await kit.drain\(\)`"):
        kit.sync.drain()
    with pytest.raises(errors.Misuse, match=r"write `await app.publish\(…\)`"):
        app.sync.publish("orders.placed", 1)


async def test_other_threads_publish_to_the_same_test(app: Mainspring, kit: Testing) -> None:
    def view() -> None:
        app.sync.publish("orders.placed", 7)

    await asyncio.to_thread(view)

    assert [sent.payload for sent in kit.published()] == [7]
