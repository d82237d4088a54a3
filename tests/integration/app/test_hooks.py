"""Hooks on what became of messages, and breakers: told when the database has answered for it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Cancel, Context, Done, Mainspring, Snooze, breaker, events, exponential
from mainspring.model.errors import BadOption
from tests.integration.app.shop import Seen


async def test_a_hook_that_lets_a_cancellation_out_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    app = Mainspring("memory://")
    told: Seen[Any] = Seen()

    def broken(event: events.Completed) -> None:
        told.add(event)
        raise asyncio.CancelledError

    app.on(events.Completed, broken)

    @app.consumer("work")
    async def work(what: int) -> None: ...

    async with app.worker():
        await app.publish_many([("work", number) for number in range(50)])
        await told.count(50)

    assert (await tallied(app)) == 0
    assert "broken failed at" in caplog.text


async def tallied(app: Mainspring) -> int:
    async with app:
        return sum(each.ready + each.running for each in (await app.stats.tally()).groups)


async def test_a_run_that_hangs_since_before_the_pause_does_not_keep_a_group_from_probing() -> None:
    app = Mainspring("memory://", grace="1s")
    recovered: Seen[Any] = Seen()
    app.on(events.Recovered, recovered.add)
    begun: Seen[str] = Seen()
    gate = asyncio.Event()

    @app.consumer(
        "work",
        retry=exponential("1ms", factor=1, attempts=1000),
        breaker=breaker(failures=3, pause="50ms"),
        concurrency=2,
    )
    async def work(what: str) -> None:
        begun.add(what)
        if what == "hang":
            await gate.wait()
        elif not mended:
            raise ConnectionError("away")

    mended = False
    async with app.worker():
        await app.publish("work", "hang")
        await begun.count(1)
        await app.publish("work", "fail")
        await begun.count(5)
        mended = True
        await recovered.count(1)
        gate.set()

    assert begun.items.count("hang") == 1


async def test_every_outcome_has_its_event() -> None:
    app = Mainspring("memory://", namespace="test")
    told: Seen[Any] = Seen()
    for kind in (events.Completed, events.Failed, events.Dead, events.Snoozed, events.Cancelled):
        app.on(kind, told.add)

    @app.on(events.Completed)
    async def note(event: events.Completed) -> None:
        await asyncio.sleep(0)
        told.add("noted")

    @app.consumer("work", retry=exponential("1ms", attempts=2))
    async def work(what: str, ctx: Context) -> object:
        match what:
            case "done":
                return Done("42 rows")
            case "snooze":
                return Snooze("1h", "too early")
            case "cancel":
                return Cancel("obsolete")
        raise LookupError(what)

    async with app.worker():
        for what in ("done", "snooze", "cancel", "fail"):
            await app.publish("work", what, key=what)
        await told.count(6)

    by_key = {(event.key, type(event)): event for event in told.items if event != "noted"}
    assert set(by_key) == {
        ("done", events.Completed),
        ("snooze", events.Snoozed),
        ("cancel", events.Cancelled),
        ("fail", events.Failed),
        ("fail", events.Dead),
    }
    assert {(event.group, event.topic) for event in by_key.values()} == {("work", "work")}
    assert by_key["done", events.Completed].output == "42 rows"
    assert by_key["snooze", events.Snoozed].delay == timedelta(hours=1)
    assert by_key["fail", events.Failed].error == "LookupError: fail"
    assert [by_key["fail", kind].attempt for kind in (events.Failed, events.Dead)] == [1, 2]
    assert "raise LookupError(what)" in by_key["fail", events.Dead].traceback


async def test_a_failing_group_pauses_itself_probes_and_goes_on() -> None:
    app = Mainspring("memory://")
    told: Seen[Any] = Seen()
    app.on(events.Tripped, told.add)
    app.on(events.Recovered, told.add)
    away = True
    tried: Seen[str] = Seen()
    served: Seen[str] = Seen()

    @app.consumer(
        "charge",
        retry=exponential("1ms", factor=1, attempts=1000),
        breaker=breaker(failures=5, pause="100ms"),
        concurrency=1,
    )
    async def charge(card: str) -> None:
        tried.add(card)
        if away:
            raise ConnectionError("the bank is away")
        served.add(card)

    async with app.worker():
        await app.publish_many([("charge", str(number)) for number in range(20)])
        await told.count(1)
        at_the_trip = len(tried.items)
        health = await app.health()
        await told.count(2)
        away = False
        await served.count(20)

    assert at_the_trip == 5
    assert told.items[0] == events.Tripped("charge", 5, timedelta(milliseconds=100))
    assert told.items[1].pause == timedelta(milliseconds=200)
    assert told.items[-1] == events.Recovered("charge")
    [check] = [each for each in health.checks if each.name == "breaker charge"]
    assert check.status == "degraded"
    assert "charge failed too often and is paused here" in check.summary


def test_an_event_that_does_not_exist_is_refused_where_it_is_named() -> None:
    app = Mainspring("memory://")

    for never in (None, "zzz", events.Event, print):
        with pytest.raises(BadOption, match=r"name a class of mainspring\.events, one of Completed, Failed, Dead, "):
            app.on(never, print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "kind"), [*((each.__name__.lower(), each) for each in events.EVENTS), ("ded", events.Dead)]
)
def test_the_name_of_an_event_leads_to_its_class(name: str, kind: type) -> None:
    said = rf"app\.on\({name!r}\): write app\.on\(events\.{kind.__name__}\), with `from mainspring import events`"

    with pytest.raises(BadOption, match=said):
        Mainspring("memory://").on(name)  # type: ignore[call-overload]


def test_a_hook_is_typed_by_its_event() -> None:
    app = Mainspring("memory://")

    app.on(events.Failed, lambda event: event.retry_in)
    app.on(events.Failed, lambda event: event.output)  # type: ignore[attr-defined]

    @app.on(events.Completed)
    def output(event: events.Completed) -> str | None:
        return event.output

    assert output.__name__ == "output"
