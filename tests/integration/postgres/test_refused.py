"""A server that answers and says no: the same error with either driver, and no secret in it."""

from collections.abc import Iterator

import psycopg
import pytest

from mainspring.model.errors import NotGranted, StorageError, StorageUnavailable
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName, SettingsRefused, choose
from tests.integration.postgres.acting import DRIVERS
from tests.services.cluster import Cluster
from tests.services.postgres import private_server

pytestmark = pytest.mark.parametrize("driver", DRIVERS)

HBA = """
host all postgres 127.0.0.1/32 trust
host all stranger 127.0.0.1/32 reject
host all all 127.0.0.1/32 scram-sha-256
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that asks for passwords; ann has one, and so has bob, who may never come in."""
    with private_server(tmp_path_factory.mktemp("guarded")) as server:
        (server.data / "pg_hba.conf").write_text(HBA)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 's3cr3t'")
            connection.execute("CREATE ROLE bob LOGIN PASSWORD 's3cr3t' CONNECTION LIMIT 0")
            connection.execute("CREATE DATABASE private")
            connection.execute("REVOKE CONNECT ON DATABASE private FROM PUBLIC")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.parametrize(
    ("who", "database", "error", "words"),
    [
        (
            "ann:wr0ng",
            "postgres",
            StorageError,
            'password authentication failed for user "ann" (28P01): correct the role or its password in the URL',
        ),
        ("nobody:s3cr3t", "postgres", StorageError, 'password authentication failed for user "nobody" (28P01)'),
        ("stranger:s3cr3t", "postgres", StorageError, "(28000)"),
        (
            "ann:s3cr3t",
            "nowhere",
            StorageError,
            'database "nowhere" does not exist (3D000): run `createdb nowhere`, or correct the database in the URL',
        ),
        (
            "ann:s3cr3t",
            "private",
            NotGranted,
            'permission denied for database "private"',
        ),
        ("ann:s3cr3t", "private", NotGranted, 'run GRANT CONNECT ON DATABASE "private" TO "ann"; as its owner'),
        ("bob:s3cr3t", "postgres", StorageUnavailable, 'too many connections for role "bob"'),
    ],
)
async def test_who_is_turned_away_is_told_why(
    guarded: Cluster, driver: DriverName, who: str, database: str, error: type[StorageError], words: str
) -> None:
    storage = PostgresStorage(f"postgresql://{who}@127.0.0.1:{guarded.port}/{database}", driver=driver)

    with pytest.raises(StorageError) as caught:
        await storage.ping()

    assert type(caught.value) is error
    assert words in str(caught.value)
    role = who.partition(":")[0]
    where = f"127.0.0.1:{guarded.port} (database '{database}', role '{role}')"
    assert str(caught.value).startswith(f"PostgreSQL at {where} ")
    assert who.partition(":")[2] not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_who_knows_the_password_is_let_in(guarded: Cluster, driver: DriverName) -> None:
    storage = PostgresStorage(f"postgresql://ann:s3cr3t@127.0.0.1:{guarded.port}/postgres", driver=driver)

    assert await storage.schema.version() == 0
    await storage.close()


async def test_a_setting_that_is_refused_is_told_apart(guarded: Cluster, driver: DriverName) -> None:
    with pytest.raises(SettingsRefused):
        await choose(driver).connect(guarded.url, {"jit": "off", "no_such_setting": "1"}, 5)


async def failure(url: str, driver: DriverName) -> StorageUnavailable:
    storage = PostgresStorage(url, driver=driver)
    with pytest.raises(StorageUnavailable) as caught:
        await storage.ping()
    return caught.value


async def test_a_server_that_is_not_there_is_named(driver: DriverName) -> None:
    refused = await failure("postgresql://ann:s3cr3t@127.0.0.1:1/shop", driver)
    unknown = await failure("postgresql://ann:s3cr3t@nowhere.invalid/shop", driver)

    assert str(refused).startswith("PostgreSQL at 127.0.0.1:1 (database 'shop', role 'ann') cannot be reached: ")
    assert str(unknown).startswith("PostgreSQL at nowhere.invalid:5432 (database 'shop', role 'ann') cannot be reached")
    assert "is the server running" in str(refused).lower()  # psycopg's own text asks that, too
    assert "s3cr3t" not in f"{refused!r} {unknown!r} {refused.__cause__!r} {unknown.__cause__!r}"


async def test_an_at_sign_in_a_password_is_explained_and_no_part_of_it_shown(driver: DriverName) -> None:
    error = await failure("postgresql://ann:hun@ter2@127.0.0.1:1/shop", driver)

    told = str(error)
    assert told.startswith("PostgreSQL at 127.0.0.1:1 (database 'shop', role 'ann') cannot be reached: ")
    assert told.endswith(
        "the password in the URL has an unescaped '@', and may be read otherwise than meant: write %40"
    )
    assert "hun" not in f"{told} {error.__cause__!r}"
    assert "ter2" not in f"{told} {error.__cause__!r}"
