"""``app.sync`` that nobody closes: let go of, at the end of a program, and interrupted while it opens."""

import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.app.blocking import _LoopThread
from tests.faults.nursery import nursery
from tests.services.children import ended_well, forked

URLS = ["sqlite", "postgresql", "postgresql+psycopg", "memory"]


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    scheme, _, rest = postgres_url.partition("://")
    assert scheme.startswith("postgres")
    return {
        "sqlite": f"sqlite:///{tmp_path}/shop.db",
        "postgresql": f"postgresql+asyncpg://{rest}",
        "postgresql+psycopg": f"postgresql+psycopg://{rest}",
        "memory": "memory://",
    }[request.param]


def ours() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("mainspring")}


def test_an_app_that_is_let_go_of_closes_its_database(url: str, postgres_schema: str) -> None:
    before = ours()
    app = Mainspring(url, schema=postgres_schema, auto_migrate=True)
    app.sync.publish("orders.placed", {})
    app.sync.messages.list("parked")
    started = ours() - before
    assert started
    held = weakref.ref(app)

    del app
    gc.collect()

    assert held() is None
    for each in started:
        each.join(60)
        assert not each.is_alive(), each
    [loop] = [each.loop for each in started if isinstance(each, _LoopThread)]
    assert loop.is_closed()
    gc.collect()  # where warnings are errors, whatever was left open would fail the test


@pytest.mark.parametrize("how", ["simply", "let go", "in a daemon", "raises"])
def test_a_program_may_end_without_closing(url: str, postgres_schema: str, how: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    with written.open("wb") as log:
        program = nursery().start("tests.integration.app.ending", json.dumps([url, postgres_schema, how]), log)

    assert (program.wait(100), written.read_text()) == (0, "")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_program_that_ends_leaves_a_file_that_is_closed(url: str, tmp_path: Path) -> None:
    argument = json.dumps([url, "mainspring", "simply"])
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.integration.app.ending", argument],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    # The last one to close the file takes what was written ahead into it.
    assert [each.name for each in tmp_path.iterdir()] == ["shop.db"]


STUCK = """
import sys, threading
from mainspring import Mainspring
from mainspring.app import blocking

blocking._LEAVING = 0.2
app = Mainspring(sys.argv[1])
app.sync.publish("orders.placed", {})
storage = app._own.place.back.connection._opening.storage

async def never():
    await app._own.place.back.connection._opening.loop.create_future()

storage.close = never
"""


def test_a_database_that_does_not_close_keeps_no_program_from_ending(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", STUCK, f"sqlite:///{tmp_path}/shop.db"],
        timeout=100,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("url", ["sqlite", "postgresql", "postgresql+psycopg"], indirect=True)
def test_a_forked_child_that_lets_go_leaves_its_parent_alone(url: str, postgres_schema: str) -> None:
    app = Mainspring(url, schema=postgres_schema, auto_migrate=True)
    app.sync.publish("orders.placed", {})
    background = app.sync._background

    def let_go() -> None:
        nonlocal app, background
        held = weakref.ref(app)
        del app, background
        gc.collect()
        assert held() is None

    assert ended_well(forked(let_go))
    thread = background._thread
    assert thread is not None

    app.sync.publish("orders.placed", {})

    assert background._thread is thread
    assert thread.is_alive()
    app.sync.close()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_caller_does_not_take_the_opening_from_the_others(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}")
    app.sync.migrate()
    app.sync.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # nobody can open until this is over
    stored: list[str] = []
    background = app.sync._background
    second = threading.Thread(target=lambda: stored.append(app.sync.publish("orders.placed", {}).status))

    def interrupt() -> None:
        _until(lambda: background._opening is not None)
        second.start()
        _until(lambda: background._calls == 2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        app.sync.publish("orders.placed", {})
    helper.join()
    other.execute("ROLLBACK")
    other.close()
    second.join()

    assert stored == ["stored"]
    app.sync.close()


@pytest.mark.usefixtures("interruptible")
def test_closing_that_was_interrupted_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}")
    app.sync.publish("orders.placed", {})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    background = app.sync._background
    under_way = threading.Thread(target=lambda: app.sync.publish("orders.placed", {}))
    under_way.start()

    def interrupt() -> None:
        _until(lambda: background._closing)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    _until(lambda: background._calls == 1)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        app.sync.close()
    helper.join()
    other.execute("ROLLBACK")
    other.close()
    under_way.join()

    assert app.sync.publish("orders.placed", {}).status == "stored"
    app.sync.close()


def _until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.001)
