"""What is wrong with a cron expression, and where."""

from __future__ import annotations

import re

_SPACE = re.compile(r"\s")


class CronError(ValueError):
    """Text that is not a cron expression.

    ``column`` counts from 1 in the text as it was given; ``field`` is the name of the field that is wrong,
    or None when it is the expression as a whole. The message ends with the expression and a caret below the column.
    """

    def __init__(self, expression: str, column: int, field: str | None, problem: str) -> None:
        super().__init__(expression, column, field, problem)  # the arguments themselves, so that it can be pickled
        self.expression: str = expression
        self.column: int = column
        self.field: str | None = field
        self.problem: str = problem

    def __str__(self) -> str:
        """Say the field, what was found there and what may stand there, then show the place."""
        where = f"{self.field}: " if self.field else ""
        # A tab or a line break would move the caret away from what it points at.
        shown = _SPACE.sub(" ", self.expression)
        return f"bad cron expression: {where}{self.problem}\n  {shown}\n  {' ' * (self.column - 1)}^"
