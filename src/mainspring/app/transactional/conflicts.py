"""Conflicts between transactions: failures that are nobody's mistake, and that another try cures."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from mainspring.model.errors import TransactionConflict

TRIES: Final = 5
"""How often a handler is called within one attempt, before a conflict counts as a failure like any other."""
_PAUSE = 0.01

_STATES = {
    "40001": "a serialization failure: another transaction has changed what this one read",
    "40P01": "a deadlock: this transaction and another waited for each other",
}
_SQLITE = {
    sqlite3.SQLITE_BUSY_SNAPSHOT: "a stale snapshot: another transaction has written since this one first read",
    sqlite3.SQLITE_BUSY: "a locked file: another transaction has been writing all the while",
    sqlite3.SQLITE_ABORT_ROLLBACK: "an undone transaction: it was ended before its handler returned",
}


def named(error: BaseException) -> str | None:
    """What kind of conflict it is, None where it is none. Drivers wrap each other's errors: it may lie beneath."""
    for each in _beneath(error):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(state, str) and state in _STATES:
            return _STATES[state]
        code = getattr(each, "sqlite_errorcode", None)
        if code in _SQLITE:
            return _SQLITE[code]
    return None


def pause(tries: int, chance: float) -> float:
    """Seconds to wait before the next try: whoever collided should not collide again."""
    return float(_PAUSE * 2**tries * (0.5 + chance))


def given_up(kind: str, error: BaseException) -> TransactionConflict:
    """The error of a handler whose transaction was in conflict every time."""
    return TransactionConflict(
        f"{kind}; {TRIES} tries in a row ended so, the last with {type(error).__name__}: {error}"
    )


def _beneath(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "orig", None) or error.__cause__
