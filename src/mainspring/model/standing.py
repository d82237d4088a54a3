"""Whether what a process has declared stands: by whom it was declared, and what came of declaring it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

Subscription = tuple[str, str]
"""A group and a pattern of topics."""

SILENT_AFTER = timedelta(minutes=5)
"""A process that has declared nothing for so long keeps no subscription, if another has been there all that time."""
FORGOTTEN_AFTER = 2 * SILENT_AFTER
"""What a silent process has declared is kept for so long at the least, however soon workers are forgotten."""
SEEN_EVERY = timedelta(seconds=20)
"""How often it is written down that a process still declares the same."""


@dataclass(frozen=True, slots=True)
class Declarer:
    """Who declares: a worker by its name on the roster, and which start of it; or a queue by its group and topics.

    What a worker declares is kept while it declares the same again every few seconds, and until its farewell. Queues
    say no farewell: theirs is kept until it has not been declared for long.
    """

    worker: str
    start_id: str
    again: bool = False
    """Whether it has declared the same since its start: then a group that is gone was retired, and stays so."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a declaration has changed."""

    added: tuple[Subscription, ...] = ()
    """Subscriptions that were missing."""
    removed: tuple[Subscription, ...] = ()
    """Subscriptions that no process had declared any more."""
    retired: tuple[str, ...] = ()
    """Groups that were retired since they were declared: they stay so."""
