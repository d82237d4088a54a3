"""A Flask application as it is run: by gunicorn with `--preload`, and by `flask mainspring worker`."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from tests.house.tree import ROOT
from tests.services.postgres import new_database

MODULE = "tests.integration.frameworks.flask_shop"
LEAST = 40
UNWANTED = 999  # by flask_shop.py
_PATIENCE = 60.0


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.fixture
def server(postgres_url: str) -> Iterator[str]:
    with new_database(postgres_url, f"flask_{uuid4().hex[:12]}") as url:
        yield url


@contextmanager
def _running(arguments: list[str], url: str, until: str, times: int = 1) -> Iterator[list[str]]:
    environment = {**os.environ, "SHOP_URL": url, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    said: list[str] = []
    ready = threading.Event()
    with subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if sum(until in each for each in said) == times:
                    ready.set()
            ready.set()

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            assert ready.wait(_PATIENCE), said
            assert process.poll() is None, "".join(said)
            yield said
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(_PATIENCE) == 0, "".join(said)
            listening.join(_PATIENCE)


def _port(said: list[str]) -> int:
    """Where it says that it listens."""
    found = re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", "".join(said))
    assert found is not None, said
    return int(found[1])


def _prepare(url: str) -> None:
    environment = {**os.environ, "SHOP_URL": url, "PYTHONPATH": str(ROOT)}
    program = f"from mainspring import Mainspring; Mainspring({url!r}).sync.migrate()"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    _execute(url, "CREATE TABLE orders (id integer)")


def _execute(url: str, statement: str) -> list[str]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return [str(row[0]) for row in found] if found.returns_rows else []
    finally:
        engine.dispose()


def _payloads(url: str, topic: str) -> list[str]:
    table = "mainspring_message" if url.startswith("sqlite") else "mainspring.message"
    column = "CAST(payload AS text)" if url.startswith("sqlite") else "convert_from(payload, 'UTF8')"
    return _execute(url, f"SELECT {column} FROM {table} WHERE topic = '{topic}'")


def _serve_two(url: str) -> None:
    _prepare(url)
    command = ["gunicorn", "--preload", "--workers=2", "--bind=127.0.0.1:0", f"{MODULE}:create_app()"]

    answers: list[dict[str, Any]] = []
    with _running(command, url, until="Booting worker", times=2) as said:
        port = _port(said)
        # Which of the two answers is the system's to choose: go on until both have.
        while len(answers) < LEAST or len({each["pid"] for each in answers}) < 2:
            assert len(answers) < UNWANTED, "one process served everybody"
            with urlopen(Request(f"http://127.0.0.1:{port}/orders/{len(answers)}", method="POST")) as answer:
                answers.append(json.load(answer))
        with pytest.raises(HTTPError, match="500") as refused:
            urlopen(Request(f"http://127.0.0.1:{port}/orders/{UNWANTED}", method="POST"))
        refused.value.close()

    processes = {each["pid"] for each in answers}
    assert {each["status"] for each in answers} == {"stored"}
    assert len(_payloads(url, "shop.loaded")) == 1
    assert sorted(map(int, _execute(url, "SELECT id FROM orders"))) == list(range(len(answers)))
    for topic in ("orders.placed", "orders.counted"):
        stored = [json.loads(each) for each in _payloads(url, topic)]
        assert sorted(each["order"] for each in stored) == list(range(len(answers)))
        assert {each["pid"] for each in stored} == processes


def test_after_a_fork_both_processes_publish_to_sqlite_and_nothing_is_lost(file: str) -> None:
    _serve_two(file)


def test_after_a_fork_both_processes_publish_to_postgresql_and_nothing_is_lost(server: str) -> None:
    _serve_two(server)


def test_flask_mainspring_worker_serves_until_it_is_told_to_stop(file: str) -> None:
    publish = f"from mainspring import Mainspring; Mainspring({file!r}).sync.publish('orders.greeted', 7)"
    command = ["flask", "--app", MODULE, "mainspring", "worker"]
    subprocess.run([sys.executable, "-c", publish], check=True)  # parked until a worker subscribes

    with _running(command, file, until="welcome 7") as said:
        pass

    # What the handler's thread prints may stand on one line with it.
    assert any("mainspring worker ready: shop" in line for line in said)
    assert said[-1].startswith("mainspring worker stopped: shop")


def test_flask_mainspring_worker_keeps_several_processes(file: str) -> None:
    command = ["flask", "--app", MODULE, "mainspring", "worker", "--processes", "2"]

    with _running(command, file, until="mainspring worker ready: shop", times=2) as said:
        pass

    assert sum(line.startswith("mainspring worker stopped: shop") for line in said) == 2
