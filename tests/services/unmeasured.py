"""Processes whose lines are not counted."""

import os


def unmeasured() -> dict[str, str]:
    """The environment without what makes coverage follow a process.

    Following one costs a short command two thirds more. It is left out for pages, examples and the workers of fault
    runs (many of which are killed and could tell nothing): nearly all of their lines are measured elsewhere.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}
