"""What a caller is told of what was stored."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.app.fan_in import Bundle
from mainspring.app.following import SendOptions
from mainspring.model.join import JoinReceipt
from mainspring.model.message import Draft, Published, Receipt


def receipts(drafts: Sequence[Draft], published: Published) -> list[Receipt]:
    """One for each draft, as the database told them apart."""
    return [Receipt(each.id, "stored" if each.id in published.stored else "duplicate") for each in drafts]


def sent(draft: Draft, published: Published, options: SendOptions) -> Receipt:
    """The one of what was sent with something to follow it."""
    # An id made here that "was there already" was put there by our own lost attempt.
    was_new = draft.id in published.stored or options.get("message_id") is None
    return Receipt(draft.id, "stored" if was_new else "duplicate")


def join_receipt(bundle: Bundle) -> JoinReceipt:
    """The one of a join."""
    return JoinReceipt(bundle.join.id, tuple(each.id for each in bundle.members))
