"""Declarations of groups: what they add and remove, and the order of statements that writes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mainspring.model.errors import Conflict
from mainspring.model.views import Declaration
from mainspring.model.worker import Declarer, DeclareResult, Subscription
from mainspring.storage.script import Script


@dataclass(frozen=True, slots=True)
class Known:
    """A group as it is stored."""

    app: str
    described: tuple[str, str]
    """Handler and options, as they are stored."""
    version: int
    """The newest version that has declared it."""
    patterns: Collection[str]


class Wishes:
    """The declarations of one call, without I/O: storages read, lock and write."""

    def __init__(self, declarations: Sequence[Declaration], declarer: Declarer | None) -> None:
        self.by_group: dict[str, Declaration] = {each.group: each for each in declarations}
        self.groups: list[str] = sorted(self.by_group)
        self.ordered: list[Declaration] = [self.by_group[group] for group in self.groups]
        self.subscriptions: list[Subscription] = [
            (each.group, pattern) for each in self.ordered for pattern in sorted(set(each.patterns))
        ]
        self.again: bool = declarer is not None and declarer.again
        self.worker: str = next((each.app for each in declarations), "") if declarer is None else declarer.worker
        self.start_id: str = "" if declarer is None else declarer.start_id
        """Empty: declared by hand, and kept until the next such declaration, or until it is pruned as old."""

    def refuse_strangers(self, known: Mapping[str, Known]) -> None:
        """Raise Conflict when a group belongs to another app."""
        for name, group in known.items():
            if self.by_group[name].app != group.app:
                raise Conflict(
                    f"group {name!r} belongs to app {group.app!r}: choose another group=… "
                    f"or run `mainspring groups retire {name}`"
                )

    def describes(self, group: str, known: Known | None, described: tuple[str, str]) -> bool:
        """Whether handler, options and version of a group must be written."""
        if self.again or known is None:
            return not self.again
        version = self.by_group[group].version
        return version > known.version or (version == known.version and described != known.described)

    def missing(self, known: Mapping[str, Known]) -> list[Subscription]:
        """Return the subscriptions to add, except for groups that were retired."""
        there = {(name, pattern) for name, group in known.items() for pattern in group.patterns}
        wanted = (each for each in self.subscriptions if each[0] in known or not self.again)
        return [each for each in wanted if each not in there]

    def surplus(self, known: Mapping[str, Known]) -> list[Subscription]:
        """Return stored subscriptions that are not declared here, of groups that no newer version has declared."""
        ours = set(self.subscriptions)
        groups = ((name, group) for name, group in known.items() if self.by_group[name].version >= group.version)
        there = sorted((name, pattern) for name, group in groups for pattern in group.patterns)
        return [each for each in there if each not in ours]

    def standing(
        self, known: Mapping[str, Known], added: Sequence[Subscription] = (), removed: Sequence[Subscription] = ()
    ) -> DeclareResult:
        """Return the result."""
        retired = tuple(group for group in self.groups if group not in known) if self.again else ()
        return DeclareResult(tuple(added), tuple(removed), retired)


Read = tuple[bool, dict[str, Known]]
"""Whether this declaration was recorded recently, and the known groups."""


class Registry(Protocol):
    """The statements about declarations in one dialect."""

    def described(self, declaration: Declaration) -> tuple[str, str]:
        """Handler and options, as they are stored."""
        ...

    def read(self, wishes: Wishes) -> Script[Read]:
        """Read the groups, without a lock."""
        ...

    def kept(self, wishes: Wishes) -> Script[set[Subscription]]:
        """Read what other live processes have declared for these groups."""
        ...

    def see(self, wishes: Wishes) -> Script[None]:
        """Record that this process declares this."""
        ...

    def enter(self, wishes: Wishes, described: Sequence[Declaration]) -> Script[None]:
        """The same, with groups to create or describe; then lock the groups against concurrent declarations."""
        ...

    def subscribe(self, missing: Sequence[Subscription]) -> Script[None]:
        """Add subscriptions."""
        ...

    def unsubscribe(self, surplus: Sequence[Subscription]) -> Script[None]:
        """Remove subscriptions."""
        ...


def declare(registry: Registry, wishes: Wishes) -> Script[DeclareResult]:
    """See ``Upkeep.declare``. Only reads where nothing differs, which is nearly always."""
    if not wishes.groups:
        return DeclareResult()
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
    # Recorded before the subscriptions are read, and read under the lock: another process either finds this
    # declaration, or has removed the subscriptions before the read (invariant 26).
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
