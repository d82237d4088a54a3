"""What memory has of its own: one connection, which callers use in turn and in their own threads."""

import asyncio
import gc
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest

from mainspring.app.blocking import at_once
from mainspring.model.errors import BadOption, StorageError
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.verdict import Failure, Retry, Settlement
from mainspring.storage.memory import MemoryStorage
from mainspring.storage.script import Script, Statement
from mainspring.timing.clock import HandClock
from tests.unit.app.stage import NOON

RING = Statement("UPDATE mainspring_counter SET value = value + 1 WHERE name = 'bell'")
COUNT = Statement("SELECT value FROM mainspring_counter WHERE name = 'bell'")


def script(*statements: Statement, then: Callable[[], object] = lambda: None) -> Script[int]:
    for each in statements:  # noqa: UP028 - a tuple cannot be sent rows
        yield each
    then()
    ((count,),) = yield COUNT
    return int(count)


def publish(storage: MemoryStorage, group: str = "mailer") -> None:
    at_once(lambda: storage.mailbox.publish([Draft(uuid4(), "orders", b"{}", group=group)]))


def published(storage: MemoryStorage) -> int:
    return len(
        at_once(lambda: storage.mailbox.claim([ClaimRequest("mailer", 1000, ALL_LEVELS)], "node", timedelta(hours=1)))
    )


def fail() -> None:
    raise ValueError("in the middle")


def interrupt() -> None:
    raise KeyboardInterrupt


def test_the_tables_are_there_from_the_beginning() -> None:
    storage = MemoryStorage()

    at_once(storage.schema.check)

    assert at_once(storage.schema.version) > 0
    assert at_once(storage.schema.migrate) == []


def test_each_storage_has_rows_of_its_own_and_shares_them_with_its_siblings() -> None:
    one, other = MemoryStorage(), MemoryStorage()
    publish(one)

    assert published(other) == 0
    assert published(one.sibling()) == 1


def test_closing_keeps_the_rows() -> None:
    storage = MemoryStorage()
    publish(storage)

    at_once(storage.close)
    at_once(storage.open)

    assert published(storage) == 1


def test_a_new_storage_is_a_copy_of_untouched_tables() -> None:
    publish(MemoryStorage())

    assert published(MemoryStorage()) == 0


@pytest.mark.parametrize(("breaks", "error"), [(fail, ValueError), (interrupt, KeyboardInterrupt)])
def test_a_script_that_fails_leaves_nothing_behind(breaks: Callable[[], None], error: type[BaseException]) -> None:
    gateway = MemoryStorage().gateway
    before = at_once(lambda: gateway.run(script(), "read"))

    with pytest.raises(error):
        at_once(lambda: gateway.run(script(RING, RING, then=breaks), "write"))

    assert not gateway._connection.in_transaction
    assert at_once(lambda: gateway.run(script(), "read")) == before
    assert at_once(lambda: gateway.run(script(RING), "write")) == before + 1


def test_a_transaction_that_an_interrupt_left_open_is_rolled_back_first() -> None:
    gateway = MemoryStorage().gateway
    before = at_once(lambda: gateway.run(script(), "read"))
    gateway._connection.execute("BEGIN")
    gateway._connection.execute(RING.sql)

    assert at_once(lambda: gateway.run(script(), "read")) == before


def test_an_error_of_sqlite_is_one_of_the_storage() -> None:
    gateway = MemoryStorage().gateway

    with pytest.raises(StorageError, match=r"the database 'memory://' refused \(SQLite: no such column: absent\)"):
        at_once(lambda: gateway.run(script(Statement("SELECT absent")), "read"))


def test_a_script_within_a_script_is_refused_instead_of_waiting_for_itself() -> None:
    storage = MemoryStorage()

    with pytest.raises(AssertionError, match="would wait for itself"):
        at_once(lambda: storage.gateway.run(script(RING, then=lambda: publish(storage)), "write"))

    publish(storage)
    assert published(storage) == 1


def test_threads_take_turns() -> None:
    storage = MemoryStorage()

    def work(_: int) -> None:
        own = storage.sibling()
        for _ in range(25):
            publish(own)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))

    assert published(storage) == 200


def test_a_script_waits_for_that_of_another_thread() -> None:
    gateway = MemoryStorage().gateway
    before = at_once(lambda: gateway.run(script(), "read"))
    begun, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        begun.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(at_once, lambda: gateway.run(script(RING, then=pause), "write"))
        assert begun.wait(60)
        second = threads.submit(at_once, lambda: gateway.run(script(RING), "write"))
        with pytest.raises(TimeoutError):
            second.result(0.05)
        go_on.set()

        assert (first.result(60), second.result(60)) == (before + 1, before + 2)


def test_the_clock_is_set_by_hand_else_the_tests_else_the_hosts() -> None:
    clock = HandClock(NOON)
    storage = MemoryStorage(clock)
    clock.advance(timedelta(hours=1))

    by_the_clock = at_once(storage.ledger.tally).now
    storage.sibling().now = NOON - timedelta(days=1)
    by_hand = at_once(storage.ledger.tally).now
    by_the_host = at_once(MemoryStorage().ledger.tally).now

    assert (by_the_clock, by_hand) == (NOON + timedelta(hours=1), NOON - timedelta(days=1))
    assert storage.now == by_hand
    assert abs(by_the_host.timestamp() - time.time()) < 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_has_a_copy() -> None:
    storage = MemoryStorage()
    publish(storage)

    if (child := os.fork()) == 0:
        publish(storage)
        os._exit(published(storage))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert published(storage) == 1


def test_an_old_sqlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))

    with pytest.raises(BadOption, match=r"needs SQLite 3\.35"):
        MemoryStorage()


def test_the_connection_is_closed_with_the_last_that_uses_it() -> None:
    storage = MemoryStorage()
    connection, mailbox = storage.gateway._connection, storage.sibling().mailbox
    del storage
    gc.collect()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]

    del mailbox
    gc.collect()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


async def test_a_bell_rings_once_for_each_group_and_not_for_claims() -> None:
    storage, heard = MemoryStorage(), list[str]()
    publish(storage, "earlier")
    storage.doorbell.listen(heard.append)

    for group in ("mailer", "mailer", "printer"):
        publish(storage, group)
    await asyncio.sleep(0)
    rung = list(heard)
    heard.clear()
    (held,) = await storage.mailbox.claim([ClaimRequest("printer", 1, ALL_LEVELS)], "node", timedelta(hours=1))
    await storage.mailbox.settle([Settlement(held.claim, Retry(timedelta(hours=1), Failure("error", "no")))], "node")
    await asyncio.sleep(0)

    assert (rung, heard) == (["mailer", "printer"], [])


async def test_groups_with_something_due_are_roused_and_no_others() -> None:
    storage, heard = MemoryStorage(HandClock(NOON)), list[str]()
    publish(storage, "mailer")
    publish(storage, "held")
    await storage.mailbox.claim([ClaimRequest("held", 1, ALL_LEVELS)], "node", timedelta(hours=1))
    await storage.mailbox.publish([Draft(uuid4(), "orders", b"{}", group="later", delay=timedelta(seconds=1))])
    storage.doorbell.listen(heard.append)

    await storage.doorbell.rouse()
    await asyncio.sleep(0)

    assert heard == ["mailer"]


async def test_a_bell_is_silent_after_a_rollback_and_when_it_was_hung_up() -> None:
    storage, heard = MemoryStorage(), list[str]()
    storage.doorbell.listen(heard.append)

    with pytest.raises(ValueError, match="in the middle"):
        await storage.gateway.run(script(RING, then=fail), "write")
    await asyncio.sleep(0)
    await storage.close()
    publish(storage)
    await asyncio.sleep(0)

    assert heard == []


def test_a_listener_whose_loop_has_ended_stops_no_publisher() -> None:
    storage = MemoryStorage()

    async def listen() -> None:
        storage.doorbell.listen(lambda _group: None)

    asyncio.run(listen())
    publish(storage)
    publish(storage)

    assert published(storage) == 2
