"""`app.sync.leases`: the same for code that blocks, in any number of threads."""

import asyncio
import gc
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Mainspring, SyncLease, errors
from mainspring.timing.clock import HandClock
from tests.services.children import ended_well, forked

READ = "SELECT holder IS NOT NULL, renewed_at > acquired_at FROM mainspring_lease WHERE name = 'reports'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def app(path: Path) -> Iterator[Mainspring]:
    app = Mainspring(f"sqlite:///{path}")
    yield app
    app.sync.close()


@pytest.fixture
def clock(app: Mainspring) -> HandClock:
    clock = HandClock(datetime(2030, 1, 1, tzinfo=UTC))
    app._code.clock.replace(clock)
    return clock


def test_a_lease_is_held_for_the_length_of_a_block(app: Mainspring) -> None:
    with app.sync.leases.hold("reports") as lease:
        inside = app.sync.leases.get("reports")
        refused = app.sync.leases.acquire("reports")
        with pytest.raises(errors.LeaseHeld), app.sync.leases.hold("reports", wait="0s"):
            pass
        lease.renew_now()

    assert inside is not None
    assert (inside.state, inside.epoch, refused) == ("held", lease.epoch, None)
    assert [(view.name, view.state) for view in app.sync.leases.list()] == [("reports", "free")]


def test_it_is_released_when_the_block_raises(app: Mainspring) -> None:
    with pytest.raises(ZeroDivisionError), app.sync.leases.hold("reports"):
        raise ZeroDivisionError

    lease = app.sync.leases.acquire("reports")
    assert isinstance(lease, SyncLease)
    assert (lease.release(), lease.release()) == (True, False)


def test_it_is_renewed_while_the_thread_works(app: Mainspring, path: Path, clock: HandClock) -> None:
    with app.sync.leases.hold("reports", "30s") as lease:
        clock.advance(timedelta(seconds=18))
        with closing(sqlite3.connect(path)) as client:
            while client.execute(READ).fetchone() == (1, 0):
                time.sleep(0.01)

        lease.raise_if_lost()


def test_a_thread_is_told_that_it_is_lost_and_leaving_the_block_raises(app: Mainspring, clock: HandClock) -> None:
    seen = []

    def work() -> None:
        with app.sync.leases.hold("reports", "30s") as lease:
            seen.append(lease.lost)
            clock.advance(timedelta(seconds=30))
            seen.append(lease.lost)

    with pytest.raises(errors.LeaseLost, match="expired"):
        work()
    assert seen == [False, True]


def test_what_the_block_of_a_lost_lease_raises_is_not_hidden(app: Mainspring, clock: HandClock) -> None:
    def work() -> None:
        with app.sync.leases.hold("reports", "30s") as lease:
            clock.advance(timedelta(seconds=30))
            assert lease.lost
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        work()


def test_one_guard_is_for_one_block_at_a_time(app: Mainspring) -> None:
    guard = app.sync.leases.hold("reports")
    with guard as first, pytest.raises(errors.Misuse, match="call hold"):
        guard.__enter__()

    with guard as second:
        assert second.epoch > first.epoch


def test_many_threads_take_turns(app: Mainspring) -> None:
    inside, most, epochs = [0], [0], []
    lock = threading.Lock()

    def work(_: int) -> None:
        with app.sync.leases.hold("reports", wait=True) as lease:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                epochs.append(lease.epoch)
            with lock:
                inside[0] -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))

    assert most == [1]
    assert epochs == sorted(set(epochs))
    assert len(epochs) == 8


def test_a_lease_is_confirmed_in_a_blocking_transaction_only(app: Mainspring, path: Path) -> None:
    lease = app.sync.leases.acquire("reports")
    assert lease is not None
    with closing(sqlite3.connect(path)) as client:
        client.execute("CREATE TABLE effect (epoch integer)")
        lease.confirm(tx=client)
        client.execute("INSERT INTO effect VALUES (?)", (lease.epoch,))
        client.commit()
        app.sync.leases.release("reports", by="ann")

        with pytest.raises(errors.LeaseLost):
            lease.confirm(tx=client)
        assert client.execute("SELECT epoch FROM effect").fetchall() == [(lease.epoch,)]
    with pytest.raises(errors.LeaseLost):
        lease.confirm(tx=client)


def test_a_handle_of_asyncio_is_refused_by_name(app: Mainspring) -> None:
    handle = type("AsyncSession", (), {"__module__": "sqlalchemy.ext.asyncio"})()
    lease = app.sync.leases.acquire("reports")
    assert lease is not None

    with pytest.raises(errors.BadHandle, match=r"takes it on a lease of app\.leases"):
        lease.confirm(tx=handle)


def test_an_app_that_has_held_leases_may_be_let_go_of(path: Path) -> None:
    before = set(threading.enumerate())
    app = Mainspring(f"sqlite:///{path}")
    with app.sync.leases.hold("reports"):
        pass
    started = set(threading.enumerate()) - before
    gone = threading.Event()
    held = weakref.ref(app, lambda _: gone.set())

    del app
    for _ in range(600):  # the thread of the last call lets go of it a moment after its result is there
        gc.collect()
        if gone.wait(0.1):
            break

    assert held() is None
    for each in started:
        each.join(60)
        assert not each.is_alive(), each


async def test_a_coroutine_is_told_to_await(app: Mainspring) -> None:
    with pytest.raises(errors.Misuse, match=r"write `async with app\.leases\.hold"), app.sync.leases.hold("reports"):
        pass
    lease = await asyncio.to_thread(app.sync.leases.acquire, "reports")
    assert lease is not None

    with pytest.raises(errors.Misuse, match=r"write `await lease\.release\(\)` on a lease of app\.leases"):
        lease.release()
    with pytest.raises(errors.Misuse, match=r"write `await lease\.renew_now\(\)`"):
        lease.renew_now()
    await asyncio.to_thread(app.sync.close)
    assert lease.lost


def test_a_lease_that_is_still_held_when_the_app_closes_is_released(app: Mainspring) -> None:
    lease = app.sync.leases.acquire("reports")
    assert lease is not None

    app.sync.close()

    assert lease.lost
    assert [view.state for view in app.sync.leases.list()] == ["free"]


def test_a_forked_child_has_not_got_it(app: Mainspring) -> None:
    with app.sync.leases.hold("reports") as lease:

        def look() -> None:
            taken = app.sync.leases.acquire("reports")
            assert lease.lost
            assert not lease.release()
            assert taken is None

        assert ended_well(forked(look))
        lease.renew_now()
