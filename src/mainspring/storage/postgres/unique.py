"""Publishing what is to be there once: its likeness is entered first, and whoever comes meanwhile waits there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from mainspring.model.message import Draft, Published, Receipt
from mainspring.model.unique import REPLACED, UniqueKey
from mainspring.storage.operation import Now
from mainspring.storage.postgres.columns import plain_id
from mainspring.storage.postgres.conflicts import conflicts
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.script import Script, Statement

Publish = Callable[[Sequence[Draft]], Script[Published]]


def publish_unique(names: Names, publish: Publish, draft: Draft, likeness: UniqueKey, now: Now) -> Script[Receipt]:
    """See ``Mailbox.publish_unique``."""
    scope = likeness.scope if likeness.window is None else "window"
    args = (likeness.hash, draft.id, scope, likeness.window, likeness.keep, likeness.remembered, now)
    # The row is ours until the transaction ends: nobody decides at the same time (invariant 17).
    ((fate, earlier),) = yield Opening(names.sql("likeness_enter"), args)
    if fate == "again":
        return Receipt(draft.id, "conflict" if (yield from conflicts(names, [draft], ())) else "stored")
    if fate == "duplicate":
        return Receipt(_plain(earlier), "duplicate")
    replaced = 0
    if fate == "replace":
        replaced = yield from _replace(names, _plain(earlier), now)
    yield from publish([draft])
    return Receipt(draft.id, "replaced" if replaced else "stored")


def _replace(names: Names, earlier: UUID, now: Now) -> Script[int]:
    replaced, got_away = 0, True
    while got_away:
        ((stopped, got_away),) = yield Statement(names.sql("likeness_replace"), (earlier, REPLACED, now))
        replaced += stopped
    return replaced


def _plain(id: object) -> UUID:
    # A driver may have its own kind of UUID, which is not for callers to keep.
    return UUID(int=plain_id(id).int)
