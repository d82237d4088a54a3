import asyncio

from mainspring import NO_RETRY, Mainspring, Testing, breaker, events, intervals
from mainspring.telemetry.events import Completed, Dead, Failed, Recovered, Tripped


async def test_hooks_hear_of_every_run_before_the_drain_returns(app: Mainspring, kit: Testing) -> None:
    heard: list[object] = []

    @app.on(events.Completed)
    async def completed(event: Completed) -> None:
        await asyncio.sleep(0)
        heard.append(("completed", event.group))

    @app.on(events.Failed)
    def failed(event: Failed) -> None:
        heard.append(("failed", event.error))

    @app.on(events.Dead)
    def dead(event: Dead) -> None:
        heard.append(("dead", event.attempt))

    @app.consumer("work", retry=intervals(1))
    async def work(fails: bool) -> None:
        if fails:
            raise OSError("away")

    await app.publish("work", False)
    await app.publish("work", True)
    with kit.expect_dead():
        await kit.advance("1m")

    assert heard == [("completed", "work"), ("failed", "OSError: away"), ("dead", 2)]


def test_async_hooks_are_heard_out_in_blocking_tests_too(app: Mainspring, kit: Testing) -> None:
    heard: list[str] = []

    @app.on(events.Completed)
    async def completed(event: Completed) -> None:
        await asyncio.sleep(0)
        heard.append(event.group)

    @app.consumer("work")
    def work(what: int) -> None: ...

    app.sync.publish("work", 1)
    kit.sync.drain()

    assert heard == ["work"]


async def test_a_breaker_trips_and_recovers_by_the_kits_clock(app: Mainspring, kit: Testing) -> None:
    heard: list[object] = []
    app.on(events.Tripped)(heard.append)
    app.on(events.Recovered)(heard.append)
    up: list[int] = []

    @app.consumer("work", retry=NO_RETRY, breaker=breaker(failures=2, within="1m", pause="30s"))
    async def work(number: int) -> None:
        if not up:
            raise OSError("away")

    for number in range(4):
        await app.publish("work", number)
    with kit.expect_dead() as dead:
        await kit.drain()
    assert [(ran.payload, kit.pending[0].payload) for ran in dead] == [(0, 2), (1, 2)]
    up.append(1)
    assert await kit.advance("29s") == []

    runs = await kit.advance("1s")

    assert [(ran.payload, ran.outcome) for ran in runs] == [(2, "done"), (3, "done")]
    assert heard == [Tripped("work", 2, runs[0].at - dead[0].at), Recovered("work")]
