"""Declarations in SQLite. Transactions begin with the write lock: no other process declares anything until they end."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.model.standing import SEEN_EVERY, SILENT_AFTER, Subscription
from mainspring.model.views import Declaration
from mainspring.storage.declaring import Known, Wishes
from mainspring.storage.routing import expression, is_wild
from mainspring.storage.script import Script
from mainspring.storage.sql.declaring import Read
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import before, mapping, names, pairs


class SqliteRegistry:
    """``Registry`` for SQLite."""

    def __init__(self, sql: Dialect, at: int) -> None:
        self._sql = sql
        self._at = at

    def described(self, declaration: Declaration) -> tuple[str, str]:
        """See ``Registry.described``."""
        return declaration.handler, mapping(declaration.options)

    def read(self, wishes: Wishes) -> Script[Read]:
        """See ``Registry.read``."""
        asked = (*_by(wishes), pairs(wishes.subscriptions), before(self._at, SEEN_EVERY))
        seen = yield self._sql("declare_lately", *asked)
        patterns: dict[str, list[str]] = {}
        for group, pattern in (yield self._sql("declare_patterns", names(wishes.groups))):
            patterns.setdefault(group, []).append(pattern)
        rows = yield self._sql("declared", names(wishes.groups))
        known = {
            name: Known(app, (handler, options), version, patterns.get(name, []))
            for name, app, handler, options, version in rows
        }
        return bool(seen), known

    def kept(self, wishes: Wishes) -> Script[set[Subscription]]:
        """See ``Registry.kept``."""
        asked = (names(wishes.groups), *_by(wishes), before(self._at, SILENT_AFTER))
        rows = yield self._sql("declare_kept", *asked)
        return {(group, pattern) for group, pattern in rows}

    def see(self, wishes: Wishes) -> Script[None]:
        """See ``Registry.see``."""
        away = before(self._at, SILENT_AFTER / 5)
        yield self._sql("declare_seen", *_by(wishes), pairs(wishes.subscriptions), away, self._at)

    def enter(self, wishes: Wishes, described: Sequence[Declaration]) -> Script[None]:
        """See ``Registry.enter``."""
        yield from self.see(wishes)
        for each in described:
            yield self._sql("declare_group", each.group, each.app, *self.described(each), each.version, self._at)

    def subscribe(self, missing: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.subscribe``."""
        for group, pattern in missing:
            yield self._sql("declare_subscribe", pattern, group, int(is_wild(pattern)), expression(pattern))

    def unsubscribe(self, surplus: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.unsubscribe``."""
        for group, pattern in surplus:
            yield self._sql("declare_unsubscribe", pattern, group)


def _by(wishes: Wishes) -> tuple[str, str]:
    return wishes.worker, wishes.start_id
