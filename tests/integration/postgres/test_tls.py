"""With ``require_tls`` no connection is opened without TLS, by either driver and for any purpose."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.app.observe.doctor import of_app
from mainspring.model.errors import BadOption, StorageUnavailable
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName
from mainspring.storage.postgres.tls import enforced
from tests.integration.app.shop import eventually
from tests.services.cluster import Cluster
from tests.services.tls import certified, tls_server

DRIVERS: tuple[DriverName, ...] = ("asyncpg", "psycopg")
PLAIN = (
    "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'mainspring' AND {}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    with tls_server(tmp_path_factory.mktemp("tls")) as made:
        yield made


def url(server: Cluster, driver: str, parameters: str = "") -> str:
    return server.url.replace("postgresql://", f"postgresql+{driver}://") + parameters


def count(server: Cluster, which: str) -> int:
    with psycopg.connect(server.url) as client:
        row = client.execute(PLAIN.format(which).encode()).fetchone()
    assert row is not None
    return int(row[0])


async def answered(answer: bool) -> bool:
    return answer


@pytest.mark.parametrize("driver", DRIVERS)
async def test_every_connection_of_a_worker_is_encrypted(server: tuple[Cluster, Path], driver: str) -> None:
    cluster, _ = server
    app = Mainspring(url(cluster, driver), name="shop", schema=f"tls_{driver}", require_tls=True, auto_migrate=True)
    seen: list[Any] = []

    @app.consumer("orders", transactional=True)
    async def ship(order: int) -> None:
        seen.append((count(cluster, "ssl"), count(cluster, "NOT ssl")))

    @app.consumer("orders", transactional=True)
    def bill(order: int) -> None:
        seen.append((count(cluster, "ssl"), count(cluster, "NOT ssl")))

    async with app.worker():
        await app.publish("orders", 1)
        await eventually(lambda: answered(len(seen) == 2))

    assert all(plain == 0 and encrypted >= 4 for encrypted, plain in seen), seen


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_stricter_mode_of_the_url_is_kept(
    server: tuple[Cluster, Path], driver: DriverName, tmp_path: Path
) -> None:
    cluster, certificate = server
    known = url(cluster, driver, f"?sslmode=verify-full&sslrootcert={certificate}")
    other, _ = certified(tmp_path)
    stranger = url(cluster, driver, f"?sslmode=verify-full&sslrootcert={other}")

    assert await Mainspring(known, schema=f"tls_known_{driver}", require_tls=True).migrate()
    storage = PostgresStorage(stranger.replace(f"+{driver}", ""), driver=driver, require_tls=True)
    with pytest.raises(StorageUnavailable, match="certificate verify failed"):
        await storage.ping()
    await storage.close()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_server_without_tls_is_not_connected_to(postgres_url: str, driver: DriverName) -> None:
    storage = PostgresStorage(postgres_url, driver=driver, require_tls=True)

    with pytest.raises(StorageUnavailable, match=r"(?i)ssl"):
        await storage.ping()
    await storage.close()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_socket_is_refused_since_it_is_never_encrypted(tmp_path: Path, driver: DriverName) -> None:
    with tls_server(tmp_path, unix_socket_directories="/tmp") as (cluster, _):
        local = f"postgresql://postgres@/postgres?host=/tmp&port={cluster.port}"
        storage = PostgresStorage(local, driver=driver, require_tls=True)
        with pytest.raises(StorageUnavailable, match="the connection is not encrypted, and require_tls is set"):
            await storage.ping()
        await storage.close()
        with psycopg.connect(cluster.url) as client:
            left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mainspring'"
            assert client.execute(left).fetchone() == (0,)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "nonsense"])
def test_a_mode_that_guarantees_nothing_is_refused(mode: str) -> None:
    with pytest.raises(BadOption, match=f"sslmode={mode} in the URL does not guarantee TLS: write sslmode=require, or"):
        Mainspring(f"postgresql://ann:s3cret@db/shop?sslmode={mode}", require_tls=True)


def test_a_variable_that_guarantees_nothing_is_refused_and_a_strict_one_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGSSLMODE", "prefer")
    with pytest.raises(BadOption, match="PGSSLMODE=prefer does not guarantee TLS: set PGSSLMODE=require"):
        Mainspring("postgresql://db/shop", require_tls=True)

    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert enforced("postgresql://db/shop") == "postgresql://db/shop"
    monkeypatch.delenv("PGSSLMODE")
    assert enforced("postgresql://db/shop") == "postgresql://db/shop?sslmode=require"
    assert enforced("postgresql://db/shop?port=1") == "postgresql://db/shop?port=1&sslmode=require"


async def test_a_function_cannot_give_a_url_without_tls(server: tuple[Cluster, Path]) -> None:
    cluster, _ = server
    urls = iter([cluster.url, cluster.url, cluster.url + "?sslmode=disable"])
    app = Mainspring(lambda: next(urls), schema="tls_function", require_tls=True)

    async with app:
        with pytest.raises(StorageUnavailable, match="require_tls is set, and sslmode=disable in the URL"):
            await app.stats.roster()


async def test_it_is_an_option_of_the_environment_and_without_effect_on_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSPRING_REQUIRE_TLS", "true")
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    async with app:
        await app.publish("orders", 1)

    (told,) = [each for each in await of_app(app, None, "") if each.about == "require_tls"]
    assert told.summary == "set by MAINSPRING_REQUIRE_TLS, and without effect: the database is sqlite"
