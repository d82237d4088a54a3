from datetime import timedelta

import pytest

from mainspring import Mainspring, Testing, errors, intervals


async def test_time_passes_until_it_holds_and_no_further(app: Mainspring, kit: Testing) -> None:
    began, seen = kit.now, list[int]()

    @app.consumer("steps")
    async def step(number: int) -> None:
        seen.append(number)
        await app.publish("steps", number + 1, delay="10m")

    await app.publish("steps", 1)
    runs = await kit.wait_until(lambda: 3 in seen)

    assert [ran.payload for ran in runs] == [1, 2, 3]
    assert kit.now - began == timedelta(minutes=20)


async def test_what_holds_already_runs_nothing(app: Mainspring, kit: Testing) -> None:
    @app.consumer("work")
    async def work(what: int) -> None: ...

    await app.publish("work", 1)

    assert await kit.wait_until(lambda: True) == []
    assert len(kit.pending) == 1


async def test_the_question_may_be_a_coroutine(app: Mainspring, kit: Testing) -> None:
    @app.consumer("work")
    async def work(what: int) -> None: ...

    async def handled() -> bool:
        return (await app.messages.list()) == []

    await app.publish("work", 1, delay="1h")
    await kit.wait_until(handled)

    assert len(kit.delivered(work)) == 1


async def test_what_never_holds_tells_what_ran_and_what_is_pending(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=intervals(60, 7200))
    async def ship(order: int) -> None:
        raise OSError("the carrier is away")

    await app.publish("orders.placed", 7)
    await app.publish("orders.plced", 8)
    with pytest.raises(errors.Unmet) as failure:
        await kit.wait_until(lambda: kit.delivered(ship), within="1h")

    told = str(failure.value)
    assert told.startswith("not within 1h: await kit.wait_until(lambda: kit.delivered(ship), within=")
    assert "ran: 2\n" in told
    assert "<failed ship(7), attempt 2: OSError: the carrier is away, again in 2h>" in told
    assert "<pending ship(7), due in 1h 1m, after attempt 2>" in told
    assert "dead: nothing" in told
    assert told.endswith("published, and no consumer subscribes to it: orders.plced")
    assert isinstance(failure.value.__cause__, OSError)


async def test_what_only_time_brings_holds_at_the_end(kit: Testing) -> None:
    later = kit.now + timedelta(minutes=30)

    await kit.wait_until(lambda: kit.now > later, within="1h")

    assert kit.now == later + timedelta(minutes=30)


async def test_a_question_of_several_lines_is_named(kit: Testing) -> None:
    def is_there() -> bool:
        return False

    with pytest.raises(errors.Unmet, match=r"not within 1s: .*<locals>\.is_there"):
        await kit.wait_until(is_there, within="1s")
