"""A user's own tests of schedules, as they would stand in their project."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from clinic import Archive, app, archive, daily_report, remind, sweep  # type: ignore[import-not-found]

from mainspring import Testing, every

NEW_YORK = ZoneInfo("America/New_York")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = 60 * MINUTE


@pytest.fixture(autouse=True)
def _archive() -> None:
    vars(archive).update(vars(Archive()))


@pytest.fixture
def kit() -> Iterator[Testing]:
    with app.testing(start=NOON) as kit:
        yield kit


async def test_the_report_follows_the_clocks_in_spring() -> None:
    with app.testing(start=datetime(2026, 3, 7, tzinfo=NEW_YORK)) as kit:
        await kit.advance("72h")

        ran = [run.at.astimezone(NEW_YORK).strftime("%d %H:%M") for run in kit.delivered(daily_report)]
        assert ran == ["07 02:30", "08 03:00", "09 02:30"]


async def test_the_report_comes_once_on_the_long_day_in_autumn() -> None:
    with app.testing(start=datetime(2026, 11, 1, tzinfo=NEW_YORK)) as kit:
        await kit.advance("25h")

        assert [at.astimezone(NEW_YORK).day for at in archive.reports] == [1]
        assert len(kit.delivered(sweep)) == 25


async def test_a_failed_report_is_tried_again_and_stays_the_one_of_that_day(kit: Testing) -> None:
    archive.answers = False
    await kit.advance("18h35m")
    archive.answers = True

    await kit.wait_until(lambda: kit.delivered(daily_report))

    attempts = [run for run in kit.runs if run.group == "daily_report"]
    assert [run.outcome for run in attempts] == ["failed", "done"]
    assert attempts[1].at - attempts[0].at == 10 * MINUTE
    assert kit.published("mail", report="2026-06-02")
    assert archive.reports == [attempts[0].at]


async def test_a_sweep_that_takes_long_is_not_joined_by_others(kit: Testing) -> None:
    archive.on_sweep = lambda: kit.elapse("150m") if not kit.delivered(sweep) else None

    await kit.advance("6h")

    assert [(run.at - NOON) / HOUR for run in kit.delivered(sweep)] == [3.5, 4, 5, 6]
    assert (await app.schedules.get("sweep")).skipped == 2


async def test_an_operator_pauses_resumes_alters_and_triggers(kit: Testing) -> None:
    schedules = app.schedules
    await schedules.pause("daily_report", reason="audit")
    await kit.advance("3d")
    assert not kit.delivered(daily_report)

    receipt = await schedules.trigger("daily_report")
    await kit.drain()
    assert [run.message_id for run in kit.delivered(daily_report)] == [receipt.id]

    await schedules.resume("daily_report")
    await schedules.alter("daily_report", "0 12 * * *", timezone="UTC")
    await kit.advance("1d")
    assert [run.at for run in kit.delivered(daily_report)][1:] == [NOON + timedelta(days=4)]
    assert (await schedules.get("daily_report")).edited == ("rhythm", "timezone")


async def test_once_runs_once_and_backfill_makes_up_for_a_week(kit: Testing) -> None:
    await app.schedules.once("ada", NOON + timedelta(days=2), remind, "ada")
    await kit.advance("7d")
    assert [run.at for run in kit.delivered(remind)] == [NOON + timedelta(days=2)]
    assert kit.published("mail", patient="ada")

    archive.reports.clear()
    missed = await app.schedules.backfill(
        "daily_report", datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 8, tzinfo=UTC)
    )
    await kit.drain()
    assert archive.reports == missed
    assert len(missed) == 7


def test_all_of_it_works_without_a_loop(kit: Testing) -> None:
    app.sync.schedules.pause("sweep")
    app.sync.schedules.put("hourly", every("1h"), remind, "bob")

    kit.sync.advance("1d")

    assert len(kit.delivered(remind)) == 24
    assert len(kit.delivered(daily_report)) == 1
    assert not kit.delivered(sweep)
    app.sync.schedules.trigger("sweep")
    kit.sync.drain()
    assert len(kit.delivered(sweep)) == 1
