"""Processes that fork while they use SQLite: nothing hangs, nothing is locked, nothing is lost."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import ANY

import pytest

from mainspring import Mainspring
from mainspring.model.errors import StorageError
from mainspring.storage.sqlite import SqliteStorage, gateway
from mainspring.storage.sqlite.connection import GATE, Gate, Line, open_reader, primary
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.doorbell import SqliteDoorbell
from tests.integration.sqlite.acting import asked_aside, draft
from tests.services.children import MUCH_TOO_LONG, ended_well, forked

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")

CHILDREN = 48


@pytest.fixture
def app(path: str) -> Iterator[Mainspring]:
    made = Mainspring(f"sqlite:///{path}")
    made.sync.migrate()
    yield made
    made.sync.close()


def opened_files() -> list[str]:
    """What this process has open, by name."""
    return [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]


def test_children_forked_while_threads_write_and_read_find_no_lock_and_lose_nothing(app: Mainspring, path: str) -> None:
    enough = threading.Event()
    written = [0] * 4

    def publish(number: int) -> None:
        while not enough.is_set():
            app.sync.publish("parent", {})
            written[number] += 1
            if written[number] % 10 == 0:
                app.sync.stats.tally()

    def publish_in_a_child(number: int) -> None:
        app.sync.publish("child", {"number": number})
        app.sync.publish("child", {"number": number})
        if number % 3 == 0:
            app.sync.close()

    writers = [threading.Thread(target=publish, args=(number,)) for number in range(len(written))]
    for each in writers:
        each.start()
    try:
        fates: list[bool] = []
        for first in range(0, CHILDREN, 4):  # a few at a time, so that children write while others are forked
            children = [forked(partial(publish_in_a_child, number)) for number in range(first, first + 4)]
            fates += map(ended_well, children)
    finally:
        enough.set()
        for each in writers:
            each.join()
    app.sync.close()

    assert fates == [True] * CHILDREN
    topics = asked_aside(path, "SELECT topic, count(*) FROM mainspring_message GROUP BY topic ORDER BY topic")
    assert topics == [("child", 2 * CHILDREN), ("parent", sum(written))]
    assert asked_aside(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_child_has_nothing_of_the_file_open_and_its_parent_goes_on(storage: SqliteStorage, path: str) -> None:
    storage.doorbell.listen(lambda _group: None)
    await storage.ping()
    await storage.mailbox.publish([draft()])
    assert any(each.startswith(path) for each in opened_files())

    def look() -> None:
        assert not any(each.startswith(path) for each in opened_files())

    assert ended_well(forked(look))
    await storage.mailbox.publish([draft()])
    await storage.ping()


def test_what_a_child_publishes_after_its_parent_has_closed_is_kept(app: Mainspring, path: str) -> None:
    app.sync.publish("parent", {})
    (opened, opens), (closed, closes) = os.pipe(), os.pipe()

    def publish() -> None:
        app.sync.publish("child", {})
        os.write(opens, b".")
        os.read(closed, 1)
        app.sync.publish("child", {})

    child = forked(publish)
    os.close(opens)
    os.read(opened, 1)
    app.sync.close()  # here it is the last one, and would remove the log that the child writes to
    os.write(closes, b".")

    assert ended_well(child)
    for each in (opened, closed, closes):
        os.close(each)
    assert asked_aside(path, "SELECT count(*) FROM mainspring_message") == [(3,)]


async def test_the_doorbell_misses_nothing_of_what_came_during_a_fork(storage: SqliteStorage, path: str) -> None:
    bell = SqliteDoorbell(storage._gateway, Dialect("mainspring"), timedelta(hours=1))
    rung: list[str] = []
    bell.listen(rung.append)
    [watch] = bell._watches

    async def publish() -> None:
        other = SqliteStorage(path)
        await other.open()
        await other.mailbox.publish([draft()])
        await other.close()

    assert ended_well(forked(lambda: asyncio.run(publish())))
    watch._version = ANY  # as if the new connection began to count where the old one was
    watch._look()

    assert rung == [""]
    bell.hang_up()


def test_a_writer_that_waits_for_somebody_elses_lock_keeps_nobody_from_forking(
    app: Mainspring, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def noticed(error: BaseException) -> int:
        waits.set()
        return primary(error)

    monkeypatch.setattr(gateway, "primary", noticed)
    monkeypatch.setattr(GATE, "_patience", 3 * MUCH_TOO_LONG)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    stored: list[str] = []
    caller = threading.Thread(target=lambda: stored.append(app.sync.publish("parent", {}).status))
    caller.start()
    assert waits.wait(MUCH_TOO_LONG)
    begun = time.monotonic()

    assert ended_well(forked(lambda: None))

    assert time.monotonic() - begun < MUCH_TOO_LONG
    other.execute("ROLLBACK")
    other.close()
    caller.join()
    assert stored == ["stored"]


def test_a_fork_in_the_middle_of_a_long_call_is_told_and_does_not_hang(
    app: Mainspring, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GATE, "_patience", 0.05)
    line = Line(lambda: open_reader(path))

    def publish() -> None:
        with pytest.raises(StorageError, match="this process was forked while another thread of its parent"):
            app.sync.publish("child", {})

    with line:
        line.connection()
        assert ended_well(forked(publish))
        line.drop()

    assert app.sync.publish("parent", {}).status == "stored"
    assert ended_well(forked(lambda: app.sync.publish("child", {})))


def test_nobody_comes_in_while_a_fork_is_under_way(path: str) -> None:
    gate = Gate()
    line = Line(lambda: open_reader(path), gate)
    came_in = threading.Event()

    def use() -> None:
        with line:
            came_in.set()

    gate.before_fork()
    gate.before_fork()  # another thread forks as well
    user = threading.Thread(target=use)
    user.start()
    gate.after_fork()
    assert not came_in.wait(0.05)

    gate.after_fork()

    assert came_in.wait(MUCH_TOO_LONG)
    user.join()
