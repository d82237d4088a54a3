"""The writer: all that waits is one commit, and what fails, fails alone."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from mainspring.model.errors import StorageError, StorageUnavailable
from mainspring.storage.script import Script, Statement
from mainspring.storage.sqlite import SqliteStorage
from mainspring.storage.sqlite.connection import open_writer, translated
from mainspring.storage.sqlite.gateway import Unit, Writer
from tests.integration.sqlite.acting import asked_aside, claim, draft, executing


class Bench:
    """A writer of the test's own, whose statements are seen."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        self.seen: list[str] = []
        self.told = 0
        self._connect = connect
        self.writer = Writer("writer", self._traced, lambda error: translated(error, path, "mainspring"), self._tell)

    def _traced(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.set_trace_callback(self.seen.append)
        return connection

    def _tell(self) -> None:
        self.told += 1

    def put(self, script: Script[object], *, tells: bool = False) -> asyncio.Future[object]:
        unit = Unit(script, asyncio.get_running_loop(), notifies=tells)
        self.writer.put(unit)
        return unit.future

    async def hold_up(self) -> tuple[asyncio.Future[object], threading.Event]:
        """Keep the writer busy until the event is set, so that what is put meanwhile waits together."""
        begun, go = threading.Event(), threading.Event()

        def waiting() -> Script[None]:
            begun.set()
            go.wait()
            yield Statement("SELECT 'held up'")

        held = self.put(waiting())
        await asyncio.to_thread(begun.wait)
        return held, go

    def count(self, statement: str) -> int:
        return self.seen.count(statement)


@pytest.fixture
async def bench(path: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    # However slow the machine is, a group is what waits, not what fits into a turn.
    monkeypatch.setattr("mainspring.storage.sqlite.gateway._TURN", 60)
    bench = Bench(lambda: open_writer(path, durable=False), path)
    bench.writer.start()
    await bench.put(executing("CREATE TABLE note (text text UNIQUE)"))
    bench.seen.clear()
    yield bench
    bench.writer.stop()
    bench.writer.join()


def noting(text: str) -> Script[object]:
    return executing(f"INSERT INTO note VALUES ('{text}')")


async def test_units_that_wait_together_are_one_commit(bench: Bench, path: str) -> None:
    held, go = await bench.hold_up()
    waiting = [bench.put(noting(f"{number}")) for number in range(50)]
    go.set()
    await asyncio.gather(held, *waiting)

    assert bench.count("COMMIT") == 2
    assert bench.count("SAVEPOINT unit") == 50
    assert asked_aside(path, "SELECT count(*) FROM note") == [(50,)]


async def test_a_unit_that_is_alone_needs_no_savepoint(bench: Bench) -> None:
    await bench.put(noting("alone"))

    assert [each for each in bench.seen if "note" not in each] == ["BEGIN IMMEDIATE", "COMMIT"]


async def test_a_failing_unit_fails_alone_and_leaves_nothing(bench: Bench, path: str) -> None:
    held, go = await bench.hold_up()
    before = bench.put(noting("before"))
    failing = bench.put(executing("INSERT INTO note VALUES ('half')", "INSERT INTO note VALUES ('before')"))
    after = bench.put(noting("after"))
    go.set()

    with pytest.raises(StorageError, match="UNIQUE"):
        await failing
    await asyncio.gather(held, before, after)

    assert asked_aside(path, "SELECT text FROM note ORDER BY rowid") == [("before",), ("after",)]
    assert bench.count("COMMIT") == 2


async def test_an_error_of_the_scripts_own_reaches_its_caller_as_it_is(bench: Bench, path: str) -> None:
    class Changed(Exception):
        pass

    def changing_its_mind() -> Script[None]:
        yield Statement("INSERT INTO note VALUES ('half')")
        raise Changed

    with pytest.raises(Changed):
        await bench.put(changing_its_mind())

    assert asked_aside(path, "SELECT text FROM note") == []


async def test_a_failing_commit_fails_every_unit_of_its_group(bench: Bench, path: str) -> None:
    # A deferred constraint is the one thing that fails no statement, only the commit.
    await bench.put(executing("CREATE TABLE page (book integer REFERENCES book (id) DEFERRABLE INITIALLY DEFERRED)"))
    await bench.put(executing("CREATE TABLE book (id integer PRIMARY KEY)"))
    connection = bench.writer._line.connection()
    connection.execute("PRAGMA foreign_keys = 1")
    held, go = await bench.hold_up()
    innocent = bench.put(noting("innocent"))
    orphan = bench.put(executing("INSERT INTO page VALUES (7)"))
    go.set()

    _, first, second = await asyncio.gather(held, innocent, orphan, return_exceptions=True)
    await bench.put(noting("later"))

    assert isinstance(first, StorageError)
    assert isinstance(second, StorageError)
    assert asked_aside(path, "SELECT text FROM note") == [("later",)]


async def test_a_long_group_is_committed_in_turns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.storage.sqlite.gateway._TURN", 0)
    held, go = await bench.hold_up()
    waiting = [bench.put(noting(f"{number}")) for number in range(3)]
    go.set()
    await asyncio.gather(held, *waiting)

    assert bench.count("COMMIT") == 4


async def test_a_cancelled_callers_unit_is_run_all_the_same(bench: Bench, path: str) -> None:
    held, go = await bench.hold_up()
    cancelled = bench.put(noting("cancelled"))
    cancelled.cancel()
    other = bench.put(noting("other"))
    go.set()
    await asyncio.gather(held, other)

    assert asked_aside(path, "SELECT text FROM note ORDER BY rowid") == [("cancelled",), ("other",)]


async def test_stopping_finishes_what_waits(bench: Bench, path: str) -> None:
    held, go = await bench.hold_up()
    waiting = [bench.put(noting(f"{number}")) for number in range(5)]
    bench.writer.stop()
    go.set()
    await asyncio.gather(held, *waiting)
    await asyncio.to_thread(bench.writer.join)

    assert asked_aside(path, "SELECT count(*) FROM note") == [(5,)]


async def test_only_what_brings_work_tells_and_only_once_per_commit(bench: Bench) -> None:
    await bench.put(noting("quiet"))
    quiet = bench.told
    held, go = await bench.hold_up()
    waiting = [bench.put(noting(f"{number}"), tells=True) for number in range(5)]
    go.set()
    await asyncio.gather(held, *waiting)
    await bench.put(noting("the telling comes after the answer"))

    assert (quiet, bench.told) == (0, 1)


async def test_a_file_that_others_keep_locked_is_unavailable_and_then_is_not(
    bench: Bench, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.storage.sqlite.gateway.BUSY_TIMEOUT", 0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StorageUnavailable, match="locked"):
        await bench.put(noting("too early"))
    other.execute("ROLLBACK")
    await bench.put(noting("in time"))

    other.close()
    assert asked_aside(path, "SELECT text FROM note") == [("in time",)]


async def test_a_lock_that_is_given_up_in_time_is_waited_for(bench: Bench, path: str) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = bench.put(noting("patient"))
    asyncio.get_running_loop().call_later(0.02, other.execute, "ROLLBACK")

    await waiting

    other.close()
    assert asked_aside(path, "SELECT text FROM note") == [("patient",)]


async def test_reads_do_not_wait_for_a_writer(storage: SqliteStorage, path: str) -> None:
    await storage.mailbox.publish([draft()])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(storage.mailbox.publish([draft()]))

    tally = await storage.ledger.tally()

    assert not waiting.done()
    assert tally.groups[0].ready == 1
    other.execute("ROLLBACK")
    other.close()
    await waiting


async def test_many_loops_in_many_threads_share_one_writer(storage: SqliteStorage) -> None:
    async def publish_some() -> None:
        door = storage.sibling()
        await door.open()
        await asyncio.gather(*(door.mailbox.publish([draft()]) for _ in range(25)))
        await door.close()

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, publish_some()) for _ in range(4)))

    assert len(await claim(storage, 200)) == 100
    assert [each.name for each in threading.enumerate()].count(f"mainspring {storage._gateway.path}") == 1


async def test_closing_answers_who_still_waits_and_opening_again_works(path: str) -> None:
    storage = SqliteStorage(path)
    await storage.open()
    await storage.schema.migrate()
    waiting = [asyncio.create_task(storage.mailbox.publish([draft()])) for _ in range(20)]
    await asyncio.sleep(0)

    await storage.close()

    assert all([len((await each).stored) == 1 for each in waiting])
    with pytest.raises(StorageError, match="not open"):
        await storage.mailbox.publish([draft()])
    await storage.open()
    assert len(await claim(storage)) == 20
    await storage.close()
    await storage.close()


async def test_no_thread_is_left_behind(path: str) -> None:
    storage = SqliteStorage(path)
    await storage.open()
    await storage.schema.migrate()
    await asyncio.gather(*(storage.ledger.tally() for _ in range(5)))

    await storage.close()

    assert f"mainspring {path}" not in {each.name for each in threading.enumerate()}


async def test_the_writer_closes_last_and_alone_so_that_it_takes_the_log_into_the_file(path: str) -> None:
    storage = SqliteStorage(path)
    await storage.open()
    await storage.schema.migrate()
    begun, go = threading.Event(), threading.Event()

    def reading() -> Script[None]:
        begun.set()
        go.wait()
        yield Statement("SELECT 1")

    read = asyncio.create_task(storage._gateway.run(reading(), "read"))
    await asyncio.to_thread(begun.wait)
    (writer, _), closing = storage._gateway._threads or pytest.fail("it is open"), asyncio.create_task(storage.close())

    await asyncio.to_thread(writer.join, 0.5)
    assert writer.is_alive()
    go.set()
    await asyncio.gather(read, closing)

    assert not writer.is_alive()
