"""Credentials that change while an app is open: a function in the place of the URL is asked for every connection."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mainspring import Context, Mainspring, errors
from mainspring.storage.postgres.driver import DriverName
from tests.integration.postgres.acting import DRIVERS
from tests.services.cluster import Cluster
from tests.services.postgres import private_server

HBA = """
host all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""


class Vault:
    """Keeps the password of a role, and changes it."""

    def __init__(self, server: Cluster, driver: DriverName) -> None:
        self.role = f"shop_{uuid4().hex[:8]}"
        self.asked: list[str] = []
        self.failing: Exception | None = None
        self._server = server
        self._driver = driver
        self._run(f"CREATE ROLE {self.role} LOGIN; GRANT CREATE ON DATABASE postgres TO {self.role}")
        self.password = ""
        self.rotate()

    def rotate(self) -> None:
        """Another password from now on, and nothing is left of connections that were made with the one before."""
        self.password = uuid4().hex
        self._run(f"ALTER ROLE {self.role} PASSWORD '{self.password}'")
        self._run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.role}'")

    def url(self) -> str:
        self.asked.append(threading.current_thread().name)
        if self.failing is not None:
            raise self.failing
        return f"postgresql+{self._driver}://{self.role}:{self.password}@127.0.0.1:{self._server.port}/postgres"

    async def url_soon(self) -> str:
        await asyncio.sleep(0)
        return self.url()

    def _run(self, sql: str) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as client:
            client.execute(sql.encode())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that asks for passwords."""
    with private_server(tmp_path_factory.mktemp("guarded")) as server:
        (server.data / "pg_hba.conf").write_text(HBA)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(params=DRIVERS)
def vault(guarded: Cluster, request: pytest.FixtureRequest) -> Vault:
    return Vault(guarded, request.param)


async def until(question: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not (answer := question()) or (not isinstance(answer, bool) and not await answer):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("awaited", [False, True])
async def test_workers_come_back_after_a_rotation(vault: Vault, awaited: bool) -> None:
    url: Any = vault.url_soon if awaited else vault.url
    app = Mainspring(url, name="shop", schema=vault.role, auto_migrate=True)
    done: list[tuple[str, int]] = []

    @app.consumer("orders.placed")
    async def ship(order: int) -> None:
        done.append(("ship", order))

    @app.consumer("orders.placed", transactional=True)
    async def bill(order: int, ctx: Context) -> None:
        done.append(("bill", order))

    @app.consumer("orders.placed", transactional=True)
    def count(order: int, ctx: Context) -> None:
        done.append(("count", order))

    async with app.worker():
        orders: list[int] = []
        for order in range(3):
            if order:
                vault.rotate()
            await publish(app, order)
            orders.append(order)
            await until(lambda: set(done) == {(each, n) for each in ("ship", "bill", "count") for n in orders})
        await until(lambda: app._connection.bell == "notify")  # it has connected again, too

    assert "MainThread" not in vault.asked[2:]  # once to read it, once to open; then it holds up no loop


async def publish(app: Mainspring, order: int) -> None:
    """Publish, again and again while the database is away."""
    end = time.monotonic() + 60
    while True:
        try:
            await app.publish("orders.placed", order)
            return
        except errors.StorageUnavailable:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)


async def test_a_function_that_fails_is_an_outage_and_is_asked_again(vault: Vault) -> None:
    app = Mainspring(vault.url, name="shop", schema=vault.role, auto_migrate=True)
    async with app:
        await app.publish("orders.placed", 1)
        vault.failing = RuntimeError("the vault is sealed, password=hunter2")
        vault.rotate()
        with pytest.raises(errors.StorageUnavailable) as caught:
            await asyncio.wait_for(pinged(app, "function"), 30)
        vault.failing = None
        await publish(app, 2)

    said = str(caught.value)
    assert "the function that gives the URL failed: RuntimeError: the vault is sealed" in said
    assert "hunter2" not in said


async def pinged(app: Mainspring, until: str) -> None:
    """Ping until that is said: a connection that was there may have to be found dead first."""
    storage = await app._connection.storage("a test")
    while True:
        try:
            await storage.ping()
        except errors.StorageError as error:
            if until in str(error):
                raise


async def test_a_password_that_is_not_known_yet_is_an_outage(vault: Vault) -> None:
    app = Mainspring(vault.url, name="shop", schema=vault.role, auto_migrate=True)
    async with app:
        await app.publish("orders.placed", 1)
        known = vault.password
        vault.rotate()
        vault.password, fresh = known, vault.password  # the vault is a moment behind the server
        with pytest.raises(errors.StorageUnavailable, match="authentication failed"):
            await asyncio.wait_for(pinged(app, "authentication"), 30)
        vault.password = fresh
        await publish(app, 2)
        found = await app.messages.list("parked")

    assert len(found) == 2


async def test_an_open_app_does_not_move_to_another_database(vault: Vault) -> None:
    place = ["postgres"]
    app = Mainspring(lambda: vault.url().replace("/postgres", f"/{place[0]}"), schema=vault.role, auto_migrate=True)
    async with app:
        await app.publish("orders.placed", 1)
        place[0] = "template1"
        vault.rotate()
        with pytest.raises(
            errors.StorageUnavailable, match="names another database than the one the app was opened on"
        ):
            await asyncio.wait_for(pinged(app, "function"), 30)
