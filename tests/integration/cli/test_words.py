"""Values as people read them, and a demo whose numbers are wrong."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from mainspring import Mainspring, Retention
from mainspring.cli.demo.shop import Customers, Journal, books, build
from mainspring.cli.demo.view import add_up, print_summary
from mainspring.cli.output import Column, clean, first_line, fit, many, print_table, to_json, visible, when
from mainspring.cli.schedules import shortly

NOW = datetime(2030, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(minutes=15), "in 15m"),
        (timedelta(minutes=14, seconds=59.8), "in 15m"),
        (timedelta(minutes=14, seconds=58), "in 14m"),
        (timedelta(seconds=59.6), "in 1m"),
        (timedelta(seconds=-3.9), "3s ago"),
        (timedelta(seconds=0.4), "now"),
        (timedelta(hours=-25), "1d ago"),
        (timedelta(days=400), "in 400d"),
    ],
)
def test_an_instant_is_told_by_its_distance(away: timedelta, said: str) -> None:
    assert when(NOW + away, NOW) == said


def test_a_distance_is_that_of_instants_and_not_of_clocks() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before, after = datetime(2026, 10, 25, 2, tzinfo=berlin), datetime(2026, 10, 25, 3, tzinfo=berlin)

    assert when(after, before) == "in 2h"


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(minutes=3), "in 3m, 10:03"),
        (timedelta(seconds=5), "in 5s, 10:00:05"),
        (timedelta(days=1), "in 1d, Fri 10:00"),
        (timedelta(days=6), "in 6d, Wed 10:00"),
        (timedelta(days=7), "in 7d, 2030-02-07"),
        (timedelta(days=-1), "1d ago, 2030-01-30"),
        (timedelta(milliseconds=500), "now, 10:00"),
    ],
)
def test_a_time_to_come_is_told_in_few_words(away: timedelta, said: str) -> None:
    assert shortly((NOW + away).astimezone(ZoneInfo("Europe/Berlin")), NOW) == said


def test_durations_are_seconds_in_json_wherever_they_stand() -> None:
    kept = {"kept": [Retention(done=timedelta(minutes=1), dead=None)]}

    (values,) = json.loads(to_json(kept))["kept"]

    assert (values["done"], values["dead"]) == (60.0, None)


def test_no_instant_is_told_by_nothing() -> None:
    assert when(None) == ""


def test_text_cannot_steer_a_terminal() -> None:
    nasty = "a\x1b]0;title\x07b\r\n\tc\u202ed\x9b31m"

    assert clean(nasty) == "a]0;titleb cd31m"
    assert visible(nasty) == "a]0;titleb\n    cd31m"
    assert first_line("\n  \nTrouble \x1b[1m\nmore") == "Trouble [1m"


def test_no_cell_of_a_table_can_steer_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns: list[Column[object]] = [Column("key"), Column("note")]
    rows = [["a\x1b]0;title\x07b\u202e", "c\r\nd\x9b2J"]]

    print_table(columns, rows)
    piped = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_table(columns, rows)
    drawn = capsys.readouterr().out

    assert piped == "KEY         NOTE\na]0;titleb  c d2J\n"
    assert re.search(r"a\]0;titleb +c d2J", drawn)
    assert not re.search("[\x07\r\x9b\u202e]", drawn)


def test_counts_have_their_nouns() -> None:
    assert [many(1, "delivery", "deliveries"), many(1204, "group")] == ["1 delivery", "1,204 groups"]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Mainspring]:
    async with build(f"sqlite:///{tmp_path / 'shop.db'}", Journal()) as app:
        await app.declare()
        yield app


async def test_books_and_ledger_that_differ_are_reported(
    shop: Mainspring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.db"
    Customers(shop, path, Journal()).open_books()
    with books(path) as connection:
        connection.execute("INSERT INTO orders VALUES (1, 'Ada', 9.5)")
        connection.commit()

    account = await add_up(shop, path, Journal())
    print_summary(account, path)

    assert [finding.right for finding in account.findings] == [False, True, False, True, True]
    assert not account.right
    said = capsys.readouterr().out
    assert "✗ 3 published = 0 handled + 0 cancelled + 0 dead + 0 waiting, but that is 0" in said
    assert "The numbers do not agree" in said


ROW = ("01a1e133-d1d0-7fb5-a994-d6eb39649038", "scheduled", "payments.timeout.of.some.kind", "in 14m", "spare")
COLUMNS: tuple[Column[object], ...] = (
    Column("id"),
    Column("state"),
    Column("topic", elastic=True),
    Column("due"),
    Column("note", spare=True),
)


@pytest.mark.parametrize(
    ("room", "widths", "gap"),
    [
        (120, {0: 36, 1: 9, 2: 29, 3: 6, 4: 5}, 2),
        (90, {0: 36, 1: 9, 2: 26, 3: 6, 4: 5}, 2),
        (70, {0: 36, 1: 9, 2: 13, 3: 6}, 2),
        (64, {0: 36, 1: 9, 2: 10, 3: 6}, 1),
        (40, {0: 36, 1: 9, 2: 8, 3: 6}, 1),
    ],
)
def test_columns_fit_the_room_there_is(room: int, widths: dict[int, int], gap: int) -> None:
    assert fit(COLUMNS, [ROW], room) == (widths, gap)
