"""What has led to a run, as its handler sees it and as its history keeps it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring
from mainspring.telemetry.events import Completed
from tests.unit.testing.hours import HOUR, NOON

Shown = tuple[str, datetime | None, bool]


@pytest.fixture
def shown(app: Mainspring) -> list[Shown]:
    """What the handlers of `job` and of the schedule `report` were shown."""
    seen: list[Shown] = []

    @app.consumer("job", group="job", retry="none", keep="all")
    async def job(payload: dict[str, Any], ctx: Context) -> None:
        seen.append((ctx.source, ctx.scheduled_for, ctx.is_recurring))
        if payload.get("fails") and ctx.source != "replay":
            raise ValueError("no")

    @app.recurring("0 * * * *", keep="all")
    async def report(ctx: Context) -> None:
        seen.append((ctx.source, ctx.scheduled_for, ctx.is_recurring))

    return seen


async def test_a_message_for_now_has_no_due_time(app: Mainspring, shown: list[Shown]) -> None:
    with app.testing(start=NOON) as kit:
        await app.publish("job", {})
        await app.publish("job", {}, delay="1h")
        await kit.advance("1h")

    assert shown[:2] == [("message", None, False), ("delayed", NOON + HOUR, False)]


async def test_an_occurrence_is_told_from_a_request_by_hand_and_from_a_schedule_that_runs_once(
    app: Mainspring, shown: list[Shown]
) -> None:
    with app.testing(start=NOON) as kit:
        await app.schedules.trigger("report")
        await kit.drain()
        await app.schedules.once("later", NOON + timedelta(minutes=30), "job", {})
        await kit.advance("1h")
        runs = await app.schedules.runs("report")

    assert [each[0] for each in shown] == ["manual", "schedule", "schedule"]
    assert [each[2] for each in shown] == [True, False, True]
    assert [run.source for run in runs] == ["schedule", "manual"]


@pytest.mark.parametrize("payload", [None, {"fails": True, "mended": True}])
async def test_a_revived_dead_letter_is_a_replay(
    app: Mainspring, shown: list[Shown], payload: dict[str, Any] | None
) -> None:
    with app.testing(start=NOON) as kit:
        receipt = await app.publish("job", {"fails": True})
        with kit.expect_dead("job"):
            await kit.drain()
        await (app.dead.revive(receipt.id) if payload is None else app.dead.revive(receipt.id, payload=payload))
        await kit.drain()
        runs = await app.messages.runs(group="job")

    assert [each[0] for each in shown] == ["message", "replay"]
    assert [run.source for run in runs if run.status == "done"] == ["replay"]


async def test_an_event_names_the_schedule_and_a_run_its_start(app: Mainspring) -> None:
    events: list[Completed] = []
    starts: list[datetime] = []
    app.on(Completed)(events.append)

    @app.recurring("0 * * * *")
    async def report(ctx: Context) -> None:
        starts.append(ctx.started_at)

    with app.testing(start=NOON) as kit:
        await kit.advance("1h")

    assert [event.schedule for event in events] == ["report"]
    assert starts == [NOON + HOUR]
