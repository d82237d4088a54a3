"""Scripts without a database: canned rows in, the statements that were asked for out."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mainspring.storage.portable.statements import load
from mainspring.storage.script import Row, Script, Statement, run
from mainspring.storage.sqlite.dialect import PACKAGE

T = TypeVar("T")
NOON = 1_893_499_200_000_000
"""Noon on 1 January 2030, in microseconds."""


class Counting:
    """``script.Connection`` that answers by the name of a statement, and remembers the names in order."""

    def __init__(self, answers: Mapping[str, Sequence[Row]], prefix: str = "mainspring") -> None:
        self._answers = {_head(load(PACKAGE, name, prefix)): (name, rows) for name, rows in answers.items()}
        self.asked: list[str] = []
        self.statements: list[Statement] = []

    def execute(self, statement: Statement) -> Sequence[Row]:
        name, rows = self._answers.get(_head(statement.sql), ("", ()))
        self.asked.append(name)
        self.statements.append(statement)
        return rows


def drive(connection: Counting, script: Script[T]) -> T:
    return run(connection, script)


def _head(sql: str) -> str:
    # A many-row INSERT differs from its file only after VALUES.
    return sql.split("VALUES", 1)[0]
