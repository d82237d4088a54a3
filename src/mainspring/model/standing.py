"""Declarations of a process: who declares, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

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

    A worker's declarations are kept while it repeats them every few seconds, and until its farewell. Queues have no
    farewell: theirs are kept until they have not been repeated for long.
    """

    worker: str
    start_id: str
    again: bool = False
    """Whether it repeats a declaration: a group that is missing then was retired, and stays so."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The result of a declaration."""

    added: tuple[Subscription, ...] = ()
    """Subscriptions that were missing."""
    removed: tuple[Subscription, ...] = ()
    """Subscriptions that no process declared any more."""
    retired: tuple[str, ...] = ()
    """Groups that were retired since they were declared: they stay so."""
