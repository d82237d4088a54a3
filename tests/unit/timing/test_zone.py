"""Zones by name, on a host that has a time zone database and on one that has none."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, reset_tzpath

import pytest

from mainspring.timing.calendar import zone
from mainspring.timing.cron import Cron


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [each for each in sys.modules if each.partition(".")[0] == "tzdata"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    reset_tzpath(())
    ZoneInfo.clear_cache()
    yield
    reset_tzpath()
    ZoneInfo.clear_cache()


def test_a_zone_is_that_of_the_database() -> None:
    assert zone("Europe/Berlin") is ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../../etc/passwd", "", "a\0b"])
def test_what_is_no_zone_is_told(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not in the time zone database$"):
        zone(name)


@pytest.mark.usefixtures("no_database")
def test_utc_needs_no_database() -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        ZoneInfo("UTC")

    found = zone("UTC")

    noon = datetime(2026, 6, 1, 12, tzinfo=found)
    assert (found.key, noon.utcoffset(), noon.tzname(), noon.dst()) == ("UTC", timedelta(), "UTC", timedelta())
    assert noon == datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert Cron("0 9 * * *").next(noon) == datetime(2026, 6, 2, 9, tzinfo=UTC)


@pytest.mark.usefixtures("no_database")
def test_without_a_database_it_is_said_where_to_get_one() -> None:
    with pytest.raises(ValueError, match=r"'Europe/Berlin' is not in the .* this host has none: pip install tzdata"):
        zone("Europe/Berlin")
