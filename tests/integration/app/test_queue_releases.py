"""Queues of two releases whose processes come and go: what one subscribes to, the other does not take away."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.model.worker import SILENT_AFTER
from tests.integration.app.measuring import Make, maker

KEPT, NEW = "jobs.a", "jobs.b"


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    """Makes an app on the test's database."""
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


async def job(make: Make, *topics: str) -> list[str]:
    """What a process does that claims once and ends in good order."""
    async with make(name="app") as app:
        queue = app.queue("jobs", *topics)
        items = await queue.claim()
        await queue.ack(*items)
        return [each.topic for each in items]


async def test_a_process_with_fewer_topics_takes_none_from_one_that_has_ended(make: Make) -> None:
    async with make(name="audit") as audit:
        await audit.queue("everything", "jobs.*").declare()  # so that what misses the queue is not even parked
        await job(make, KEPT, NEW)
        await job(make, KEPT)
        await audit.publish(NEW, {})

    assert await job(make, KEPT, NEW) == [NEW]


class Records:
    """A SQLite file, and what it knows of declarations."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def app(self, name: str = "app", version: int = 0) -> Mainspring:
        return Mainspring(f"sqlite:///{self._path}", name=name, version=version)

    def declared(self) -> list[tuple[str, str]]:
        with sqlite3.connect(self._path, timeout=30) as connection:
            return connection.execute("SELECT worker, declared FROM mainspring_declaration ORDER BY 1, 2").fetchall()

    def age(self, by: timedelta, column: str, topics: Sequence[str]) -> None:
        """Let what declares just these topics have done so, or begun to, so much longer ago."""
        declared = "[" + ",".join(f'["jobs","{topic}"]' for topic in topics) + "]"
        with sqlite3.connect(self._path, timeout=30) as connection:
            aged = connection.execute(
                f"UPDATE mainspring_declaration SET {column} = {column} - ? WHERE replace(declared, ' ', '') = ?",
                (by // timedelta(microseconds=1), declared),
            )
            assert aged.rowcount == 1


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "jobs.db")


@pytest.mark.parametrize("claims", [True, False])
async def test_processes_of_one_release_leave_one_record_however_many_there_were(
    records: Records, *, claims: bool
) -> None:
    for _ in range(5):
        async with records.app() as app:
            for group in ("jobs", "mail"):
                queue = app.queue(group, KEPT)
                await (queue.claim() if claims else queue.declare())

    assert [worker for worker, _ in records.declared()] == ["app/jobs", "app/mail"]


async def test_what_no_process_has_wanted_for_long_goes_and_is_logged(
    records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mainspring.app.queue.runtime._ROUND", 0.0)
    monkeypatch.setattr("mainspring.app.queue.runtime._NEWS", 0.0)
    await job(records.app, KEPT, NEW)
    async with records.app() as app:
        queue = app.queue("jobs", KEPT)
        await queue.claim()
        records.age(SILENT_AFTER + timedelta(seconds=1), "since", [KEPT])
        await queue.claim()
        early = (await app.stats.roster()).groups[0].patterns
        records.age(SILENT_AFTER + timedelta(seconds=1), "seen_at", [KEPT, NEW])
        await queue.claim()
        late = (await app.stats.roster()).groups[0].patterns

    assert (set(early), late) == ({KEPT, NEW}, (KEPT,))
    assert [each.getMessage().partition(":")[0] for each in caplog.records if each.levelno == logging.WARNING] == [
        "jobs"
    ]
    assert f"no process has declared its subscription to {NEW} lately, and it is removed" in caplog.text


async def test_a_version_keeps_its_topics_from_older_ones_however_seldom_it_runs(records: Records) -> None:
    async with records.app(version=2) as app:
        await app.queue("jobs", KEPT, NEW).claim()
    records.age(timedelta(days=2), "seen_at", [KEPT, NEW])
    async with records.app(version=1) as app:
        queue = app.queue("jobs", KEPT)
        await queue.declare()
        records.age(SILENT_AFTER + timedelta(seconds=1), "since", [KEPT])
        await queue.declare()
        await app.prune()
        await queue.declare()
        (group,) = (await app.stats.roster()).groups

    assert set(group.patterns) == {KEPT, NEW}
