"""``app.sync``: publishing from blocking code, in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack
from uuid import UUID

from mainspring.app.envelope import MISSING, PublishOptions
from mainspring.app.post import REASON, Post
from mainspring.model.message import Cancelled, Receipt
from mainspring.timing.duration import Duration


class Sync:
    """The blocking twins: same arguments, same SQL. They need ``tx=`` and no open app."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def publish(self, message: object, payload: object = MISSING, **options: Unpack[PublishOptions]) -> Receipt:
        """Publish in the caller's blocking transaction: the message exists if and when that commits."""
        return self._post.publish_blocking(message, payload, options)

    def publish_many(
        self, messages: Iterable[object], *, spread: Duration | None = None, **options: Unpack[PublishOptions]
    ) -> list[Receipt]:
        """Publish many in the caller's blocking transaction."""
        return self._post.publish_many_blocking(messages, spread, options)

    def cancel(
        self, which: UUID | str | Receipt | type, *, key: str | None = None, reason: str = REASON, tx: Any = None
    ) -> Cancelled:
        """Cancel in the caller's blocking transaction."""
        return self._post.cancel_blocking(which, key, reason, tx)
