"""The holder of a claim: a worker's name, and a token unique to one start of its process.

The database counts seqs and epochs, and repeats them after a failover or a restore. So every fenced write names its
holder as well (invariant 2). People see only the name.
"""

from __future__ import annotations

_MARK = "~"
_DIGITS = frozenset("0123456789abcdef")
TOKEN_BYTES = 8
"""Random bytes in a token, which is written in hexadecimal digits."""
_LENGTH = 2 * TOKEN_BYTES
# SQL statements that search a holder by name, or write the name into a run, contain this format, too.


def holder(name: str, token: str) -> str:
    """Return the holder of claims: unique to one start, if the token is."""
    return f"{name}{_MARK}{token}"


def shown(holder: str) -> str:
    """Return the name in it, for people. A holder without a token is a name, written by an earlier release."""
    name, mark, token = holder.rpartition(_MARK)
    return name if mark and len(token) == _LENGTH and _DIGITS.issuperset(token) else holder


def shown_or_none(holder: str | None) -> str | None:
    """Return the same for a delivery that may not be held."""
    return None if holder is None else shown(holder)
