"""Pages of the audit and of leases: each row once, found by its words, and an end that is said."""

from collections.abc import Mapping
from typing import Any

import pytest

from mainspring.dashboard.api import audit, leases
from tests.dashboard.scene import SECRET, Scene


async def _all(client: Any, path: str, **asked: Any) -> tuple[list[dict[str, Any]], int]:
    """Every row, page by page, and how many pages that took."""
    rows: list[dict[str, Any]] = []
    pages, at = 0, None
    while pages == 0 or at is not None:
        page = (await client.get(path, params={**asked, **({} if at is None else {"cursor": at})})).json()
        rows += page["rows"]
        pages, at = pages + 1, page["cursor"]
    return rows, pages


async def _note(scene: Scene, many: int) -> None:
    for number in range(many):
        who = "ada" if number % 3 else "bert"
        await scene.app.groups.pause("ship", by=who, reason=f"number {number:02}, password={SECRET}")


@pytest.mark.parametrize(("limit", "pages"), [(4, 3), (6, 2), (12, 1), (200, 1)])
async def test_every_line_of_the_audit_is_on_one_page(scene: Scene, limit: int, pages: int) -> None:
    await _note(scene, 12 - len(await scene.actions()))

    async with scene.viewer() as client:
        rows, asked = await _all(client, "/api/audit", limit=limit)

    ids = [row["id"] for row in rows]
    assert ids == sorted(set(ids), reverse=True)
    assert (len(ids), asked) == (12, pages)


@pytest.mark.parametrize(("find", "found"), [("BERT", 4), ("number 07", 1), ("pause", 12), ("nobody", 0)])
async def test_the_audit_is_searched_in_all_that_is_shown(scene: Scene, find: str, found: int) -> None:
    await _note(scene, 12)

    async with scene.viewer() as client:
        rows, _ = await _all(client, "/api/audit", find=find, limit=3)

    assert len(rows) == found


async def test_the_audit_is_not_searched_in_what_is_masked(scene: Scene) -> None:
    await _note(scene, 3)

    async with scene.operator() as client:
        rows, _ = await _all(client, "/api/audit", find=SECRET)

    assert rows == []


async def test_a_page_ends_where_enough_was_looked_at(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_SCANNED", 4)
    monkeypatch.setattr(audit, "_AT_ONCE", 2)
    await _note(scene, 12)

    async with scene.viewer() as client:
        first = (await client.get("/api/audit", params={"find": "number 00"})).json()
        rows, pages = await _all(client, "/api/audit", find="number 00")

    assert (first["rows"], first["scanned"]) == ([], 4)
    assert len(rows) == 1
    assert pages > 2


LEASES = [f"shard-{number:02}" for number in range(11)]


@pytest.mark.parametrize(
    ("asked", "names", "pages"),
    [
        ({"limit": 5}, ["nightly", *LEASES], 3),
        ({"limit": 12}, ["nightly", *LEASES], 1),
        ({"limit": 2, "find": "SHARD-0"}, LEASES[:10], 5),
        ({"find": "night"}, ["nightly"], 1),
        ({"find": "nothing"}, [], 1),
    ],
)
async def test_every_lease_is_on_one_page(scene: Scene, asked: Mapping[str, Any], names: list[str], pages: int) -> None:
    for name in LEASES:
        await scene.app.leases.acquire(name, "1m")

    async with scene.viewer() as client:
        rows, took = await _all(client, "/api/leases", **asked)

    assert [row["name"] for row in rows] == names
    assert took == pages


async def test_a_page_of_leases_ends_where_enough_was_looked_at(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_SCANNED", 4)
    monkeypatch.setattr(leases, "_AT_ONCE", 2)
    for name in LEASES:
        await scene.app.leases.acquire(name, "1m")

    async with scene.viewer() as client:
        first = (await client.get("/api/leases", params={"find": "shard-10"})).json()
        rows, pages = await _all(client, "/api/leases", find="shard-10")

    assert (first["rows"], first["cursor"] is None, first["scanned"]) == ([], False, 4)
    assert [row["name"] for row in rows] == ["shard-10"]
    assert pages == 3


async def test_leases_are_found_by_their_holder(scene: Scene) -> None:
    held = next(iter(await scene.app.leases.list()))
    assert held.holder is not None

    async with scene.viewer() as client:
        rows, _ = await _all(client, "/api/leases", find=held.holder[-6:].upper())

    assert [row["name"] for row in rows] == ["nightly"]
