"""A schedule as it is shown, where its row is all there is."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from mainspring.app.schedule.view import ScheduleView, viewed
from mainspring.model.schedule import Freeze, Schedule

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
DEFINED = {"rhythm": "0 9 * * *", "topic": "report", "group": "report"}


def _shown(definition: dict[str, Any], *freezes: Freeze, **known: Any) -> ScheduleView:
    row = Schedule("report", "shop", "code", definition, NOW, NOW, NOW, next_at=NOW)
    return viewed(row, freezes, None, known or None)


def _on_mondays(day: date) -> bool:
    return day.weekday() == 0


def test_days_that_another_process_tells_do_not_break_a_schedule() -> None:
    definition = {**DEFINED, "holidays": ["code:shop.on_mondays", "sun"]}

    here = _shown(definition, holidays=(_on_mondays,))
    elsewhere = _shown(definition)

    assert (here.state, here.problem) == ("active", None)
    assert elsewhere.problem == "holidays is decided by shop.on_mondays, which this process does not have"
    assert replace(elsewhere, problem=None) == here


def test_what_nobody_can_follow_is_broken() -> None:
    view = _shown({**DEFINED, "timezone": "Mars/Olympus", "holidays": ["code:shop.on_mondays"]})

    assert (view.state, view.description) == ("broken", "")
    assert "Mars/Olympus" in (view.problem or "")


def test_every_field_says_who_has_set_it() -> None:
    row = Schedule(
        "report", "shop", "code", DEFINED, NOW, NOW, NOW, overrides={"jitter": 2.0}, edits={"rhythm": "every 5s"}
    )

    view = viewed(row, (), None, None)

    assert (view.defined, view.configured, view.edited) == (("group", "rhythm", "topic"), ("jitter",), ("rhythm",))
    assert (view.description, view.day_match, view.catch_up) == ("Every 5 seconds", "and", 100)


def test_a_freeze_of_its_app_or_of_all_is_shown_with_who_and_why() -> None:
    mine, all_, other = (Freeze(app, NOW, "ada", "we move") for app in ("shop", "", "bank"))

    for freeze in (mine, all_):
        view = _shown(DEFINED, other, freeze)
        assert (view.state, view.frozen_at, view.frozen_by, view.freeze_reason) == ("frozen", NOW, "ada", "we move")
    assert (_shown(DEFINED, other).state, _shown(DEFINED, other).frozen_at) == ("active", None)
