"""Publishing to memory what is to be there once."""

from __future__ import annotations

from datetime import datetime

from mainspring.model.message import Draft, Receipt
from mainspring.model.unique import LEAST, REPLACED, UniqueKey
from mainspring.storage.memory.publishing import conflicts, store, withdraw
from mainspring.storage.memory.rows import LikenessRow
from mainspring.storage.memory.state import State


def store_unique(state: State, draft: Draft, likeness: UniqueKey, now: datetime) -> Receipt:
    """See ``Mailbox.publish_unique``; the lock is held."""
    if draft.id in state.messages:  # an earlier copy of this call was written, and its reply was lost
        return Receipt(draft.id, "conflict" if conflicts(state, [draft], ()) else "stored")
    row = state.likenesses.get(likeness.hash)
    if row is not None and _counts(state, row, likeness, now):
        row.until = max(row.until, row.published_at + likeness.remembered)
        return Receipt(row.message_id, "duplicate")
    store(state, [draft], now)
    state.likenesses[likeness.hash] = LikenessRow(draft.id, now, now + likeness.remembered)
    replaced = 0
    if row is not None and likeness.keep == "last":
        free = [copy for copy in state.live.get(row.message_id, {}).values() if copy.epoch == 0]
        unrouted = [state.unrouted[row.message_id]] if row.message_id in state.unrouted else []
        replaced = withdraw(state, free, unrouted, REPLACED, now).cancelled
    return Receipt(draft.id, "replaced" if replaced else "stored")


def prune_likenesses(state: State, limit: int) -> int:
    """Forget what no message is held against any more; the lock is held."""
    now, rows = state.now(), state.likenesses
    first = sorted((row.until, hash) for hash, row in rows.items() if row.until < now)[:limit]
    removed = 0
    for _, hash in first:
        message_id = rows[hash].message_id
        if message_id in state.live or message_id in state.unrouted:
            # It makes room for the others: a batch is never all of what waits for a year.
            rows[hash].until = now + LEAST
        else:
            del rows[hash]
            removed += 1
    return removed


def _counts(state: State, row: LikenessRow, likeness: UniqueKey, now: datetime) -> bool:
    """Whether the earlier message is one of which there are not to be two."""
    if likeness.keep == "last":
        return False
    if likeness.window is not None:
        return row.published_at > now - likeness.window
    copies = state.live.get(row.message_id, {}).values()
    if row.message_id in state.unrouted:
        return True
    if likeness.scope == "running" or not copies:
        return bool(copies)
    # Where fewer copies are left than there were, one has ended, so that it had begun. Of what was parked at first
    # nobody knows how many there were.
    return all(copy.epoch == 0 for copy in copies) and len(copies) >= state.messages[row.message_id].copies
