"""Publishing what is to be there once, under the one write lock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from mainspring.model.message import Draft, Receipt
from mainspring.model.unique import LEAST, REPLACED, UniqueKey
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.publishing import conflicts, publish
from mainspring.storage.sqlite.values import after, before
from mainspring.storage.sqlite.withdrawing import withdraw

_MICROSECOND = timedelta(microseconds=1)


def publish_unique(sql: Dialect, draft: Draft, likeness: UniqueKey) -> Script[Receipt]:
    """See ``Mailbox.publish_unique``. The clock's statement takes the write lock."""
    at = yield from sql.turn_clock()
    ((is_known, earlier, *stands),) = yield sql("likeness_look", likeness.hash, draft.id.bytes)
    if is_known:  # an earlier copy of this call was written, and its reply was lost
        return Receipt(draft.id, "conflict" if (yield from conflicts(sql, [draft], ())) else "stored")
    if earlier is not None and _counts(likeness, at, *stands):
        yield sql("likeness_extend", likeness.hash, likeness.remembered // _MICROSECOND)
        return Receipt(UUID(bytes=earlier), "duplicate")
    until = after(at, likeness.remembered)
    # What could be refused is refused by now: in a caller's transaction nobody would roll back what was written before.
    yield from publish(sql, [draft])
    yield sql("likeness_enter", likeness.hash, draft.id.bytes, at, until)
    replaced = 0
    if earlier is not None and likeness.keep == "last":
        free = yield sql("likeness_free", earlier)
        parked = yield sql("cancel_parked_id", earlier)
        replaced = (yield from withdraw(sql, free, parked, REPLACED, at)).cancelled
    return Receipt(draft.id, "replaced" if replaced else "stored")


def prune_likenesses(sql: Dialect, at: int, limit: int) -> Script[int]:
    """Forget what no message is held against any more."""
    yield sql("prune_likenesses", at, limit)
    ((removed,),) = yield sql("changes")
    if removed < limit:
        yield sql("prune_likenesses_later", at, limit - removed, after(at, LEAST))
    return int(removed)


def _counts(likeness: UniqueKey, at: int, published: int, parked: int, left: int, begun: int, copies: Any) -> bool:
    if likeness.keep == "last":
        return False
    if likeness.window is not None:
        return published > before(at, likeness.window)
    if likeness.scope == "running":
        return bool(parked or left)
    # Where fewer copies are left than there were, one has ended, so that it had begun.
    return bool(parked or (left and not begun and left >= copies))
