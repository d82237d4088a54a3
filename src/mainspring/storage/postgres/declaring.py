"""Declarations in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.model.standing import SEEN_EVERY, SILENT_AFTER, Subscription
from mainspring.model.views import Declaration
from mainspring.storage.declaring import Known, Wishes
from mainspring.storage.operation import Now
from mainspring.storage.postgres.columns import clean, columns, to_json
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.routing import expression, is_wild
from mainspring.storage.script import Script, Statement
from mainspring.storage.sql.declaring import Read


class PostgresRegistry:
    """``Registry`` for PostgreSQL."""

    def __init__(self, names: Names, now: Now) -> None:
        self._sql = names.sql
        self._now = now

    def described(self, declaration: Declaration) -> tuple[str, str]:
        """See ``Registry.described``."""
        return clean(declaration.handler), to_json(declaration.options)

    def read(self, wishes: Wishes) -> Script[Read]:
        """See ``Registry.read``."""
        asked = (wishes.groups, *_by(wishes), *columns(wishes.subscriptions, 2), SEEN_EVERY, self._now)
        rows = yield Statement(self._sql("declared"), asked)
        known = {
            name: Known(app, (handler, options), version, patterns)
            for name, app, handler, options, version, patterns, _ in rows
        }
        return any(row[-1] for row in rows), known

    def kept(self, wishes: Wishes) -> Script[set[Subscription]]:
        """See ``Registry.kept``."""
        asked = (wishes.groups, *_by(wishes), SILENT_AFTER, self._now)
        rows = yield Statement(self._sql("declare_kept"), asked)
        return {(group, pattern) for group, pattern in rows}

    def see(self, wishes: Wishes) -> Script[None]:
        """See ``Registry.see``."""
        yield Statement(self._sql("declare_seen"), self._seen(wishes))

    def enter(self, wishes: Wishes, described: Sequence[Declaration]) -> Script[None]:
        """See ``Registry.enter``."""
        yield Opening(self._sql("declare_seen"), self._seen(wishes))
        rows = [(each.group, each.app, *self.described(each), each.version) for each in described]
        if rows:
            yield Statement(self._sql("declare_groups"), (*columns(rows, 5), self._now))
        yield Statement(self._sql("declare_lock"), (wishes.groups,))

    def subscribe(self, missing: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.subscribe``."""
        if missing:
            rows = [(pattern, group, is_wild(pattern), expression(pattern)) for group, pattern in missing]
            yield Statement(self._sql("declare_subscribe"), columns(rows, 4))

    def unsubscribe(self, surplus: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.unsubscribe``."""
        if surplus:
            yield Statement(self._sql("declare_unsubscribe"), columns(surplus, 2))

    def _seen(self, wishes: Wishes) -> tuple[object, ...]:
        return *_by(wishes), *columns(wishes.subscriptions, 2), SILENT_AFTER / 5, self._now


def _by(wishes: Wishes) -> tuple[str, str]:
    return wishes.worker, wishes.start_id
