"""What daylight saving does to the times of a rhythm, told beside each of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.app.schedule.view import preview
from mainspring.dashboard.api.schedules import instants
from tests.dashboard.scene import Scene


def _told(rhythm: str, zone: str, after: datetime, count: int, **options: Any) -> list[tuple[str, str, str | None]]:
    seen = preview(rhythm, count, after=after, timezone=zone, **options)
    return [(each.local, each.offset, each.note) for each in instants(seen.times, seen.after)]


def test_the_day_on_which_clocks_go_forward_is_told() -> None:
    told = _told("0 9 * * *", "Europe/Berlin", datetime(2027, 3, 27, tzinfo=UTC), 3)

    assert told == [
        ("2027-03-27T09:00:00", "+01:00", None),
        ("2027-03-28T09:00:00", "+02:00", "clocks go forward 1h at 02:00"),
        ("2027-03-29T09:00:00", "+02:00", None),
    ]


def test_the_day_on_which_clocks_go_back_is_told() -> None:
    told = _told("0 9 * * *", "America/New_York", datetime(2026, 10, 31, 12, tzinfo=UTC), 2)

    assert told == [
        ("2026-10-31T09:00:00", "-04:00", None),
        ("2026-11-01T09:00:00", "-05:00", "clocks go back 1h at 02:00"),
    ]


def test_a_change_between_two_times_is_told_with_its_day() -> None:
    told = _told("0 9 1 * *", "Europe/Berlin", datetime(2026, 10, 2, tzinfo=UTC), 1)

    assert told == [("2026-11-01T09:00:00", "+01:00", "clocks go back 1h on 2026-10-25 at 03:00")]


def test_a_time_that_comes_twice_says_which_one_it_is() -> None:
    told = _told("30 2 * * *", "Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), 1)

    assert told == [("2026-10-25T02:30:00", "+02:00", "02:30 occurs twice: this is the first")]


def test_utc_has_nothing_to_tell() -> None:
    told = _told("0 0 1 * *", "UTC", datetime(2026, 1, 15, tzinfo=UTC), 12)

    assert {note for *_, note in told} == {None}
    assert {offset for _, offset, _ in told} == {"+00:00"}


@pytest.mark.parametrize("rhythm", ["61 * * * *", "0 9 31 2 *", "every 1ms", "nonsense", "0 9 * * * * * *"])
async def test_a_rhythm_that_cannot_be_meant_is_answered_with_what_is_wrong(scene: Scene, rhythm: str) -> None:
    async with scene.viewer() as client:
        answer = await client.get("/api/preview", params={"rhythm": rhythm})

    assert answer.status_code == 200
    assert answer.json()["error"]
    assert answer.json()["next"] == []


async def test_a_rhythm_is_told_in_words_and_with_its_next_times(scene: Scene) -> None:
    async with scene.viewer() as client:
        asked = {"rhythm": "0 9 * * mon-fri", "timezone": "Europe/Berlin", "count": "3"}
        seen = (await client.get("/api/preview", params=asked)).json()

    assert seen["description"] == "At 09:00, Monday through Friday"
    assert len(seen["next"]) == 3
    assert seen["error"] is None


async def test_a_zone_that_is_none_is_told(scene: Scene) -> None:
    async with scene.viewer() as client:
        seen = (await client.get("/api/preview", params={"rhythm": "@daily", "timezone": "Europe/Berlim"})).json()

    assert "Europe/Berlin" in seen["error"]


DECEMBER = {"start": "2030-12-23T00:00:00Z", "end": "2030-12-31T00:00:00Z"}


async def _days(scene: Scene, **asked: str) -> list[str]:
    async with scene.viewer() as client:
        seen = (await client.get("/api/preview", params={"count": "10", **DECEMBER, **asked})).json()
    return [each["local"][8:10] for each in seen["next"]]


async def test_the_days_the_start_and_the_end_are_honoured(scene: Scene) -> None:
    days = {"workdays": "mon-fri", "holidays": "2030-12-25, 2030-12-26"}

    assert await _days(scene, rhythm="0 9 * * *") == ["23", "24", "25", "26", "27", "28", "29", "30"]
    assert await _days(scene, rhythm="0 9 * * *", **days) == ["23", "24", "27", "30"]


async def test_what_is_omitted_is_as_in_the_schedule_that_is_named(scene: Scene) -> None:
    @scene.app.recurring("0 9 * * *", workdays=lambda day: day.weekday() < 2, holidays=["2030-12-24"])
    async def early() -> None: ...

    await scene.app.declare()

    assert await _days(scene, name="early") == ["23", "30"]
    assert await _days(scene, name="early", holidays="none") == ["23", "24", "30"]
    assert await _days(scene, name="early", workdays="thu") == ["26"]


async def test_an_edit_that_is_dropped_is_not_looked_ahead_with(scene: Scene) -> None:
    await scene.app.schedules.alter("weekly", "0 9 * * *", workdays="sun")

    assert await _days(scene, name="weekly") == ["29"]
    assert await _days(scene, name="weekly", reset="workdays", workdays="") == [str(day) for day in range(23, 31)]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"rhythm": "0 9 * * *", "workdays": "DE"}, "workdays='mon-fri' and holidays='DE'"),
        ({"rhythm": "0 9 * * *", "holidays": "someday"}, "holidays='someday' is neither a weekday"),
        ({"rhythm": "0 9 * * *", "end": "2020-01-01T00:00:00Z", "start": "2019-01-01T00:00:00Z"}, "has passed"),
        ({"rhythm": "0 9 * * sat", "holidays": "sat"}, "its holidays leave no day"),
        ({"name": "weeky"}, "Did you mean 'weekly'?"),
        ({}, "rhythm is missing"),
    ],
)
async def test_days_and_names_that_cannot_be_meant_are_told(scene: Scene, asked: dict[str, str], told: str) -> None:
    async with scene.viewer() as client:
        seen = (await client.get("/api/preview", params=asked)).json()

    assert told in seen["error"]
    assert seen["next"] == []
