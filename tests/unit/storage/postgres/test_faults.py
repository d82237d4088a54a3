"""What the driver says becomes ours: whether trying again is right, and never a password."""

import subprocess
import sys
from datetime import timedelta

import asyncpg
import pytest

from mainspring.model.errors import BadOption, SchemaMissing, StorageError, StorageUnavailable
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres import faults as said

SECRET = "s3cr3t/word"
DSN = "postgresql://ann:s3cr3t%2Fword@127.0.0.1:1/shop"


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
        ConnectionRefusedError(111, "refused"),
        TimeoutError(),
    ],
)
def test_what_passes_by_itself_is_unavailable(error: Exception) -> None:
    assert type(said.translated(error, ())) is StorageUnavailable


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InsufficientPrivilegeError("permission denied"),
        asyncpg.InvalidPasswordError("password authentication failed"),
        asyncpg.UniqueViolationError("duplicate key"),
        asyncpg.DataError("invalid input for query argument $1"),
        UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed"),
    ],
)
def test_what_does_not_pass_is_an_error(error: Exception) -> None:
    assert type(said.translated(error, ())) is StorageError


def test_missing_tables_say_what_to_run() -> None:
    error = said.translated(asyncpg.UndefinedTableError("relation does not exist"), ())

    assert type(error) is SchemaMissing
    assert "mainspring migrate" in str(error)


def test_a_password_is_struck_out_as_written_and_as_meant() -> None:
    secrets = said.secrets_of(DSN)

    error = said.translated(asyncpg.PostgresError(f"{SECRET} and s3cr3t%2Fword"), secrets)

    assert "s3cr3t" not in str(error)
    assert "*** and ***" in str(error)


def test_a_password_in_a_parameter_is_a_secret_too() -> None:
    assert said.secrets_of("postgresql://host/shop?password=hush") == ("hush",)


async def test_a_server_that_is_away_is_said_without_the_password() -> None:
    storage = PostgresStorage(DSN)

    with pytest.raises(StorageUnavailable) as caught:
        await storage.ping()

    assert "s3cr3t" not in f"{caught.value!r} {caught.value.__cause__!r} {storage!r}"


async def test_a_url_that_cannot_be_read_is_not_repeated() -> None:
    storage = PostgresStorage("postgresql://ann:s3cr3t@ho st:port/shop")

    with pytest.raises(BadOption) as caught:
        await storage.ping()

    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("options", [{"pool_size": 0}, {"timeout": timedelta()}])
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadOption):
        PostgresStorage(DSN, **options)  # type: ignore[arg-type]


def test_without_the_driver_the_extra_is_named_and_the_scripts_still_load() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from mainspring.storage.postgres.mailbox import PostgresMailbox\n"
        "from mainspring.storage.postgres import PostgresStorage\n"
        "PostgresStorage.ddl()\n"
        "try: PostgresStorage('postgresql://host/shop')\n"
        "except ImportError as error: print(error)\n"
    )

    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert printed == "PostgreSQL needs asyncpg: pip install 'mainspring[postgres]'\n"
