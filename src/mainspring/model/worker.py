"""Workers as values: the holder of a claim, the name on the roster, and the declarations of a process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

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


def roster_name(app: str, name: str) -> str:
    """Return the roster name of an app's worker, with the app as it is stored."""
    return f"{app}/{name}"


def own_name(app: str, roster_name: str) -> str:
    """Return a worker's own name. Earlier releases used only that on the roster."""
    return roster_name.removeprefix(f"{app}/")


Subscription = tuple[str, str]
"""A group and a pattern of topics."""

SILENT_AFTER = timedelta(minutes=5)
"""A process that has declared nothing for so long keeps no subscription, if another one was active all that time."""
FORGOTTEN_AFTER = 2 * SILENT_AFTER
"""The minimum time for which a silent process's declarations are kept, even if workers are pruned sooner."""
SEEN_EVERY = timedelta(seconds=20)
"""How often a repeated declaration is written."""


@dataclass(frozen=True, slots=True)
class Declarer:
    """The declaring process: a worker by its roster name and start, or a queue by its group and topics.

    A worker's declarations are kept while it repeats them every few seconds, and until it deregisters. Queues do not
    deregister: theirs are kept until they have not been repeated for long.
    """

    worker: str
    start_id: str
    again: bool = False
    """Whether it repeats a declaration: a group that is missing then was retired, and stays so."""


@dataclass(frozen=True, slots=True)
class DeclareResult:
    """The result of a declaration."""

    added: tuple[Subscription, ...] = ()
    """Subscriptions that were missing."""
    removed: tuple[Subscription, ...] = ()
    """Subscriptions that no process declared any more."""
    retired: tuple[str, ...] = ()
    """Groups that were retired since they were declared: they stay so."""
