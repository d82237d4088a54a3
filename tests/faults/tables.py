"""The tables as an independent client reads them: plain SQL, another driver, none of our code."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import psycopg


class KeptRun(NamedTuple):
    id: UUID
    attempt: int
    status: str
    kind: str | None
    output: str | None


class Buried(NamedTuple):
    id: UUID
    kind: str
    deaths: int
    attempt: int


class Tables(Protocol):
    """What the tests ask of a database."""

    def live(self) -> int:
        """Deliveries that have not ended."""
        ...

    def held(self) -> int:
        """Deliveries that somebody holds."""
        ...

    def accused(self) -> set[UUID]:
        """Messages of live deliveries that have deaths."""
        ...

    def runs(self) -> list[KeptRun]: ...

    def buried(self) -> list[Buried]: ...

    def messages(self) -> list[UUID]: ...

    def roster(self) -> set[int]:
        """The process ids of workers that reported themselves."""
        ...


class _Reading:
    prefix: str

    def rows(self, query: str) -> Sequence[Any]:
        raise NotImplementedError

    def live(self) -> int:
        return int(self.rows(f"SELECT count(*) FROM {self.prefix}delivery")[0][0])

    def held(self) -> int:
        return int(self.rows(f"SELECT count(*) FROM {self.prefix}delivery WHERE held_by IS NOT NULL")[0][0])

    def accused(self) -> set[UUID]:
        return {as_uuid(row[0]) for row in self.rows(f"SELECT message_id FROM {self.prefix}delivery WHERE deaths > 0")}

    def epochs(self) -> dict[int, int]:
        """The epoch of every live delivery."""
        return dict(self.rows(f"SELECT seq, epoch FROM {self.prefix}delivery"))

    def holders(self) -> dict[int, str]:
        """What every delivery is held by that is held."""
        return dict(self.rows(f"SELECT seq, held_by FROM {self.prefix}delivery WHERE held_by IS NOT NULL"))

    def runs(self) -> list[KeptRun]:
        rows = self.rows(f"SELECT message_id, attempt, status, kind, output FROM {self.prefix}run ORDER BY id")
        return [KeptRun(as_uuid(row[0]), *row[1:]) for row in rows]

    def buried(self) -> list[Buried]:
        rows = self.rows(f"SELECT message_id, kind, deaths, attempt FROM {self.prefix}dead")
        return [Buried(as_uuid(row[0]), *row[1:]) for row in rows]

    def messages(self) -> list[UUID]:
        return [as_uuid(row[0]) for row in self.rows(f"SELECT id FROM {self.prefix}message")]

    def roster(self) -> set[int]:
        try:
            return {int(row[0]) for row in self.rows(f"SELECT pid FROM {self.prefix}worker")}
        except (psycopg.errors.UndefinedTable, sqlite3.OperationalError):
            return set()  # the first worker has not made the tables yet


@dataclass
class PostgresTables(_Reading):
    url: str
    schema: str

    def __post_init__(self) -> None:
        self.prefix = f"{self.schema}."
        self._connection: psycopg.Connection | None = None

    def rows(self, query: str) -> Sequence[Any]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self.url, autocommit=True, application_name="judge")
            return self._connection.execute(query).fetchall()
        except psycopg.OperationalError:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class SqliteTables(_Reading):
    path: Path
    schema: str

    def __post_init__(self) -> None:
        self.prefix = f"{self.schema}_"

    def rows(self, query: str) -> Sequence[Any]:
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing stays open."""


def tables_of(url: str, schema: str) -> PostgresTables | SqliteTables:
    """The tables at this address."""
    if url.startswith("sqlite"):
        return SqliteTables(Path(url.removeprefix("sqlite:///")), schema)
    return PostgresTables(url, schema)


def as_uuid(value: object) -> UUID:
    """A message id, however the database has it."""
    match value:
        case UUID():
            return value
        case bytes():
            return UUID(bytes=value)
        case _:
            return UUID(str(value))
