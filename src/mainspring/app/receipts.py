"""What a caller is told of what was stored."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mainspring.model.join import JoinReceipt
from mainspring.model.message import Draft, Published, Receipt

if TYPE_CHECKING:
    from mainspring.app.fan_in import Bundle
    from mainspring.app.following import SendOptions

_logger = logging.getLogger("mainspring.publisher")


def receipts(drafts: Sequence[Draft], published: Published) -> list[Receipt]:
    """One for each draft, as the database told them apart."""
    tell_conflicts(drafts, published)
    return [Receipt(each.id, status) for each, status in zip(drafts, published.statuses(drafts), strict=True)]


def tell_conflicts(drafts: Sequence[Draft], published: Published) -> None:
    """Log each draft that is not stored because its id is another message's."""
    for each in published.conflicting(drafts):
        _logger.warning("%s; make the message_id of all that makes the message one of its kind, its topic too", each)


def sent(draft: Draft, published: Published, options: SendOptions) -> Receipt:
    """The one of what was sent with something to follow it."""
    # An id made here that "was there already" was put there by our own lost attempt.
    (receipt,) = receipts([draft], published)
    was_ours = receipt.status == "duplicate" and options.get("message_id") is None
    return replace(receipt, status="stored") if was_ours else receipt


def join_receipt(bundle: Bundle) -> JoinReceipt:
    """The one of a join."""
    return JoinReceipt(bundle.join.id, tuple(each.id for each in bundle.members))
