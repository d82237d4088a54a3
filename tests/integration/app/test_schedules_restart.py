"""What stays of a schedule when processes come and go: pauses, edits, versions, and whose it is."""

import logging
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, Mainspring, ScheduleView, errors, every
from tests.integration.app.shop import Seen, eventually

Start = Callable[..., Any]
HOURLY = "0 * * * *"
DAILY = "0 9 * * *"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else postgres_url


@pytest.fixture
def schema(postgres_schema: str) -> str:
    return postgres_schema


@pytest.fixture
def start(url: str, schema: str) -> Start:
    """Starts a process of the shop with one schedule, and answers with it: that is declared by then."""

    @asynccontextmanager
    async def starting(rhythm: Any, call: Callable[[Context], object] = bool, **options: Any) -> Any:
        version, name = options.pop("version", None), options.pop("app", "shop")
        app = Mainspring(url, name=name, schema=schema, auto_migrate=True, idle_poll="5m", version=version)
        called = options.pop("schedule", "report")

        @app.recurring(rhythm, name=called, group=f"{name}.{called}", **options)
        async def report(ctx: Context) -> None:
            call(ctx)

        async with app.worker():
            yield app

    return starting


async def report_of(app: Mainspring, name: str = "report") -> ScheduleView:
    view = await app.schedules.get(name)
    assert view is not None
    return view


async def test_the_same_code_again_writes_nothing(start: Start) -> None:
    async with start(HOURLY) as app:
        before = await report_of(app)
    async with start(HOURLY) as app:
        assert await report_of(app) == before


async def test_a_pause_survives_a_restart_and_a_changed_rhythm(start: Start) -> None:
    async with start(every("100ms")) as app:
        await app.schedules.pause("report", reason="audit", by="ann")

    seen = Seen[Context]()
    async with start(every("200ms"), seen.add) as app:
        view = await report_of(app)
        assert (view.state, view.paused_by, view.pause_reason) == ("paused", "ann", "audit")
        assert view.rhythm == "every 200ms"
        assert seen.items == []

        asked = datetime.now(UTC)  # of the same host: a line of the audit is a statement later
        await app.schedules.resume("report")
        (ctx,) = (await seen.count(1))[:1]

    assert ctx.scheduled_for is not None
    assert ctx.scheduled_for > asked  # strictly in the future, whatever was passed over


async def test_edits_survive_a_restart_and_win_over_code(start: Start) -> None:
    async with start(HOURLY) as app:
        await app.schedules.alter("report", "30 7 * * *", timezone="Asia/Tokyo", by="ann")
        before = await report_of(app)
    async with start(DAILY, timezone="Europe/Berlin", misfire="skip") as app:
        after = await report_of(app)

        assert (after.rhythm, after.timezone, after.next_at) == ("30 7 * * *", "Asia/Tokyo", before.next_at)
        assert (after.edited, after.misfire) == (("rhythm", "timezone"), "skip")

        await app.schedules.alter("report", reset=["rhythm", "timezone"])
        back = await report_of(app)
        assert (back.rhythm, back.timezone, back.edited) == (DAILY, "Europe/Berlin", ())
        assert back.next_at != before.next_at


async def test_a_changed_rhythm_is_reckoned_anew_and_a_changed_policy_is_not(start: Start) -> None:
    async with start(DAILY) as app:
        first = await report_of(app)
    async with start(DAILY, overlap="queue") as app:
        second = await report_of(app)
    async with start("15 * * * *", overlap="queue") as app:
        third = await report_of(app)

    assert (second.next_at, second.overlap, second.revision) == (first.next_at, "queue", first.revision + 1)
    assert third.next_at is not None
    assert (third.next_at.minute, third.revision) == (15, second.revision + 1)
    assert third.next_at - datetime.now(UTC) <= timedelta(hours=1)


async def test_an_older_version_of_the_app_overwrites_nothing(start: Start) -> None:
    async with start(DAILY, version=2) as new, start(HOURLY, version=1) as old:
        assert (await report_of(new)).rhythm == DAILY
        assert (await report_of(old)).rhythm == DAILY
    async with start(HOURLY, version=1) as old:
        assert (await report_of(old)).rhythm == DAILY
    async with start(HOURLY, version=3) as newer:
        assert (await report_of(newer)).rhythm == HOURLY


async def test_two_apps_have_their_own_schedules_on_one_database(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    shop, billing = Seen[str](), Seen[str]()
    tenth = every("100ms")
    async with (
        start(tenth, lambda ctx: shop.add(ctx.schedule or ""), schedule="sweep") as first,
        start(tenth, lambda ctx: billing.add(ctx.schedule or ""), app="billing", schedule="invoice") as second,
    ):
        await shop.count(2)
        await billing.count(2)
        assert [view.name for view in await first.schedules.list(app="shop")] == ["sweep"]
        assert [view.name for view in await second.schedules.list(app="billing")] == ["invoice"]
        assert [view.name for view in await second.schedules.list()] == ["invoice", "sweep"]

        await first.schedules.freeze(reason="incident")
        assert (await report_of(second, "sweep")).state == "frozen"
        assert (await report_of(second, "invoice")).state == "active"
        await billing.count(len(billing.items) + 2)
    assert set(shop.items) == {"sweep"}
    assert set(billing.items) == {"invoice"}


async def test_a_name_that_another_app_has_is_complained_about_and_left(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mainspring.worker"):
        async with start(DAILY) as first, start(HOURLY, app="billing"):
            view = await report_of(first)

    assert (view.app, view.rhythm) == ("shop", DAILY)
    assert "schedule report: it belongs to the app 'shop': give it another name=…" in caplog.text


async def test_one_made_at_run_time_survives_too_and_is_not_taken_by_code(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async with start(DAILY) as app:
        await app.schedules.put("by.hand", every("1h"), "shop.report")
        with pytest.raises(errors.BadOption, match="is defined by code"):
            await app.schedules.put("report", every("1h"), "shop.report")
        with pytest.raises(errors.BadOption, match=r"is in the code of worker .* which would declare it again"):
            await app.schedules.delete("report")
    async with start(DAILY, schedule="by.hand") as app:
        view = await report_of(app, "by.hand")
        assert (view.origin, view.rhythm) == ("api", "every 1h")
        assert "a schedule of this name was created at run time" in caplog.text
        await app.schedules.delete("by.hand")
        assert await app.schedules.get("by.hand") is None


async def test_an_edit_elsewhere_reaches_a_worker_that_sleeps(start: Start, url: str, postgres_schema: str) -> None:
    seen = Seen[Context]()
    async with start(DAILY, seen.add), Mainspring(url, name="shop", schema=postgres_schema) as elsewhere:
        assert seen.items == []

        await elsewhere.schedules.alter("report", every("100ms"))

        assert (await seen.count(1))[0].cron == "every 100ms"


async def test_a_schedule_that_the_next_release_lacks_stops_and_can_be_deleted(start: Start) -> None:
    async with start(HOURLY, schedule="old") as app:
        with pytest.raises(errors.BadOption, match="'old' is in the code of worker shop/"):
            await app.schedules.delete("old")

    async with start(HOURLY) as app:

        async def is_retired() -> bool:
            return (await report_of(app, "old")).retired_at is not None

        await eventually(is_retired)
        await app.schedules.delete("old")
        assert await app.schedules.get("old") is None


async def test_what_no_code_has_any_more_can_be_deleted_before_it_is_retired(
    start: Start, url: str, schema: str
) -> None:
    async with start(HOURLY, schedule="old", version=2):
        pass

    async with Mainspring(url, name="shop", schema=schema) as app:  # it neither has it nor is newer
        await app.schedules.delete("old")
        assert await app.schedules.get("old") is None


async def test_it_is_triggered_in_the_first_line_of_a_workers_block(url: str, schema: str) -> None:
    app, seen = Mainspring(url, name="shop", schema=schema, auto_migrate=True), Seen[Context]()

    @app.recurring(DAILY)
    async def report(ctx: Context) -> None:
        seen.add(ctx)

    async with app.worker():
        await app.schedules.trigger("report")
        (ctx,) = await seen.count(1)

    assert ctx.schedule == "report"
