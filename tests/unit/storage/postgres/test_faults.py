"""What the driver says becomes ours: whether trying again is right, and never a password."""

from datetime import timedelta

import asyncpg
import psycopg
import pytest
from psycopg import errors

from mainspring.model.errors import BadOption, NotGranted, SchemaMissing, StorageError, StorageUnavailable
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres import errors as said
from mainspring.storage.postgres.driver import DriverName, choose

DRIVERS: tuple[DriverName, ...] = ("asyncpg", "psycopg")
SECRET = "s3cr3t/word"
DSN = "postgresql://ann:s3cr3t%2Fword@127.0.0.1:1/shop"


def translated(error: Exception, secrets: tuple[str, ...] = ()) -> Exception:
    """In our words, by the driver whose error it is."""
    driver = choose("psycopg" if isinstance(error, psycopg.Error) else "asyncpg")
    return said.translated(error, driver.refusal(error), secrets)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.AdminShutdownError("terminating connection"),
        asyncpg.CannotConnectNowError("starting up"),
        asyncpg.TooManyConnectionsError("too many clients"),
        asyncpg.DeadlockDetectedError("deadlock detected"),
        asyncpg.SerializationError("could not serialize"),
        asyncpg.QueryCanceledError("statement timeout"),
        asyncpg.DiskFullError("no space left"),
        asyncpg.ReadOnlySQLTransactionError("read only"),
        asyncpg.ConnectionDoesNotExistError("closed in the middle"),
        asyncpg.InvalidCachedStatementError("cached plan"),
        asyncpg.InterfaceError("connection is closed"),
        errors.AdminShutdown("terminating connection"),
        errors.DeadlockDetected("deadlock detected"),
        errors.QueryCanceled("statement timeout"),
        errors.ReadOnlySqlTransaction("read only"),
        psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"),
        psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"),
        psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already"),
        psycopg.OperationalError('connection to server on socket "/tmp/x" failed: No such file or directory'),
        psycopg.InterfaceError("the connection is closed"),
        ConnectionRefusedError(111, "refused"),
        TimeoutError(),
    ],
)
def test_what_passes_by_itself_is_unavailable(error: Exception) -> None:
    assert type(translated(error)) is StorageUnavailable


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InvalidPasswordError("password authentication failed"),
        asyncpg.UniqueViolationError("duplicate key"),
        asyncpg.DataError("invalid input for query argument $1"),
        errors.UniqueViolation("duplicate key"),
        psycopg.DataError("PostgreSQL text fields cannot contain NUL"),
        psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "ann"'),
        psycopg.OperationalError('connection failed: FATAL:  database "shop" does not exist'),
        psycopg.OperationalError('connection failed: FATAL:  role "ann" does not exist'),
        psycopg.OperationalError("connection failed: fe_sendauth: no password supplied"),
        psycopg.OperationalError('connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "ann"'),
        UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed"),
    ],
)
def test_what_does_not_pass_is_an_error(error: Exception) -> None:
    assert type(translated(error)) is StorageError


@pytest.mark.parametrize(
    "error",
    [asyncpg.InsufficientPrivilegeError("permission denied"), errors.InsufficientPrivilege("permission denied")],
)
def test_a_right_that_is_lacking_says_who_names_it(error: Exception) -> None:
    ours = translated(error)

    assert type(ours) is NotGranted
    assert "mainspring doctor" in str(ours)


@pytest.mark.parametrize("error", [asyncpg.UndefinedTableError("no relation"), errors.UndefinedTable("no relation")])
def test_missing_tables_say_what_to_run(error: Exception) -> None:
    ours = translated(error)

    assert type(ours) is SchemaMissing
    assert "mainspring migrate" in str(ours)


@pytest.mark.parametrize("kind", [asyncpg.PostgresError, errors.UniqueViolation, psycopg.OperationalError])
def test_a_password_is_struck_out_as_written_and_as_meant(kind: type[Exception]) -> None:
    secrets = said.secrets_of(DSN)

    error = translated(kind(f"{SECRET} and s3cr3t%2Fword"), secrets)

    assert "s3cr3t" not in str(error)
    assert "*** and ***" in str(error)


def test_a_password_in_a_parameter_is_a_secret_too() -> None:
    assert said.secrets_of("postgresql://host/shop?password=hush") == ("hush",)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_server_that_is_away_is_said_without_the_password(driver: DriverName) -> None:
    storage = PostgresStorage(DSN, driver=driver)

    with pytest.raises(StorageUnavailable) as caught:
        await storage.ping()

    assert "s3cr3t" not in f"{caught.value!r} {caught.value.__cause__!r} {storage!r}"


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_url_that_cannot_be_read_is_not_repeated(driver: DriverName) -> None:
    with pytest.raises(BadOption) as caught:
        await PostgresStorage("postgresql://ann:s3cr3t@ho st:port/shop", driver=driver).ping()

    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("options", [{"pool_size": 0}, {"timeout": timedelta()}])
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadOption):
        PostgresStorage(DSN, **options)  # type: ignore[arg-type]
