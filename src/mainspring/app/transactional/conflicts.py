"""Conflicts between transactions: failures that are nobody's mistake, and that another try cures."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from mainspring.model.errors import TransactionConflict
from mainspring.model.wording import described

TRIES: Final = 5
"""How often a handler is called within one attempt, before a conflict counts as a failure like any other."""
_PAUSE = 0.01

_STATES = {
    "40001": "a serialization failure: another transaction has changed what this one read",
    "40P01": "a deadlock: this transaction and another waited for each other",
}
_LOCKED = "55P03"
_SQLITE = {
    sqlite3.SQLITE_BUSY_SNAPSHOT: "a stale snapshot: another transaction has written since this one first read",
    sqlite3.SQLITE_BUSY: "a locked file: another transaction has been writing all the while",
    sqlite3.SQLITE_ABORT_ROLLBACK: "an undone transaction: it was ended before its handler returned",
}


def named(error: BaseException) -> str | None:
    """What kind of conflict it is, None where it is none. Drivers wrap each other's errors: it may lie beneath."""
    for each in _beneath(error):
        if (state := _state(each)) in _STATES:
            return _STATES[state]
        code = getattr(each, "sqlite_errorcode", None)
        if code in _SQLITE:
            return _SQLITE[code]
    return None


def is_locked_out(error: BaseException) -> bool:
    """Whether a lock was not to be had in time."""
    return any(_state(each) == _LOCKED for each in _beneath(error))


def pause(tries: int, chance: float) -> float:
    """Seconds to wait before the next try: whoever collided should not collide again."""
    return float(_PAUSE * 2**tries * (0.5 + chance))


def given_up(kind: str, error: BaseException) -> TransactionConflict:
    """The error of a handler whose transaction was in conflict every time."""
    return TransactionConflict(f"{kind}; {TRIES} tries in a row ended so, the last with {described(error)}")


def _state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _beneath(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and not any(error is each for each in seen):
        seen.append(error)  # causes may go round in a circle
        yield error
        inner = getattr(error, "orig", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__
