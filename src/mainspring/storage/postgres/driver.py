"""What the storage needs of a PostgreSQL driver, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from mainspring.model.errors import MissingExtra

DriverName = Literal["asyncpg", "psycopg"]
"""The drivers there are. Where none is named, asyncpg is taken if it is installed: it needs half the CPU."""

NAME = "mainspring"
"""How our sessions are called in ``pg_stat_activity``."""

Ears = Mapping[str, Callable[[str], None]]
"""The listener of each channel."""


class Refusal(NamedTuple):
    """An error of the server."""

    state: str
    """The SQLSTATE."""
    outdated: bool = False
    """Whether a prepared statement no longer fits the tables: a migration came in between."""


class SettingsRefused(Exception):
    """The server or pooler rejects a setting of the connection."""


class Connection(Protocol):
    """One connection, used by one at a time. Outside of BEGIN and COMMIT every statement commits by itself.

    A call that is cancelled leaves a connection that can only be terminated.
    """

    @property
    def raw(self) -> Any:
        """The driver's own connection."""
        ...

    def is_closed(self) -> bool:
        """Whether either side has ended it, as far as can be known without a round trip."""
        ...

    async def fetch(self, sql: str, /, *args: Any) -> Any:
        """Run one statement, prepared where statements are kept, and return its rows, to be read by position."""
        ...

    async def execute(self, sql: str, /) -> Any:
        """Run any number of statements without parameters, and drop what they answer."""
        ...

    async def listen(self, ears: Ears, lost: Callable[[], None]) -> None:
        """Listen until the connection ends, then call ``lost``. Statements may be run in between."""
        ...

    def major(self) -> int:
        """The server's major version."""
        ...

    def server_pid(self) -> int:
        """Return the reported id of the serving process; behind a pooler it is none of the server's."""
        ...

    def terminate(self) -> None:
        """End it at once, also while a call waits on it."""
        ...

    async def hang_up(self) -> None:
        """End it in good order, or at once where the other side does not answer."""
        ...


class Driver(Protocol):
    """Opens connections, and knows what the errors on them mean."""

    errors: tuple[type[Exception], ...]
    """What it raises, besides OSError and TimeoutError."""

    async def connect(self, dsn: str, settings: Mapping[str, str] | None, patience: float) -> Connection:
        """Open a connection within so many seconds; raises SettingsRefused if it is the settings' fault.

        Without settings it is one to a pooler, where every transaction may be in another session: then nothing
        is prepared.
        """
        ...

    def refusal(self, error: BaseException) -> Refusal | None:
        """Return the server's error; None if it is not the server's, so that the state of the connection is unknown."""
        ...


def choose(name: DriverName | None) -> Driver:
    """The driver of this name, or the first that is installed."""
    if name is not None:
        driver = _load(name)
        if driver is None:
            raise MissingExtra(name, _EXTRAS[name], f"postgresql+{name}://")
        return driver
    for each in _EXTRAS:
        driver = _load(each)
        if driver is not None:
            return driver
    raise MissingExtra("asyncpg or psycopg", "postgres", "PostgreSQL", or_extra="psycopg")


_EXTRAS: dict[DriverName, str] = {"asyncpg": "postgres", "psycopg": "psycopg"}


def _load(name: DriverName) -> Driver | None:
    try:
        if name == "asyncpg":
            from mainspring.storage.postgres.asyncpg_driver import AsyncpgDriver

            return AsyncpgDriver()
        from mainspring.storage.postgres.psycopg_driver import PsycopgDriver

        return PsycopgDriver()
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
