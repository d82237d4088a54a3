"""The way out for blocking code: in the caller's transaction, or on a loop in the background."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from mainspring.app.background import Background
from mainspring.app.envelope import PublishOptions
from mainspring.app.following import JoinOptions, SendOptions
from mainspring.app.post import Post
from mainspring.app.registration import Registration
from mainspring.model.join import JoinReceipt
from mainspring.model.message import Cancelled, Receipt
from mainspring.timing.duration import Duration


class BlockingPost:
    """Publishes, sends and cancels for callers who block: with ``tx`` on their connection, else in the background."""

    def __init__(self, post: Post, background: Background) -> None:
        self._post = post
        self._background = background

    def publish(self, message: object, payload: object, options: PublishOptions) -> Receipt:
        """See ``Sync.publish``."""
        if options.get("tx") is not None:
            call = "app.sync.publish(…)"
            return self._post.join(self._post.draft(message, payload, options, call), options, call)
        return self._background.run(lambda: self._post.publish(message, payload, options), "publish(…)")

    def publish_many(
        self, messages: Iterable[object], spread: Duration | None, options: PublishOptions
    ) -> list[Receipt]:
        """See ``Sync.publish_many``."""
        if options.get("tx") is not None:
            return self._post.join_many(messages, spread, options)
        # Taken here: an iterable may belong to this thread, as a cursor does, or take its time.
        taken = list(messages)
        return self._background.run(lambda: self._post.publish_many(taken, spread, options), "publish_many(…)")

    def cancel(self, which: object, key: str | None, reason: str, tx: object) -> Cancelled:
        """See ``Sync.cancel``."""
        if tx is not None:
            return self._post.join_cancel(which, key, reason, tx)
        return self._background.run(lambda: self._post.cancel(which, key, reason, None), "cancel(…)")

    def fan_in(self, members: Any, options: JoinOptions, causation_id: UUID | None = None) -> JoinReceipt:
        """See ``Sync.join``."""
        if options.get("tx") is not None:
            return self._post.join_fan_in(members, options, causation_id)
        # Taken here: an iterable may belong to this thread, as a cursor does, or take its time.
        taken = list(members) if isinstance(members, Iterator) else members
        call = ("join(…)", None) if causation_id is None else ("ctx.sync.join(…)", "ctx.join(…)")
        return self._background.run(lambda: self._post.fan_in(taken, options, causation_id), *call)

    def send(self, consumer: Registration, payload: object, options: SendOptions) -> Receipt:
        """Publish to one group only, perhaps with what follows."""
        if options.get("tx") is not None:
            return self._post.join_send(consumer, payload, options)
        twin = f"{consumer.group}.send(…)"
        return self._background.run(
            lambda: self._post.send(consumer, payload, options), f"{consumer.group}.sync.send(…)", twin
        )

    def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        """Publish from within a plain function: the message it handles is the cause."""
        if options.get("tx") is not None:
            call = "ctx.publish(…)"
            return self._post.join(self._post.draft(message, payload, options, call, causation_id), options, call)
        return self._background.run(
            lambda: self._post.forward(message, payload, options, causation_id), "ctx.sync.publish(…)", "ctx.publish(…)"
        )
