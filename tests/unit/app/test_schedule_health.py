"""Schedules that stand still are named: overdue without a worker of their own app, broken, or frozen for long."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mainspring import Check, HealthLimits, Mainspring, every
from mainspring.model.schedule import Note
from mainspring.model.views import Beat
from mainspring.storage.contract import Storage


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")

    @app.recurring(every("1h"), name="sweep")
    def sweep() -> None: ...

    async with app:
        await app.declare()
        yield app


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("the test")


async def advance(app: Mainspring, by: timedelta) -> None:
    storage = await storage_of(app)
    storage.now = (await storage.ledger.tally()).now + by


async def late_by(app: Mainspring, late: timedelta) -> None:
    view = await app.schedules.get("sweep")
    assert view is not None
    assert view.next_at is not None
    (await storage_of(app)).now = view.next_at + late


async def beat(app: Mainspring, owner: str) -> None:
    await (await storage_of(app)).upkeep.beat(Beat(f"{owner}/w", owner, "host", 1, ("sweep",), 0, "poll"))


async def schedules(app: Mainspring, limits: HealthLimits | None = None) -> Check:
    [check] = [check for check in (await app.health(limits)).checks if check.name == "schedules"]
    return check


async def test_a_schedule_that_is_due_and_not_fired_is_overdue_after_a_while(app: Mainspring) -> None:
    before = await schedules(app)
    await late_by(app, timedelta(minutes=4))
    late = await schedules(app)
    await late_by(app, timedelta(minutes=6))
    overdue = await schedules(app)

    assert [before.status, late.status, overdue.status] == ["healthy", "healthy", "degraded"]
    assert before.summary == "1 active, none overdue, broken or blocked"
    assert overdue.data["overdue"] == ["sweep"]
    assert overdue.summary == (
        "sweep of shop is overdue by 6m, and no worker of shop is alive: start one, as in "
        "`mainspring worker MODULE:APP`"
    )


async def test_how_late_a_schedule_may_be_is_settable(app: Mainspring) -> None:
    await late_by(app, timedelta(seconds=40))

    strict = await schedules(app, HealthLimits(schedule_overdue_after=timedelta(seconds=30)))

    assert (strict.status, (await schedules(app)).status) == ("degraded", "healthy")


async def test_a_worker_of_another_app_fires_nothing_of_this_one(app: Mainspring) -> None:
    await advance(app, timedelta(hours=2))
    await beat(app, "billing")
    theirs = await schedules(app)
    await beat(app, "shop")
    ours = await schedules(app)

    assert "no worker of shop is alive" in theirs.summary
    assert "although a worker of shop is alive: see its log, logger mainspring.scheduler" in ours.summary


@pytest.mark.parametrize("stop", ["pause", "freeze"])
async def test_a_schedule_that_is_stopped_on_purpose_is_not_overdue(app: Mainspring, stop: str) -> None:
    await (app.schedules.pause("sweep") if stop == "pause" else app.schedules.freeze())
    await advance(app, timedelta(hours=2))

    assert (await schedules(app)).status == "healthy"


async def test_a_plan_that_no_process_can_read_is_broken_before_it_is_due(app: Mainspring) -> None:
    storage = await storage_of(app)

    def spoil(_name: str, row: object, _now: object) -> object:
        return replace(row, definition={**row.definition, "rhythm": "every now and then"})  # type: ignore[attr-defined, type-var]

    await storage.timetable.rewrite(["sweep"], spoil, Note("ann", "spoil"))  # type: ignore[arg-type]

    check = await schedules(app)

    assert check.status == "degraded"
    assert list(check.data["broken"]) == ["sweep"]  # type: ignore[call-overload]
    assert check.summary.startswith("sweep cannot be followed, sweep: ")
    assert "every='now and then' is not a duration" in check.summary


async def test_a_plan_whose_days_are_decided_elsewhere_is_not_broken(app: Mainspring) -> None:
    @app.recurring("0 9 * * *", name="weekly", holidays=lambda day: day.day == 1)
    def weekly() -> None: ...

    await app.declare()

    assert (await schedules(app)).data["broken"] == {}


async def test_schedules_that_are_frozen_for_long_are_told(app: Mainspring) -> None:
    await app.schedules.freeze(by="ann", reason="migration")
    await advance(app, timedelta(hours=23))
    before = await schedules(app)
    await advance(app, timedelta(hours=2))
    after = await schedules(app)

    assert before.status == "healthy"
    assert after.status == "degraded"
    assert after.summary == (
        "the schedules of shop are frozen since 1d 1h, by ann (migration): run `mainspring schedules thaw`"
    )
    assert (await schedules(app, HealthLimits(frozen_after=timedelta(days=2)))).status == "healthy"


async def test_an_app_without_schedules_has_nothing_to_be_late_with() -> None:
    async with Mainspring("memory://") as app:
        assert (await schedules(app)).summary == "there are none"
