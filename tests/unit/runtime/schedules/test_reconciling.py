"""What the code of an app makes of the rows that are there."""

import logging
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest

from mainspring.model.schedule import Schedule
from mainspring.runtime.schedules.declarations import Declared, reconciled
from tests.unit.runtime.schedules.making import DAY, HOUR, MINUTE, NOON

HOURLY = {"rhythm": "0 * * * *", "topic": "report", "group": "report"}
NINE = {**HOURLY, "rhythm": "0 9 * * *"}


class Node:
    """A process of the shop, with what its code declares."""

    def __init__(self, version: int = 0, **declared: dict[str, Any] | Declared) -> None:
        self.complaints: list[tuple[str, str]] = []
        known = {name: each if isinstance(each, Declared) else Declared(dict(each)) for name, each in declared.items()}
        self._how = reconciled(known, "shop", version, lambda name, why: self.complaints.append((name, why)))

    def sees(self, row: Schedule | None, now: datetime = NOON) -> Schedule | None:
        return self._how("report", row, now)

    def writes(self, row: Schedule | None, now: datetime = NOON) -> Schedule:
        made = self.sees(row, now)
        assert made is not None
        assert made is not row
        return made


def there(**fields: Any) -> Schedule:
    """The row as an hour ago's start of the same code left it."""
    given: dict[str, Any] = {"definition": dict(HOURLY), "next_at": NOON + 30 * MINUTE, **fields}
    return Schedule(
        "report", given.pop("app", "shop"), given.pop("origin", "code"), given.pop("definition"), NOON - DAY,
        NOON - HOUR, given.pop("base_at", NOON - HOUR), **given,
    )  # fmt: skip


def settled() -> Schedule:
    """What is there when the same code has just started at noon."""
    return Node(report=HOURLY).writes(None)


def test_a_new_one_is_due_at_its_next_time() -> None:
    made = Node(version=3, report=Declared(HOURLY, {"timezone": "Asia/Kolkata"})).writes(None)

    assert (made.name, made.app, made.origin, made.version, made.revision) == ("report", "shop", "code", 3, 0)
    assert (made.created_at, made.declared_at, made.base_at) == (NOON, NOON, NOON)
    assert made.next_at == NOON + 30 * MINUTE  # India is half an hour off
    assert (made.definition, made.overrides, made.edits) == (HOURLY, {"timezone": "Asia/Kolkata"}, {})


def test_the_same_is_not_written() -> None:
    row = settled()

    assert Node(report=HOURLY).sees(row, NOON + 10 * MINUTE) is row


@pytest.mark.parametrize(
    "layer",
    [
        Declared(NINE),
        Declared(HOURLY, {"rhythm": "0 9 * * *"}),
    ],
)
def test_another_rhythm_is_reckoned_from_now(layer: Declared) -> None:
    made = Node(report=layer).writes(settled(), NOON + 10 * MINUTE)

    assert made.next_at == datetime(2026, 6, 2, 9, tzinfo=NOON.tzinfo)
    assert made.base_at == NOON + 10 * MINUTE


@pytest.mark.parametrize("when", ["timezone", "day_match", "on_gap", "start", "end", "holidays", "workdays"])
def test_every_field_that_says_when_has_the_next_time_reckoned_anew(when: str) -> None:
    value = {
        "timezone": "Asia/Kolkata",
        "day_match": "or",
        "on_gap": "skip",
        "start": "2026-06-03T00:00:00+00:00",
        "end": "2027-01-01T00:00:00+00:00",
        "holidays": ["2026-06-01"],
        "workdays": ["sun"],
    }[when]

    made = Node(report={**HOURLY, when: value}).writes(settled(), NOON + 10 * MINUTE)

    assert made.base_at == NOON + 10 * MINUTE


def test_another_policy_leaves_the_next_time() -> None:
    row = there(next_at=NOON - 5 * MINUTE, base_at=NOON - HOUR)

    made = Node(report={**HOURLY, "overlap": "queue", "payload": "MQ=="}).writes(row)

    assert (made.next_at, made.base_at) == (row.next_at, row.base_at)
    assert made.layers["overlap"] == "queue"


def test_what_an_operator_has_set_is_left_and_wins() -> None:
    row = replace(
        settled(), edits={"rhythm": "30 * * * *"}, next_at=NOON + 30 * MINUTE, paused_at=NOON, paused_by="ann"
    )

    made = Node(report=NINE).writes(row)

    assert made.definition == NINE
    assert made.edits == {"rhythm": "30 * * * *"}
    assert (made.next_at, made.paused_at, made.paused_by) == (NOON + 30 * MINUTE, NOON, "ann")


def test_an_override_that_is_gone_is_gone() -> None:
    row = Node(report=Declared(HOURLY, {"rhythm": "30 * * * *"})).writes(None)

    made = Node(report=HOURLY).writes(row, NOON + MINUTE)

    assert (made.overrides, made.next_at) == ({}, NOON + HOUR)


def test_an_older_version_leaves_what_a_newer_one_has_defined() -> None:
    row = Node(version=2, report=HOURLY).writes(None)

    assert Node(version=1, report=NINE).sees(row) is row
    assert Node(version=2, report=NINE).writes(row).version == 2
    assert Node(version=3, report=HOURLY).writes(row).version == 3


def test_another_apps_is_complained_about_and_left() -> None:
    row, node = there(app="billing"), Node(report=HOURLY)

    assert node.sees(row) is row
    assert node.complaints == [("report", "it belongs to the app 'billing': give it another name=…")]


def test_one_that_was_made_at_run_time_is_complained_about_and_left() -> None:
    row, node = there(origin="api"), Node(report=HOURLY)

    assert node.sees(row) is row
    assert node.complaints == [
        ("report", "a schedule of this name was created at run time: delete that one, or give it another name=…")
    ]


def test_a_retired_one_comes_back_with_its_next_time_from_now_on() -> None:
    row = there(retired_at=NOON - DAY, next_at=NOON - 2 * DAY, fired=7)

    made = Node(report=HOURLY).writes(row)

    assert (made.retired_at, made.declared_at, made.next_at, made.fired) == (None, NOON, NOON + HOUR, 7)


def test_one_that_code_no_longer_has_is_left() -> None:
    row = settled()

    assert Node().sees(row, NOON + MINUTE) is row
    assert Node().sees(None) is None


@pytest.mark.parametrize("origin", ["code", "api"])
def test_other_rules_of_its_zone_move_the_next_time(origin: str, caplog: pytest.LogCaptureFixture) -> None:
    # The host that wrote it took Berlin to be an hour off: nine there was eight for it.
    row = there(
        origin=origin,
        definition={**NINE, "timezone": "Europe/Berlin"},
        next_at=datetime(2026, 6, 2, 8, tzinfo=NOON.tzinfo),
    )
    node = Node() if origin == "api" else Node(report={**NINE, "timezone": "Europe/Berlin"})

    with caplog.at_level(logging.WARNING, "mainspring.scheduler"):
        made = node.writes(row)

    assert made == replace(row, next_at=datetime(2026, 6, 2, 7, tzinfo=NOON.tzinfo))
    assert "report: the next occurrence is now 2026-06-02 07:00:00+00:00" in caplog.text


@pytest.mark.parametrize(
    "fields",
    [
        {"next_at": None},
        {"next_at": NOON - HOUR},
        {"paused_at": NOON - HOUR},
        {"base_at": NOON - 30 * DAY},  # reckoned from there it would have passed: none may come twice
    ],
)
def test_zones_move_nothing_that_is_due_over_or_paused(fields: dict[str, Any]) -> None:
    row = there(**{"next_at": NOON + 45 * MINUTE, **fields})

    assert Node(report=HOURLY).sees(row) is row


def test_what_this_host_cannot_follow_is_complained_about_and_left() -> None:
    row, node = settled(), Node(report={**HOURLY, "timezone": "Mars/Olympus"})

    assert node.sees(row) is row
    assert node.sees(None) is None
    assert [name for name, _ in node.complaints] == ["report", "report"]
    assert "Mars/Olympus" in node.complaints[0][1]


def test_days_that_only_code_knows_are_asked_of_the_code() -> None:
    def closed(day: date) -> bool:
        return day == NOON.date()

    made = Node(report=Declared({**HOURLY, "holidays": ["code:closed"]}, {}, {"holidays": (closed,)})).writes(None)

    assert made.next_at == datetime(2026, 6, 2, tzinfo=NOON.tzinfo)
    assert Node().sees(made) is made  # another process has no such code, and no opinion
