"""Operations as generators of statements: written once, run by sync and async connections alike."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
_WRITTEN = re.compile(r"(?P<quote>'?)\bmainspring(?P<rest>\.|_\w*)")
Row = Sequence[Any]
"""A row, read by position: the order of columns is written in the ``.sql`` file beside the script."""


class Statement(NamedTuple):
    """One round trip."""

    sql: str
    args: tuple[Any, ...] = ()


Script = Generator[Statement, Sequence[Row], T]
"""Yields statements, receives their rows, returns the result of the operation. Does no I/O."""


class SyncConnection(Protocol):
    """A blocking connection that can run one statement."""

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it and return its rows, empty where it has none."""
        ...


class AsyncConnection(Protocol):
    """An asyncio connection that can run one statement."""

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it and return its rows, empty where it has none."""
        ...


def run(connection: SyncConnection, script: Script[T]) -> T:
    """Run the script over a blocking connection and return its result."""
    try:
        statement = next(script)
        while True:
            statement = script.send(connection.execute(statement))
    except StopIteration as stop:
        answer: T = stop.value
        return answer


async def run_async(connection: AsyncConnection, script: Script[T]) -> T:
    """Run the script over an asyncio connection and return its result."""
    try:
        statement = next(script)
        while True:
            rows = await connection.execute(statement)
            statement = script.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def prefixed(text: str, prefix: str) -> str:
    """Put the configured schema or prefix in place of the written one.

    A schema comes quoted. A table under a prefix is quoted here where its name needs it: not where the text has it in
    quotes already, as the value that a catalog is asked for.
    """
    return _WRITTEN.sub(lambda found: _named(found["quote"], prefix, found["rest"]), text)


def _named(quote: str, prefix: str, rest: str) -> str:
    if quote or rest.startswith(".") or prefix.isidentifier():
        return f"{quote}{prefix}{rest}"
    return f'"{prefix}{rest}"'
