"""Schedules in a SQLAlchemy session that is rolled back: they fire, are steered, and leave nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mainspring import Context, Mainspring, errors, every, intervals
from tests.integration.testing.counting import new_rows, rows_on_postgres, rows_on_sqlite

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Place:
    """A database with the tables of an app that has schedules."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.app = app = Mainspring(url, name="clinic", schema=schema)
        app.sync.migrate()
        app.sync.close()

        @app.recurring("0 * * * *", retry=intervals("15m"), overlap="queue")
        async def hourly(ctx: Context) -> None:
            assert ctx.scheduled_for is not None
            await ctx.publish("mail", ctx.scheduled_for.hour)
            if ctx.attempt == 1 and ctx.scheduled_for.hour == 14:
                raise ConnectionError("at two")

        @app.consumer("mail")
        def mail(hour: int) -> None: ...

    def address(self, driver: str) -> str:
        return self.url.replace("://", f"+{driver}://") if driver != "sqlite" else self.url

    @contextmanager
    def leaving_nothing(self, what: str) -> Iterator[None]:
        before = self._rows()
        yield
        left = new_rows(before, self._rows())
        print(f"\n{what}, rows left: {sum(left.values())} in {len(left)} tables")
        assert any(table.endswith("schedule") for table in left)
        assert set(left.values()) == {0}, left

    def _rows(self) -> dict[str, int]:
        if self.url.startswith("sqlite"):
            return rows_on_sqlite(self.url.removeprefix("sqlite:///"))
        return rows_on_postgres(self.url)


@pytest.fixture
def place(driver: str, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Place:
    if driver in ("sqlite", "aiosqlite"):
        return Place(f"sqlite:///{tmp_path}/clinic.db", "mainspring")
    return Place(postgres_url, postgres_schema)


@pytest.mark.parametrize("driver", ["sqlite", "psycopg"])
def test_a_session_that_is_rolled_back_leaves_no_schedule(place: Place, driver: str) -> None:
    app, schedules = place.app, place.app.sync.schedules
    engine = create_engine(place.address(driver), poolclass=NullPool)

    with place.leaving_nothing(f"Session on {driver}"), Session(engine) as session:
        with app.testing(tx=session, start=NOON) as kit:
            kit.sync.advance("3h")
            assert [(run.at - NOON) / HOUR for run in kit.runs if run.group == "hourly"] == [1, 2, 2.25, 3]
            assert [run.payload for run in kit.delivered("mail")] == [13, 14, 15]

            schedules.pause("hourly", tx=session)
            schedules.put("often", every("20m"), "mail", 0, tx=session)
            schedules.trigger("hourly", tx=session)
            missed = schedules.backfill("hourly", NOON - 4 * HOUR, NOON - 2 * HOUR, tx=session)
            kit.sync.advance("1h")
            assert [at.hour for at in missed] == [8, 9, 10]
            assert len(kit.delivered("hourly")) == 3 + 1 + 3
            assert [run.schedule for run in kit.delivered("mail")].count("often") == 3
            assert {sent.schedule for sent in kit.published()} == {None, "hourly", "often"}
            assert len(schedules.runs("hourly")) == 4 + 1 + 3
        session.rollback()


@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg"])
async def test_an_async_session_that_is_rolled_back_leaves_no_schedule(place: Place, driver: str) -> None:
    app, schedules = place.app, place.app.schedules
    engine = create_async_engine(place.address(driver), poolclass=NullPool)

    with place.leaving_nothing(f"AsyncSession on {driver}"):
        async with AsyncSession(engine) as session, app.testing(tx=session, start=NOON) as kit:
            await kit.advance("3h")
            assert [(run.at - NOON) / HOUR for run in kit.runs if run.group == "hourly"] == [1, 2, 2.25, 3]

            await schedules.alter("hourly", "30 * * * *", tx=session)
            await schedules.once("later", NOON + 4 * HOUR, "mail", 0)
            await kit.advance("1h")
            assert [run.at.minute for run in kit.delivered("hourly")][-1:] == [30]
            assert [run.schedule for run in kit.delivered("mail")][-1:] == ["later"]
            receipt = await schedules.trigger("hourly", tx=session)
            assert receipt.id in {sent.id for sent in kit.published("hourly")}
            view = await schedules.get("hourly")
            assert view is not None
            assert (view.fired, view.edited) == (4, ("rhythm",))
            await session.rollback()


@pytest.mark.parametrize("driver", ["sqlite", "psycopg"])
def test_what_came_due_while_a_handler_ran_met_it_running(place: Place, driver: str) -> None:
    app = place.app
    engine = create_engine(place.address(driver), poolclass=NullPool)

    with place.leaving_nothing(f"a slow run on {driver}"), Session(engine) as session:
        with app.testing(tx=session, start=NOON) as kit:

            @app.recurring("0 * * * *", timeout="1d")
            def slow() -> None:
                if not kit.delivered("slow"):
                    kit.elapse("150m")

            kit.sync.advance("5h")

            assert [(run.at - NOON) / HOUR for run in kit.delivered("slow")] == [3.5, 4, 5]
            view = app.sync.schedules.get("slow")
            assert view is not None
            assert (view.fired, view.skipped, view.missed) == (3, 2, 0)
        session.rollback()


@pytest.mark.parametrize("driver", ["psycopg"])
def test_a_trigger_in_another_transaction_is_refused(place: Place, driver: str) -> None:
    engine = create_engine(place.address(driver), poolclass=NullPool)

    with place.leaving_nothing("another Session"), Session(engine) as session, Session(engine) as other:
        with place.app.testing(tx=session, start=NOON), pytest.raises((errors.BadHandle, errors.BadOption)):
            place.app.sync.schedules.trigger("hourly", tx=other)
        session.rollback()
        other.rollback()
