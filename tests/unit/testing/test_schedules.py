"""Schedules in a test: they fire at their own instants, among everything else that has its time."""

import logging
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mainspring import Context, Mainspring, every, intervals
from tests.unit.testing.hours import HOUR, NOON, hours

BERLIN = ZoneInfo("Europe/Berlin")


async def test_schedules_timers_and_retries_come_in_order_each_at_its_own_instant(app: Mainspring) -> None:
    seen: list[tuple[str, datetime]] = []

    with app.testing(start=NOON) as kit:

        @app.recurring(every("6h"), retry=intervals("20m"))
        async def sweep(ctx: Context) -> None:
            seen.append((f"sweep {ctx.attempt}", kit.now))
            if ctx.attempt == 1:
                await ctx.publish("reminders", None, delay="10m")
                raise OSError("away")

        @app.consumer("reminders")
        async def remind() -> None:
            seen.append(("remind", kit.now))

        runs = await kit.advance("12h")

    minutes = timedelta(minutes=1)
    six, midnight = NOON + 6 * HOUR, NOON + 12 * HOUR
    assert seen == [
        ("sweep 1", six),
        ("remind", six + 10 * minutes),
        ("sweep 2", six + 20 * minutes),
        ("sweep 1", midnight),
    ]
    assert [ran.at for ran in runs] == [at for _, at in seen]


async def test_a_local_time_follows_the_clocks_of_its_zone(app: Mainspring) -> None:
    @app.recurring("30 2 * * *", timezone="Europe/Berlin")
    async def report() -> None: ...

    with app.testing(start=datetime(2026, 3, 28, tzinfo=BERLIN)) as kit:
        await kit.advance("3d")
        spring = [ran.at.astimezone(BERLIN).strftime("%d %H:%M %z") for ran in kit.runs]
    with app.testing(start=datetime(2026, 10, 24, tzinfo=BERLIN)) as kit:
        await kit.advance("3d")
        autumn = [ran.at.astimezone(BERLIN).strftime("%d %H:%M %z") for ran in kit.runs]

    assert spring == ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]
    assert autumn == ["24 02:30 +0200", "25 02:30 +0200", "26 02:30 +0100"]


async def test_nothing_is_due_when_the_test_begins(app: Mainspring) -> None:
    @app.recurring("0 12 * * *")
    async def report() -> None: ...

    with app.testing(start=NOON) as kit:
        assert await kit.drain() == []
        assert await kit.advance("23h") == []
        assert [ran.group for ran in await kit.advance("1h")] == ["report"]


async def test_one_registered_in_the_test_is_due_from_then_on(app: Mainspring) -> None:
    with app.testing(start=NOON) as kit:
        await kit.advance("30m")

        @app.recurring(every("1h"))
        async def first() -> None: ...

        await kit.advance("1h")

        @app.recurring(every("1h"))
        async def second() -> None: ...

        await kit.advance("1h")

        assert (hours(kit, "first"), hours(kit, "second")) == ([1, 2], [2])


async def test_published_and_delivered_show_occurrences(app: Mainspring) -> None:
    @app.recurring("0 9 * * *", topic="reports.due", payload={"kind": "daily"}, name="nightly")
    async def report(what: dict[str, str]) -> None: ...

    @app.consumer("reports.*")
    async def archive(what: dict[str, str]) -> None: ...

    @app.recurring("0 10 * * *")
    def tidy() -> None: ...

    with app.testing(start=NOON) as kit:
        await kit.advance("1d")

        (sent,) = kit.published("reports.due", kind="daily")
        assert (sent.schedule, sent.group, sent.due_at) == ("nightly", None, NOON + 21 * HOUR)
        assert [ran.schedule for ran in kit.delivered(report, kind="daily")] == ["nightly"]
        assert [ran.schedule for ran in kit.delivered(archive)] == ["nightly"]
        assert [ran.at for ran in kit.delivered(tidy)] == [NOON + 22 * HOUR]
        assert [(each.topic, each.group) for each in kit.published("tidy")] == [("tidy", "tidy")]


async def test_the_history_of_a_schedule_is_kept_as_a_worker_keeps_it(app: Mainspring) -> None:
    @app.recurring("0 * * * *")
    async def report() -> None:
        kit.elapse("5s")

    with app.testing(start=NOON) as kit:
        assert (await app.schedules.list())[0].never_ran
        await kit.advance("2h")
        view = await app.schedules.get("report")

        assert view is not None
        assert view.last_run is not None
        assert view.last_run.finished_at - view.last_run.started_at == timedelta(seconds=5)
        assert len(await app.schedules.runs("report")) == view.fired == 2


async def test_a_frozen_scheduler_does_not_hold_up_the_clock(app: Mainspring) -> None:
    @app.recurring("0 * * * *", misfire="skip")
    async def report() -> None: ...

    with app.testing(start=NOON) as kit:
        await app.schedules.freeze(reason="incident")
        assert await kit.advance("90m") == []
        assert kit.now == NOON + 1.5 * HOUR
        await app.schedules.thaw()

        await kit.advance("1h")

        assert hours(kit, "report") == [2]


async def test_wait_until_goes_from_occurrence_to_occurrence(app: Mainspring) -> None:
    @app.recurring("0 0 1 1 *")
    async def yearly() -> None: ...

    with app.testing(start=NOON) as kit:
        await kit.wait_until(lambda: kit.delivered(yearly), within="366d")

        assert kit.now == datetime(2031, 1, 1, tzinfo=UTC)


async def test_a_schedule_that_cannot_be_followed_is_logged_and_stops_no_other(
    app: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    broken: list[str] = []

    def closed(_day: date) -> bool:
        if broken:
            raise LookupError("no calendar")
        return False

    @app.recurring("0 * * * *", holidays=closed)
    async def picky() -> None: ...

    @app.recurring("0 * * * *")
    async def steady() -> None: ...

    with app.testing(start=NOON) as kit, caplog.at_level(logging.WARNING, "mainspring.testing"):
        await kit.advance("1h")
        broken.append("from now on")
        await kit.advance("3h")

        assert (hours(kit, "picky"), hours(kit, "steady")) == ([1], [1, 2, 3, 4])
    assert "schedule picky: holidays: " in caplog.text
    assert "closed failed for 2030-01-01: LookupError: no calendar" in caplog.text


async def test_one_that_was_deleted_and_made_anew_follows_its_new_rhythm(app: Mainspring) -> None:
    @app.consumer("work")
    async def work() -> None: ...

    with app.testing(start=NOON) as kit:
        await app.schedules.put("mine", every("1h"), work)
        await kit.advance("1h")
        await app.schedules.delete("mine")
        await app.schedules.put("mine", every("2h"), work)
        await kit.advance("4h")

        assert hours(kit, "work") == [1, 2, 4]


async def test_days_that_code_tells_stay_when_the_rhythm_is_altered(app: Mainspring) -> None:
    @app.recurring("0 * * * *", holidays=lambda day: day.day == 2)
    async def report() -> None: ...

    with app.testing(start=NOON) as kit:
        await app.schedules.alter("report", "0 */6 * * *")
        await kit.advance("48h")

        assert hours(kit, "report") == [6, 36, 42, 48]


async def test_names_are_shown_without_their_namespace() -> None:
    app = Mainspring("memory://", name="shop", namespace="staging")

    @app.recurring("0 * * * *")
    async def report(ctx: Context) -> None:
        assert ctx.schedule == "report"

    with app.testing(start=NOON) as kit:
        (ran,) = await kit.advance("1h")

        assert (ran.schedule, ran.topic, kit.published("report")[0].schedule) == ("report", "report", "report")
        assert [view.name for view in await app.schedules.list()] == ["report"]


async def test_an_app_without_schedules_has_nothing_to_do_with_them(app: Mainspring) -> None:
    @app.consumer("work")
    async def work() -> None: ...

    with app.testing(start=NOON) as kit:
        await app.publish("work", None, delay="1h")
        await kit.advance("1d")

    assert "_recurrences" not in vars(app)
