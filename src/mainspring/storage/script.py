"""Operations as generators of statements: written once, run by sync and async connections alike."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
_NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_WRITTEN = re.compile(r"(?P<quote>'?)\bmainspring(?P<rest>\.|_\w*)")
Row = Sequence[Any]
"""A row, read by position: the order of columns is written in the ``.sql`` file beside the script."""


class Statement(NamedTuple):
    """One round trip."""

    sql: str
    args: tuple[Any, ...] = ()


Script = Generator[Statement, Sequence[Row], T]
"""Yields statements, receives their rows, returns the operation's answer. No I/O in it."""


class Connection(Protocol):
    """A blocking connection that can run one statement."""

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it and return its rows, empty where it has none."""
        ...


class AsyncConnection(Protocol):
    """An asyncio connection that can run one statement."""

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it and return its rows, empty where it has none."""
        ...


def run(connection: Connection, script: Script[T]) -> T:
    """Drive the script to its answer over a blocking connection."""
    try:
        statement = next(script)
        while True:
            statement = script.send(connection.execute(statement))
    except StopIteration as stop:
        answer: T = stop.value
        return answer


async def run_async(connection: AsyncConnection, script: Script[T]) -> T:
    """Drive the script to its answer over an asyncio connection."""
    try:
        statement = next(script)
        while True:
            rows = await connection.execute(statement)
            statement = script.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


@cache
def load(package: str, name: str, prefix: str) -> str:
    """The statement of a dialect that is called this. It runs as it stands; only the prefix is replaced.

    PostgreSQL's are written with tables as ``mainspring.delivery`` (a schema), the others with ``mainspring_delivery``.
    """
    return prefixed(statements(package)[name], prefix)


@cache
def statements(package: str) -> Mapping[str, str]:
    """All statements of a dialect by name: each begins with a line ``-- name: claim`` in a file of ``sql/``."""
    found: dict[str, str] = {}
    for file in (files(package) / "sql").iterdir():
        if not file.name.endswith(".sql"):
            continue
        _, *parts = _NAMED.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"{package} has two statements called {name!r}: rename one of them")
            found[name] = text.strip("\n")
    return found


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
