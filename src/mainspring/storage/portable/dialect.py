"""What a dialect has for the operations that dialects share: statements, a clock and values; and its storage."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from mainspring.model.schedule import Note
from mainspring.model.views import BrokerLink
from mainspring.storage.contract import (
    Controls,
    Fanouts,
    Inbox,
    Leases,
    Ledger,
    Mailbox,
    Measures,
    Moves,
    OperationSet,
    PoolUse,
    Schema,
    Timetable,
    Upkeep,
)
from mainspring.storage.operation import Operations
from mainspring.storage.script import Row, Script, Statement

T = TypeVar("T")

_encode = msgspec.json.Encoder(order="deterministic").encode
read_mapping: Callable[[bytes | str], dict[str, str]] = msgspec.json.Decoder(dict[str, str]).decode
"""Read stored headers or options."""

read_links: Callable[[bytes | str], tuple[BrokerLink, ...]] = msgspec.json.Decoder(tuple[BrokerLink, ...]).decode
"""Read a worker's connections to brokers."""


def written_links(links: Sequence[BrokerLink]) -> str | None:
    """Write a worker's connections to brokers; None for one without any."""
    return _encode(links).decode() if links else None


def written_mapping(values: Mapping[str, Any]) -> str:
    """Write headers, options or a layer of a schedule: the same text for equal mappings, whatever their order."""
    return _encode(dict(values)).decode()


class Statements(Protocol):
    """The statements of one dialect."""

    def __call__(self, name: str, *args: Any) -> Statement:
        """Make the statement of this name."""
        ...

    def opening(self, name: str, *args: Any) -> Statement:
        """Make the statement of this name, as the first of several statements of one transaction."""
        ...


class Values(Protocol):
    """How one dialect writes values into statements and reads them from rows."""

    def id(self, id: UUID) -> Any:
        """Write an id."""
        ...

    def instant(self, at: datetime | None) -> Any:
        """Write an instant that may be missing."""
        ...

    def micros(self, at: datetime | None) -> int | None:
        """Write an instant that may be missing as microseconds since 1970."""
        ...

    def span(self, length: timedelta | None) -> Any:
        """Write a length of time that may be missing."""
        ...

    def text(self, text: str) -> str:
        """Write text that the dialect may be unable to store as it is."""
        ...

    def needle(self, text: str) -> Any:
        """Write text that is searched for in payloads."""
        ...

    def seqs(self, seqs: list[int]) -> Any:
        """Write seqs as one parameter."""
        ...

    def read_seqs(self, column: Any) -> list[int]:
        """Read seqs from one column."""
        ...

    def texts(self, texts: Iterable[str]) -> Any:
        """Write texts as one parameter."""
        ...

    def read_texts(self, column: Any) -> Sequence[str]:
        """Read texts from one column."""
        ...

    def rows(self, rows: Iterable[Sequence[Any]], width: int) -> tuple[Any, ...]:
        """Write rows of ``width`` names, numbers and booleans as parameters."""
        ...

    def read_instant(self, column: Any) -> datetime:
        """Read an instant."""
        ...

    def read_span(self, column: Any) -> timedelta:
        """Read a length of time."""
        ...

    def fields(self, kind: type, row: Row) -> Sequence[Any]:
        """Read a row whose columns are the first fields of a dataclass."""
        ...


class SqlOperations(Operations, ABC):
    """Base class of operations in SQL. Those on which dialects agree are written once, over what a dialect has here."""

    _sql: Statements
    _values: Values

    @abstractmethod
    def _read_clock(self) -> Script[Any]:
        """Return the time as a parameter; writes nothing."""

    @abstractmethod
    def _turn_clock(self) -> Script[Any]:
        """Return the same at the beginning of a script that will write."""

    @abstractmethod
    def _mark_clock(self, at: Any) -> Script[None]:
        """Store ``at``, which ``_read_clock`` returned, because something is written after all."""

    @abstractmethod
    def _ring(self) -> Statement:
        """Wake all listeners after the commit."""

    def _note(self, at: Any, note: Note, *subjects: str) -> Statement:
        """Add a line to the audit for each subject, and return their ids."""
        values = self._values
        texts = values.texts(map(values.text, subjects))
        return self._sql("audit_note", at, values.text(note.by), note.action, texts, values.text(note.detail))

    def _view(self, kind: type[T], row: Row) -> T:
        """Read a row whose columns are the fields of a dataclass."""
        return kind(*self._values.fields(kind, row))


class SqlStorage:
    """The part of ``Storage`` that is the same for every SQL database."""

    def __init__(self, operations: OperationSet) -> None:
        self.mailbox: Mailbox = operations.mailbox
        self.ledger: Ledger = operations.ledger
        self.controls: Controls = operations.controls
        self.upkeep: Upkeep = operations.upkeep
        self.timetable: Timetable = operations.timetable
        self.inbox: Inbox = operations.inbox
        self.leases: Leases = operations.leases
        self.fanouts: Fanouts = operations.fanouts
        self.measures: Measures = operations.measures
        self.moves: Moves = operations.moves
        self.schema: Schema = operations.schema
        self._ping = operations.ping

    def pool(self) -> PoolUse:
        """See ``Storage.pool``. One connection, that is never waited for."""
        return PoolUse()

    async def ping(self) -> timedelta:
        start = time.perf_counter()
        await self._ping()
        return timedelta(seconds=time.perf_counter() - start)
