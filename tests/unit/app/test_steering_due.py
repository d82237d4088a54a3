"""Changes to a schedule whose occurrence has come and was not fired yet, and to one that is made once more."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring, errors
from mainspring.timing.cron import Cron

LATE = datetime(2026, 1, 1, 9, tzinfo=UTC)
PASSED = "at 2020-01-01T00:00:00+00:00"


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")

    @app.consumer("mail", group="mailer")
    async def mail(to: str | None, ctx: Context) -> None: ...

    async with app:
        await app.schedules.put("report", "0 9 * * *", "mailer", "ada")
        await make_late(app)
        yield app


async def make_late(app: Mainspring) -> None:
    """As if no worker had been there at nine."""
    storage = await app._connection.storage("a test")  # no verb puts a schedule into the past
    await storage.timetable.rewrite(["report"], lambda _name, row, _now: row and replace(row, next_at=LATE))


async def next_at(app: Mainspring) -> datetime | None:
    view = await app.schedules.get("report")
    assert view is not None
    return view.next_at


async def test_put_once_more_alike_changes_nothing(app: Mainspring) -> None:
    before = await app.schedules.get("report")

    await app.schedules.put("report", "0 9 * * *", "mailer", "ada")

    assert await app.schedules.get("report") == before
    assert len(await app.audit()) == 1


@pytest.mark.parametrize("options", [{"overlap": "queue"}, {"priority": "low"}, {"misfire": "all"}], ids=str)
async def test_what_is_due_stays_due_where_the_times_stay_as_they_are(app: Mainspring, options: dict[str, Any]) -> None:
    await app.schedules.put("report", "0 9 * * *", "mailer", "grace")
    assert await next_at(app) == LATE

    await app.schedules.alter("report", **options)
    assert await next_at(app) == LATE

    await app.schedules.alter("report", reset=[*options])
    assert await next_at(app) == LATE


async def test_another_rhythm_counts_from_now_on(app: Mainspring) -> None:
    now = datetime.now(UTC)

    await app.schedules.alter("report", "0 10 * * *")

    at = await next_at(app)
    assert at is not None
    assert at > now
    assert at.hour == 10


async def test_a_time_that_has_passed_is_no_rhythm(app: Mainspring) -> None:
    with pytest.raises(errors.BadOption, match="'past' is never due: 'at 2020-01-01T00:00:00"):
        await app.schedules.put("past", PASSED, "mailer")
    with pytest.raises(errors.BadOption, match="'report' is never due: 'at 2020-01-01T00:00:00"):
        await app.schedules.alter("report", PASSED)

    assert await next_at(app) == LATE


async def test_a_cron_that_was_read_already_is_not_contradicted(app: Mainspring) -> None:
    with pytest.raises(errors.BadOption, match=r"day_match='or', and Cron\('0 0 13 \* fri'\) has 'and': leave out"):
        await app.schedules.put("odd", Cron("0 0 13 * fri"), "mailer", day_match="or")

    view = await app.schedules.put("odd", Cron("0 0 13 * fri", day_match="or"), "mailer", day_match="or")
    assert view.day_match == "or"


def test_once_runs_again_after_it_was_removed_and_made_anew() -> None:
    app = Mainspring("memory://", name="shop")

    @app.consumer("mail", group="mailer")
    async def mail(to: str | None, ctx: Context) -> None: ...

    with app.testing(start=LATE) as kit:
        for _ in range(2):
            app.sync.schedules.once("trial", LATE - timedelta(hours=1), "mailer", past="run")
            kit.sync.advance("1m")
            app.sync.schedules.delete("trial")

        assert [ran.schedule for ran in kit.delivered("mailer")] == ["trial", "trial"]
