"""How groups are declared in any SQL database: read first, written under a lock where something differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mainspring.model.standing import Standing, Subscription
from mainspring.model.views import Declaration
from mainspring.storage.declaring import Known, Wishes
from mainspring.storage.script import Script

Read = tuple[bool, dict[str, Known]]
"""Whether it was written down lately that this process declares this, and the groups that are known."""


class Registry(Protocol):
    """What one dialect knows of declarations."""

    def described(self, declaration: Declaration) -> tuple[str, str]:
        """Handler and options, as they are stored."""
        ...

    def read(self, wishes: Wishes) -> Script[Read]:
        """Read the groups, without a lock."""
        ...

    def kept(self, wishes: Wishes) -> Script[set[Subscription]]:
        """Read what other processes that count have declared of these groups."""
        ...

    def see(self, wishes: Wishes) -> Script[None]:
        """Write down that this process declares this."""
        ...

    def enter(self, wishes: Wishes, described: Sequence[Declaration]) -> Script[None]:
        """The same, with groups to be made or described; then keep out all who declare the same groups."""
        ...

    def subscribe(self, missing: Sequence[Subscription]) -> Script[None]:
        """Add subscriptions."""
        ...

    def unsubscribe(self, surplus: Sequence[Subscription]) -> Script[None]:
        """Remove subscriptions."""
        ...


def declare(registry: Registry, wishes: Wishes) -> Script[Standing]:
    """See ``Upkeep.declare``. Where nothing differs, which is nearly always, it only reads."""
    if not wishes.groups:
        return Standing()
    seen, known = yield from registry.read(wishes)
    wishes.refuse_strangers(known)
    described = [
        each for each in wishes.ordered if wishes.describes(each.group, known.get(each.group), registry.described(each))
    ]
    if not described and not wishes.missing(known) and not (yield from _unwanted(registry, wishes, known)):
        if seen:
            return wishes.standing(known)
        if wishes.again:
            yield from registry.see(wishes)
            return wishes.standing(known)
    # Written down before the subscriptions are looked at, and looked at under the lock: another process either finds
    # that this one declares them, or is found to have removed them (invariant 26).
    yield from registry.enter(wishes, described)
    _, known = yield from registry.read(wishes)
    wishes.refuse_strangers(known)
    added = wishes.missing(known)
    removed = yield from _unwanted(registry, wishes, known)
    yield from registry.subscribe(added)
    yield from registry.unsubscribe(removed)
    return wishes.standing(known, added, removed)


def _unwanted(registry: Registry, wishes: Wishes, known: dict[str, Known]) -> Script[list[Subscription]]:
    surplus = wishes.surplus(known)
    if not surplus:
        return []
    kept = yield from registry.kept(wishes)
    return [each for each in surplus if each not in kept]
