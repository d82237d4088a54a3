"""What follows from a declaration: which subscriptions it adds, and which it may remove."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mainspring.model.errors import Conflict
from mainspring.model.standing import Declarer, Standing, Subscription
from mainspring.model.views import Declaration


@dataclass(frozen=True, slots=True)
class Known:
    """A group as it stands."""

    app: str
    described: tuple[str, str]
    """Handler and options, as they are stored."""
    version: int
    """The newest version that has declared it."""
    patterns: Collection[str]


class Wishes:
    """The declarations of one call. All of it is pure: storages read, lock and write."""

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
        """Empty: declared by hand, and kept until something else is declared so, or it is pruned as old."""

    def refuse_strangers(self, known: Mapping[str, Known]) -> None:
        """Raise Conflict when a group belongs to another app."""
        for name, group in known.items():
            if self.by_group[name].app != group.app:
                raise Conflict(
                    f"group {name!r} belongs to app {group.app!r}: choose another group=… "
                    f"or run `mainspring groups retire {name}`"
                )

    def describes(self, group: str, known: Known | None, described: tuple[str, str]) -> bool:
        """Whether handler, options and version of a group are to be written."""
        if self.again or known is None:
            return not self.again
        version = self.by_group[group].version
        return version > known.version or (version == known.version and described != known.described)

    def missing(self, known: Mapping[str, Known]) -> list[Subscription]:
        """Those that are not there, but for groups that were retired."""
        there = {(name, pattern) for name, group in known.items() for pattern in group.patterns}
        meant = (each for each in self.subscriptions if each[0] in known or not self.again)
        return [each for each in meant if each not in there]

    def surplus(self, known: Mapping[str, Known]) -> list[Subscription]:
        """Those that are there and not declared here, of groups that no newer version has declared."""
        ours = set(self.subscriptions)
        groups = ((name, group) for name, group in known.items() if self.by_group[name].version >= group.version)
        there = sorted((name, pattern) for name, group in groups for pattern in group.patterns)
        return [each for each in there if each not in ours]

    def standing(
        self, known: Mapping[str, Known], added: Sequence[Subscription] = (), removed: Sequence[Subscription] = ()
    ) -> Standing:
        """What came of it."""
        retired = tuple(group for group in self.groups if group not in known) if self.again else ()
        return Standing(tuple(added), tuple(removed), retired)
