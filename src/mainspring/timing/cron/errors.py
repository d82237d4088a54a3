"""The error in a cron expression, and its position."""

from __future__ import annotations

import re

_SPACE = re.compile(r"\s")


class CronError(ValueError):
    """Raised for text that is not a cron expression.

    ``column`` counts from 1 in the text as it was given; ``field`` is the name of the wrong field, or None for the
    expression as a whole. The message ends with the expression and a caret below the column.
    """

    def __init__(self, expression: str, column: int, field: str | None, problem: str) -> None:
        super().__init__(expression, column, field, problem)  # the arguments themselves, so that it can be pickled
        self.expression: str = expression
        self.column: int = column
        self.field: str | None = field
        self.problem: str = problem

    def __str__(self) -> str:
        """Format the field, what was found and what is allowed there, then show the position."""
        where = f"{self.field}: " if self.field else ""
        # A tab or a line break would misplace the caret.
        shown = _SPACE.sub(" ", self.expression)
        return f"bad cron expression: {where}{self.problem}\n  {shown}\n  {' ' * (self.column - 1)}^"
