"""A directory with an application in it, and a database with one of everything."""

import fcntl
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.integration.cli.shell import Shell, line_with, stop
from tests.services.watch import locked

HERE = Path(__file__).parent
PLACED = [
    ("orders.placed", '{"id": 1}', "--header", "origin=web", "--correlation-id", "basket:7"),
    ("orders.placed", '{"id": 2, "jam": "paper"}'),
    ("orders.placed", '{"id": 3, "jam": "ink"}'),
    ("payments.timeout", '{"id": 1}', "--delay", "15h", "--key", "order:1"),
    ("nobody.listens", "[1, 2]"),
]
PUT = """
from clockwork import app

app.sync.schedules.put("newsletter", "0 8 * * *", "send_newsletter")
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Commands in a directory that holds shop.py and no database yet."""
    shutil.copy(HERE / "shop.py", tmp_path / "shop.py")
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def stocked_file(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A SQLite file after a worker has been there: two dead letters, one timer, one parked message.

    It is made once for the whole run, by whoever needs it first; tests get copies.
    """
    with _first(tmp_path_factory, worker_id, "stocked") as (directory, is_first):
        if is_first:
            shutil.copy(HERE / "shop.py", directory / "shop.py")
            stock(Shell(directory))
            _checkpointed(directory / "shop.db")
    return directory / "shop.db"


def stock(shell: Shell) -> None:
    """Declare the groups, publish one of everything, and let a worker handle what it can."""
    with shell.started("worker", "shop:app") as worker:
        line_with(worker, "ready")
        for published in shell.several(*(("publish", *message, "--app", "shop:app") for message in PLACED)):
            assert published.code == 0, published.err
        line_with(worker, "receipt 1")
        while len(shell("dead", "list", "--json", "--app", "shop:app").json) < 2:
            pass
        assert stop(worker).code == 0


@pytest.fixture
def stocked(shell: Shell, stocked_file: Path) -> Shell:
    """Commands with MAINSPRING_URL on a copy of that file."""
    shutil.copy(stocked_file, shell.directory / "shop.db")
    shell.environment["MAINSPRING_URL"] = "sqlite:///shop.db"
    return shell


@pytest.fixture(scope="session")
def timed_file(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A SQLite file after a worker has been there: a schedule that ran a few times, others that never did.

    It is made once for the whole run, as the other one is.
    """
    with _first(tmp_path_factory, worker_id, "timed") as (directory, is_first):
        if is_first:
            shutil.copy(HERE / "clockwork.py", directory / "clockwork.py")
            shell = Shell(directory)
            with shell.started("worker", "clockwork:app") as worker:
                for _ in range(4):
                    line_with(worker, "tick 20")
                assert stop(worker).code == 0
            (directory / "put.py").write_text(PUT)
            shell.python("put.py")
            _checkpointed(directory / "clockwork.db")
    return directory / "clockwork.db"


def _checkpointed(file: Path) -> None:
    """Have everything in the file itself: it is copied, and what a process has left in the log beside it is not."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def _first(factory: pytest.TempPathFactory, worker_id: str, name: str) -> Iterator[tuple[Path, bool]]:
    """A directory for all workers of a run, one at a time, and whether nobody has been there yet."""
    base = factory.getbasetemp()
    directory = (base.parent if worker_id != "master" else base) / name
    directory.mkdir(exist_ok=True)
    done = directory / "done"
    with locked(directory / "door", fcntl.LOCK_EX):
        yield directory, not done.exists()
        done.touch()


@pytest.fixture
def timed(shell: Shell, timed_file: Path) -> Shell:
    """Commands with MAINSPRING_URL on a copy of that file, beside its application."""
    shutil.copy(HERE / "clockwork.py", shell.directory / "clockwork.py")
    shutil.copy(timed_file, shell.directory / "clockwork.db")
    shell.environment["MAINSPRING_URL"] = "sqlite:///clockwork.db"
    return shell
