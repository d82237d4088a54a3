"""Schedules as people see them on a terminal and in a pipe, printed by this very process."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Mainspring, ScheduleView, every
from mainspring.cli.output import Column, fit
from mainspring.cli.schedules import is_overdue, list_, print_schedule
from mainspring.cli.target import Target


def make(url: str, name: str) -> Mainspring:
    app = Mainspring(url, name=name)

    @app.recurring("0 9 13 * fri", group=f"{name}.of.the.thirteenth", timezone="America/Argentina/ComodRivadavia")
    async def unlucky() -> None: ...

    @app.recurring(every("1h"), group=f"{name}.sweep")
    async def sweep() -> None: ...

    return app


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A database with the schedules of an app that no worker serves."""
    url = f"sqlite:///{tmp_path}/shop.db"
    await make(url, "shop").declare()
    return url


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns wide."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def view(**fields: object) -> ScheduleView:
    app = make("memory://", "shop")
    with app.testing():
        found = app.sync.schedules.get("shop.sweep")
    assert found is not None
    return replace(found, **fields)  # type: ignore[arg-type]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.usefixtures("terminal")
async def test_a_long_name_cuts_neither_the_rhythm_nor_the_last_run(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await list_(target=Target(url=url))

    shown = plain(capsys.readouterr().out)
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert "…" not in shown
    words = shown.split()
    assert {"shop.of.the.thirteenth", "never", "fri", "1h"} <= set(words)


async def test_whose_a_schedule_is_is_listed_where_there_are_several_apps(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await list_(target=Target(url=url))
    alone = capsys.readouterr().out.splitlines()
    await make(url, "billing").declare()
    await list_(target=Target(url=url))
    together = capsys.readouterr().out.splitlines()

    assert alone[0].split()[:2] == ["SCHEDULE", "STATE"]
    assert [line.split()[:2] for line in together] == [
        ["APP", "SCHEDULE"],
        ["billing", "billing.of.the.thirteenth"],
        ["billing", "billing.sweep"],
        ["shop", "shop.of.the.thirteenth"],
        ["shop", "shop.sweep"],
    ]


def test_what_no_worker_fires_is_overdue_after_ten_seconds() -> None:
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)

    assert not is_overdue(view(next_at=now - timedelta(seconds=10)), now)
    assert is_overdue(view(next_at=now - timedelta(seconds=11)), now)
    assert not is_overdue(view(next_at=now - timedelta(days=1), state="paused"), now)
    assert not is_overdue(view(next_at=None, state="finished"), now)


def test_one_that_is_overdue_says_so_and_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    late = view(next_at=datetime.now(UTC) - timedelta(hours=3, minutes=30))

    print_schedule(late, [], [], " --app shop:app")

    assert (
        "overdue   it was due 3h ago, and no worker of shop has fired it: mainspring health --app shop:app\n"
        in capsys.readouterr().out
    )


def test_days_off_stand_beside_the_words_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    days = ("country:DE-BY", "2026-12-24", "code:shop.is_stocktaking")

    print_schedule(view(holidays=days, workdays=("mon-fri",)), [], [], "")

    facts, table = capsys.readouterr().out.split("sources\n")
    assert "\nin words  Every hour\nonly on   mon-fri\nnot on    DE-BY, 2026-12-24, shop.is_stocktaking\n" in facts
    assert re.search(r"^holidays +DE-BY, 2026-12-24, shop\.is_stocktaking +default$", table, re.MULTILINE)
    assert re.search(r"^start +none +default$", table, re.MULTILINE)


@pytest.mark.usefixtures("terminal")
def test_many_days_off_are_continued_on_the_next_line(capsys: pytest.CaptureFixture[str]) -> None:
    days = tuple(f"2026-12-{day:02d}" for day in range(1, 32))

    print_schedule(view(holidays=days), [], [], "")

    table = plain(capsys.readouterr().out).split("sources\n")[1]
    assert all(day in table for day in days)
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80


def test_a_wide_column_without_room_leaves_it_to_the_narrow_ones_after_it() -> None:
    columns: list[Column[object]] = [Column("name"), Column("zone", spare=True), Column("took", spare=True)]

    widths, _ = fit(columns, [["x" * 10, "y" * 30, "5ms"]], 20)

    assert widths == {0: 10, 2: 4}
