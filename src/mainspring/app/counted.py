"""Counting what is published in a caller's transaction, when it is handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.message import Cancelled, Draft, Published, Receipt, Settled
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Keyed
from mainspring.storage.script import Script
from mainspring.storage.sql import MailboxScripts, Now

Count = Callable[[Iterable[Draft]], None]
"""Is told of messages that were stored."""


class Counts(Protocol):
    """Whoever tells of what it stores."""

    published: Count


def nobody(_drafts: Iterable[Draft]) -> None:
    """Nobody counts."""


class CountedPosting:
    """``Posting`` by a dialect's scripts. Whether the caller commits is not known here, and not counted."""

    def __init__(self, scripts: MailboxScripts, count: Count) -> None:
        self._scripts = scripts
        self._count = count

    def publish(self, drafts: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Posting.publish``."""
        published = yield from self._scripts.publish(drafts, now)
        self._count(each for each in drafts if each.id in published.stored)
        return published

    def publish_unique(self, draft: Draft, likeness: Likeness, now: Now) -> Script[Receipt]:
        """See ``Posting.publish_unique``."""
        receipt = yield from self._scripts.publish_unique(draft, likeness, now)
        if receipt.id == draft.id:
            self._count([draft])
        return receipt

    def join(self, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Posting.join``."""
        published = yield from self._scripts.join(join, members, now)
        self._count(each for each in members if each.id in published.stored)
        return published

    def pending(self, limits: Mapping[str, int], now: Now) -> Script[dict[str, int]]:
        """See ``Posting.pending``."""
        return self._scripts.pending(limits, now)

    def cancel(self, which: UUID | Keyed, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Posting.cancel``."""
        return self._scripts.cancel(which, reason, now)

    def settle(self, settlements: Sequence[Settlement], owner: str, now: Now) -> Script[Settled]:
        """See ``Posting.settle``."""
        return self._scripts.settle(settlements, owner, now, waits=True)
