"""The holder of a claim: a worker's name, and a token that one start of its process has and no other.

The database counts seqs and epochs, and counts them again after a failover or a restore. So every fenced write names
its holder as well (invariant 2). People are shown the name alone.
"""

from __future__ import annotations

_MARK = "~"
_DIGITS = frozenset("0123456789abcdef")
TOKEN_BYTES = 8
"""Random bytes in a token, which is written in hexadecimal digits."""
_LENGTH = 2 * TOKEN_BYTES
# The statements that look for a holder by its name, or write the name into a run, have this form in them, too.


def holder(name: str, token: str) -> str:
    """What claims are held by: unique to one start, where the token is."""
    return f"{name}{_MARK}{token}"


def shown(holder: str) -> str:
    """The name in it, for people. What has no token is a name: an earlier release has written it."""
    name, mark, token = holder.rpartition(_MARK)
    return name if mark and len(token) == _LENGTH and _DIGITS.issuperset(token) else holder


def shown_or_none(holder: str | None) -> str | None:
    """The same of a delivery that may be held by none."""
    return None if holder is None else shown(holder)
