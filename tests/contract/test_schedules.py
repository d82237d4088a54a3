"""The rows of the timetable: written as a whole, read as they were written, and frozen."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mainspring.model.schedule import Freeze, Note, Schedule
from mainspring.model.worker import Declarer
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, MINUTE, NOON, TICK, siblings, turn
from tests.contract.scheduling import NAME, NOTE, edit, keep, kept, look, remove, schedule

ODD_NAMES = ["Jürgen's «nightly»", 'say "hi"; --', "a%b_c\\d", "夜🌙", " ", "x" * 200, "$1 ?1 :name %s {}", "A", "a"]
ODD_LAYER: dict[str, Any] = {
    "text": "NUL \x00, quote \" ' \\, emoji 🌙, tab \t",
    "": "no name",
    "numbers": [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, 1e300, -0.001],
    "nested": {"a": [{"b": [[], {}, None, True, False]}], "ü": {"deep": {"deeper": {"deepest": "x"}}}},
}


async def audited(storage: Storage) -> list[tuple[str, str, str, str]]:
    notes = await storage.ledger.audit(None, 100)
    return [(note.by, note.action, note.subject, note.detail) for note in reversed(notes)]


@pytest.mark.memory
async def test_a_row_is_read_as_it_was_written(storage: Storage) -> None:
    row = schedule(
        origin="api",
        overrides={"tz": "Europe/Berlin"},
        edits={"cron": "0 5 * * *"},
        version=2**40,
        paused_at=NOON - MINUTE,
        paused_by="ann",
        pause_reason="too loud",
        retired_at=NOON + TICK,
        fired=1,
        missed=2,
        skipped=3,
    )

    (stored,) = await storage.timetable.rewrite([NAME], lambda _name, _known, _now: row)

    assert stored == await kept(storage) == row
    assert (await kept(storage)).layers == {"cron": "0 5 * * *", "tz": "Europe/Berlin"}


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_odd_names_and_layers_are_kept_as_they_are(storage: Storage, name: str) -> None:
    row = schedule(name, definition=ODD_LAYER, overrides=ODD_LAYER["nested"], edits={"a": ODD_LAYER})
    await keep(storage, row)

    await look(storage)

    stored = await kept(storage, name)
    assert stored == replace(row, base_at=NOON, next_at=NOON + HOUR, fired=1)
    assert (await edit(storage, name, edits={})).revision == 1
    await storage.timetable.declare("shop", 0, [name], Declarer("shop/a", "1"))
    await remove(storage, name)
    assert (await storage.timetable.read()).schedules == ()


async def test_who_rewrites_is_told_what_is_there_and_what_time_it_is(storage: Storage) -> None:
    await keep(storage, schedule("a"))
    asked: list[tuple[str, Schedule | None, datetime]] = []

    def how(name: str, known: Schedule | None, now: datetime) -> Schedule | None:
        asked.append((name, known, now))
        return known

    turn(storage, MINUTE)
    stored = await storage.timetable.rewrite(["b", "a", "b"], how, NOTE)

    assert sorted(asked, key=lambda each: each[0]) == [
        ("a", schedule("a"), NOON + MINUTE),
        ("b", None, NOON + MINUTE),
    ]
    assert stored == [None, schedule("a"), None]
    assert await audited(storage) == []


async def test_a_rewrite_counts_the_revision_and_keeps_when_it_was_created(storage: Storage) -> None:
    await keep(storage, schedule())
    created = (await kept(storage)).created_at

    first = await edit(storage, edits={"jitter": 1})
    second = await edit(storage, edits={"jitter": 2}, revision=77, created_at=NOON)

    assert (first.revision, second.revision) == (1, 2)
    assert await kept(storage) == second == replace(schedule(), edits={"jitter": 2}, revision=2, created_at=created)


async def test_the_very_row_is_not_written(storage: Storage) -> None:
    await keep(storage, schedule())

    stored = await storage.timetable.rewrite([NAME], lambda _name, known, _now: known, NOTE)

    assert stored == [schedule()]
    assert (await kept(storage)).revision == 0
    assert await audited(storage) == []


async def test_occurrences_that_pass_do_not_count_as_revisions(storage: Storage) -> None:
    await keep(storage, schedule())

    await look(storage)

    assert (await kept(storage)).revision == 0


async def test_several_rows_are_added_changed_and_removed_as_one_each_with_a_note(storage: Storage) -> None:
    await keep(storage, schedule("changed"), schedule("removed"), schedule("same"))
    wanted = {"added": schedule("added"), "changed": schedule("changed", edits={"x": 1}), "removed": None}

    stored = await storage.timetable.rewrite(
        ["removed", "same", "changed", "added"],
        lambda name, known, _now: wanted.get(name, known),
        Note("ann", "import", "from a file"),
    )

    assert [row and (row.name, row.revision) for row in stored] == [None, ("same", 0), ("changed", 1), ("added", 0)]
    assert [row.name for row in (await storage.timetable.read()).schedules] == ["added", "changed", "same"]
    assert await audited(storage) == [
        ("ann", "import", name, "from a file") for name in ("added", "changed", "removed")
    ]


async def test_a_rewrite_that_fails_leaves_nothing_behind(storage: Storage) -> None:
    await keep(storage, schedule("a"))

    def how(name: str, known: Schedule | None, _now: datetime) -> Schedule:
        if name == "c":
            raise ZeroDivisionError
        return replace(known or schedule(name), edits={"x": 1})

    with pytest.raises(ZeroDivisionError):
        await storage.timetable.rewrite(["a", "b", "c"], how, NOTE)

    assert (await storage.timetable.read()).schedules == (schedule("a"),)
    assert await audited(storage) == []


async def test_many_who_add_the_same_names_at_once_add_them_once(storage: Storage) -> None:
    def how(name: str, known: Schedule | None, _now: datetime) -> Schedule:
        return known or schedule(name)

    names = ["a", "b", "c"]
    async with siblings(storage, 4) as doors:
        answers = await asyncio.gather(
            *(door.timetable.rewrite(names[::step], how, NOTE) for door in doors for step in (1, -1))
        )

    for step, answer in zip((1, -1) * 4, answers, strict=True):
        assert answer == [schedule(name) for name in names[::step]]
    assert (await storage.timetable.read()).schedules == tuple(schedule(name) for name in names)
    assert sorted(await audited(storage)) == [("ann", "edit", name, "because") for name in names]


async def test_changes_that_cross_are_all_counted(storage: Storage) -> None:
    await keep(storage, schedule())

    def how(_name: str, known: Schedule | None, _now: datetime) -> Schedule:
        assert known is not None
        return replace(known, edits={"count": known.edits.get("count", 0) + 1})

    async with siblings(storage, 4) as doors:
        await asyncio.gather(*(door.timetable.rewrite([NAME], how) for door in doors for _ in range(3)))

    row = await kept(storage)
    assert (row.edits, row.revision) == ({"count": 12}, 12)


async def test_a_sheet_has_what_was_asked_for_by_name(storage: Storage) -> None:
    await keep(storage, schedule("b"), schedule("A", app="crm"), schedule("a"), schedule("ä"), schedule("c", app="crm"))

    async def read(*asked: Any) -> list[str]:
        return [row.name for row in (await storage.timetable.read(*asked)).schedules]

    assert await read() == ["A", "a", "b", "c", "ä"]
    assert await read(None, "crm") == ["A", "c"]
    assert await read(["c", "b", "of no schedule"]) == ["b", "c"]
    assert await read(["c", "b"], "crm") == ["c"]
    assert await read([]) == await read(None, "of no app") == []
    assert (await storage.timetable.read([])).now == NOON


async def test_freezes_are_on_the_sheet_and_in_the_audit(storage: Storage) -> None:
    timetable = storage.timetable
    await timetable.freeze("shop", "ann", "first")
    turn(storage, MINUTE)
    await timetable.freeze("shop", "bob", "second, \x00 and 🌙")
    await timetable.freeze("", "ann", "all of it")

    sheet = await timetable.read(["of no schedule"])

    assert sheet.freezes[0] == Freeze("", NOON + MINUTE, "ann", "all of it")
    assert (sheet.freezes[1].app, sheet.freezes[1].at, sheet.freezes[1].by) == ("shop", NOON + MINUTE, "bob")
    assert [await timetable.thaw("", "cid"), await timetable.thaw("", "cid")] == [True, False]
    assert [freeze.app for freeze in (await timetable.read()).freezes] == ["shop"]
    assert [note[:3] for note in await audited(storage)] == [
        ("ann", "freeze", "shop"),
        ("bob", "freeze", "shop"),
        ("ann", "freeze", "*"),
        ("cid", "thaw", "*"),
    ]
