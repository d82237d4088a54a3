"""Declarations of groups: what they add and remove, and the order of statements that writes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from mainspring.model.errors import Conflict
from mainspring.model.views import Declaration
from mainspring.model.worker import SEEN_EVERY, SILENT_AFTER, Declarer, DeclareResult, Subscription
from mainspring.storage.operation import operation
from mainspring.storage.patterns import expression, is_wild
from mainspring.storage.portable.dialect import SqlOperations, written_mapping
from mainspring.storage.script import Script


class StoredGroup(NamedTuple):
    """A group as it is stored."""

    app: str
    described: tuple[str, str]
    """Handler and options, as they are stored."""
    version: int
    """The newest version that has declared it."""
    patterns: Collection[str]


class Declared:
    """The declarations of one call, compared with the stored groups, without I/O."""

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

    def refuse_groups_of_others(self, known: Mapping[str, StoredGroup]) -> None:
        """Raise Conflict when a group belongs to another app."""
        for name, group in known.items():
            if self.by_group[name].app != group.app:
                raise Conflict(
                    f"group {name!r} belongs to app {group.app!r}: if this is the same application, give it that "
                    f"name: Mainspring(…, name={group.app!r}); if not, choose another group=…; only if {group.app!r} "
                    f"is gone for good: mainspring groups retire {name}"
                )

    def describes(self, group: str, known: StoredGroup | None, described: tuple[str, str]) -> bool:
        """Whether handler, options and version of a group must be written."""
        if self.again or known is None:
            return not self.again
        version = self.by_group[group].version
        return version > known.version or (version == known.version and described != known.described)

    def missing(self, known: Mapping[str, StoredGroup]) -> list[Subscription]:
        """Return the subscriptions to add, except for groups that were retired."""
        stored = {(name, pattern) for name, group in known.items() for pattern in group.patterns}
        wanted = (each for each in self.subscriptions if each[0] in known or not self.again)
        return [each for each in wanted if each not in stored]

    def surplus(self, known: Mapping[str, StoredGroup]) -> list[Subscription]:
        """Return stored subscriptions that are not declared here, of groups that no newer version has declared."""
        ours = set(self.subscriptions)
        groups = ((name, group) for name, group in known.items() if self.by_group[name].version >= group.version)
        stored = sorted((name, pattern) for name, group in groups for pattern in group.patterns)
        return [each for each in stored if each not in ours]

    def result(
        self, known: Mapping[str, StoredGroup], added: Sequence[Subscription] = (), removed: Sequence[Subscription] = ()
    ) -> DeclareResult:
        """Return the result."""
        retired = tuple(group for group in self.groups if group not in known) if self.again else ()
        return DeclareResult(tuple(added), tuple(removed), retired)


class SqlDeclarations(SqlOperations):
    """``Upkeep.declare``, for every SQL database."""

    @abstractmethod
    def _lock_groups(self, groups: Sequence[str]) -> Script[None]:
        """Lock the groups against concurrent declarations to the end of the transaction."""

    @operation("write")
    def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Script[DeclareResult]:
        """Only reads where nothing differs, which is nearly always."""
        declared = Declared(declarations, declarer)
        if not declared.groups:
            return DeclareResult()
        at = yield from self._read_clock()
        seen, known = yield from self._read_groups(declared, at)
        declared.refuse_groups_of_others(known)
        described = [
            (each.group, each.app, *text, each.version)
            for each in declared.ordered
            if declared.describes(each.group, known.get(each.group), text := self._described(each))
        ]
        if not described and not declared.missing(known) and not (yield from self._unwanted(declared, known, at)):
            if seen:
                return declared.result(known)
            if declared.again:
                yield self._sql("declare_seen", *self._seen(declared, at))
                return declared.result(known)
        # Recorded before the subscriptions are read, and read under the lock: another process either finds this
        # declaration, or has removed the subscriptions before the read (invariant 26).
        yield self._sql.opening("declare_seen", *self._seen(declared, at))
        if described:
            yield self._sql("declare_groups", *self._values.rows(described, 5), at)
        yield from self._lock_groups(declared.groups)
        _, known = yield from self._read_groups(declared, at)
        declared.refuse_groups_of_others(known)
        added = declared.missing(known)
        removed = yield from self._unwanted(declared, known, at)
        if added:
            rows = [(pattern, group, is_wild(pattern), expression(pattern)) for group, pattern in added]
            yield self._sql("declare_subscribe", *self._values.rows(rows, 4))
        if removed:
            yield self._sql("declare_unsubscribe", *self._values.rows(removed, 2))
        return declared.result(known, added, removed)

    def _read_groups(self, declared: Declared, at: Any) -> Script[tuple[bool, dict[str, StoredGroup]]]:
        """Return whether this declaration was recorded recently, and the known groups."""
        values = self._values
        subscriptions = values.rows(declared.subscriptions, 2)
        args = (values.texts(declared.groups), declared.worker, declared.start_id, *subscriptions)
        rows = yield self._sql("declared", *args, values.span(SEEN_EVERY), at)
        known = {
            name: StoredGroup(app, (handler, options), version, values.read_texts(patterns))
            for name, app, handler, options, version, patterns, _ in rows
        }
        return any(row[-1] for row in rows), known

    def _unwanted(self, declared: Declared, known: dict[str, StoredGroup], at: Any) -> Script[list[Subscription]]:
        """Return the surplus that no other live process has declared."""
        surplus = declared.surplus(known)
        if not surplus:
            return []
        args = (self._values.texts(declared.groups), declared.worker, declared.start_id)
        rows = yield self._sql("declare_kept", *args, self._values.span(SILENT_AFTER), at)
        kept = {(group, pattern) for group, pattern in rows}
        return [each for each in surplus if each not in kept]

    def _seen(self, declared: Declared, at: Any) -> tuple[Any, ...]:
        subscriptions = self._values.rows(declared.subscriptions, 2)
        return declared.worker, declared.start_id, *subscriptions, self._values.span(SILENT_AFTER / 5), at

    def _described(self, declaration: Declaration) -> tuple[str, str]:
        """Handler and options, as they are stored."""
        return self._values.text(declaration.handler), written_mapping(declaration.options)
