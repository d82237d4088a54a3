"""What all queues of one app share in this process: whose groups are theirs, and the one suspect."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from mainspring.model.errors import Conflict
from mainspring.model.views import Declaration

if TYPE_CHECKING:
    from mainspring.app.queues.item import Held
    from mainspring.app.queues.terms import Terms


class Reserved:
    """The groups that are queues. A group belongs to exactly one consumer, and a queue is one."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms | None] = {}
        self._suspect: Held | None = None

    def __contains__(self, group: str) -> bool:
        """Whether a queue has this group."""
        return group in self._terms

    @property
    def declarations(self) -> list[Declaration]:
        """What the database is told of those that name their topics."""
        return [terms.declaration for terms in self._terms.values() if terms is not None]

    def take(self, terms: Terms) -> None:
        """Let a queue have its group; another one of the same group must name the same topics, or none."""
        known = self._terms.get(terms.group)
        if known is not None and terms.topics and set(known.topics) != set(terms.topics):
            raise Conflict(
                f"app.queue({terms.group!r}) was made for {', '.join(known.topics)} already, and now for "
                f"{', '.join(terms.topics)}: name the same topics, or none, since a group has one set of them"
            )
        self._terms[terms.group] = terms if terms.topics else known

    def holds_suspect(self, now: float) -> bool:
        """Whether a suspect is in hand: at most one at a time (invariant 15). A lapsed one is anybody's again."""
        suspect = self._suspect
        return suspect is not None and now < suspect.lapses

    def suspect(self, held: Held) -> None:
        """This one was reaped."""
        self._suspect = held

    def let_go(self, answered: Collection[Held]) -> None:
        """These are in hand no more."""
        if self._suspect is not None and any(each is self._suspect for each in answered):
            self._suspect = None
