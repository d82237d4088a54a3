"""The way out: every publish, send and cancel, inside the caller's transaction or outside any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from mainspring.app.door import Door
from mainspring.app.envelope import MISSING, Catalogue, Envelope, PublishOptions, read_identity
from mainspring.app.names import Namespace, check_name, check_topic
from mainspring.app.options import length
from mainspring.app.publisher import BATCH
from mainspring.app.registration import Registration
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadOption, Misuse, StorageUnavailable
from mainspring.model.message import Cancelled, Draft, Published, Receipt
from mainspring.storage.contract import Keyed
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

REASON = "cancelled by the application"


class Post:
    """Publishes, sends and cancels for one app."""

    def __init__(
        self,
        door: Door,
        envelope: Envelope,
        catalogue: Catalogue,
        transactions: Transactions,
        names: Namespace,
        clock: Clock,
    ) -> None:
        self._door = door
        self._envelope = envelope
        self._catalogue = catalogue
        self._transactions = transactions
        self.names = names
        self.clock = clock

    async def publish(self, message: object, payload: object, options: PublishOptions) -> Receipt:
        """See ``Mainspring.publish``."""
        return await self._dispatch(self._envelope.draft(message, payload, _map(options)), options, "app.publish()")

    async def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        """Publish from within a handler: the message it handles is the cause."""
        draft = self._envelope.draft(message, payload, _map(options), causation_id=causation_id, call="ctx.publish(…)")
        return await self._dispatch(draft, options, "ctx.publish()")

    async def send(self, consumer: Registration, payload: object, options: PublishOptions) -> Receipt:
        """Publish to one group only."""
        draft = self._envelope.draft(
            payload,
            MISSING,
            _map(options),
            group=self.names.stored(consumer.group),
            topic=consumer.topic,
            call=f"{consumer.group}.send(…)",
        )
        return await self._dispatch(draft, options, f"{consumer.group}.send()")

    async def publish_many(
        self, messages: Iterable[object], spread: Duration | None, options: PublishOptions
    ) -> list[Receipt]:
        """See ``Mainspring.publish_many``."""
        drafts = self._drafts(messages, spread, options)
        tx = options.get("tx")
        if tx is None:
            return await (await self._door.opening("app.publish_many()")).publisher.publish_many(drafts)
        receipts: list[Receipt] = []
        for batch in _batches(drafts):
            script = self._transactions.scripts().publish(batch, self._door.now)
            receipts += _receipts(batch, await self._transactions.run(tx, script))
        return receipts

    async def cancel(self, which: object, key: str | None, reason: str, tx: object) -> Cancelled:
        """See ``Mainspring.cancel``."""
        meant = self._meant(which, key)
        if tx is None:
            storage = await self._door.storage("app.cancel()")
            answer = await storage.mailbox.cancel(meant, reason)
            if answer.asked:
                # Only a hint: without it the holders hear of it at their next heartbeat.
                with contextlib.suppress(StorageUnavailable):
                    await storage.doorbell.ring()
            return answer
        return await self._transactions.run(tx, self._transactions.scripts().cancel(meant, reason, self._door.now))

    def publish_blocking(self, message: object, payload: object, options: PublishOptions) -> Receipt:
        """See ``Sync.publish``."""
        tx = _required(options.get("tx"), "publish")
        draft = self._envelope.draft(message, payload, _map(options), call="app.sync.publish(…)")
        script = self._transactions.scripts().publish([draft], self._door.now)
        return _receipts([draft], self._transactions.run_blocking(tx, script))[0]

    def publish_many_blocking(
        self, messages: Iterable[object], spread: Duration | None, options: PublishOptions
    ) -> list[Receipt]:
        """See ``Sync.publish_many``."""
        tx = _required(options.get("tx"), "publish_many")
        receipts: list[Receipt] = []
        for batch in _batches(self._drafts(messages, spread, options)):
            script = self._transactions.scripts().publish(batch, self._door.now)
            receipts += _receipts(batch, self._transactions.run_blocking(tx, script))
        return receipts

    def cancel_blocking(self, which: object, key: str | None, reason: str, tx: object) -> Cancelled:
        """See ``Sync.cancel``."""
        handle = _required(tx, "cancel")
        script = self._transactions.scripts().cancel(self._meant(which, key), reason, self._door.now)
        return self._transactions.run_blocking(handle, script)

    async def _dispatch(self, draft: Draft, options: PublishOptions, call: str) -> Receipt:
        tx = options.get("tx")
        if tx is None:
            opening = await self._door.opening(call)
            return await opening.publisher.publish(draft, fresh=options.get("message_id") is None)
        script = self._transactions.scripts().publish([draft], self._door.now)
        return _receipts([draft], await self._transactions.run(tx, script))[0]

    def _drafts(self, messages: Iterable[object], spread: Duration | None, options: PublishOptions) -> list[Draft]:
        if options.get("message_id") is not None:
            raise BadOption("publish_many(…) makes the ids itself: leave message_id out, or publish one by one")
        drafts = []
        for each in messages:
            message, payload = each if type(each) is tuple and len(each) == 2 else (each, MISSING)  # noqa: PLR2004
            drafts.append(self._envelope.draft(message, payload, _map(options), call="publish_many(…)"))
        if spread is None or not drafts:
            return drafts
        step = length(spread, "spread") / len(drafts)
        return [_later(draft, step * place) for place, draft in enumerate(drafts)]

    def _meant(self, which: object, key: str | None) -> UUID | Keyed:
        if isinstance(which, Receipt):
            which = which.id
        if key is not None:
            topic = which if isinstance(which, str) else self._catalogue.topic_of(which)
            if topic is None:
                raise BadOption(f"cancel({which!r}, key=…): name a topic, or a type with @app.message(topic)")
            return Keyed(self.names.stored(check_topic(topic)), check_name(key, "key"))
        try:
            return read_identity(which)
        except BadOption:
            raise BadOption(
                f"cancel({which!r}) is not a message id: pass the id from the receipt, or a topic with key=…, as in "
                "cancel('payments.timeout', key='order:42')"
            ) from None


def _map(options: PublishOptions) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", options)


def _receipts(drafts: Sequence[Draft], published: Published) -> list[Receipt]:
    return [Receipt(each.id, "stored" if each.id in published.stored else "duplicate") for each in drafts]


def _batches(drafts: Sequence[Draft]) -> Iterable[Sequence[Draft]]:
    return (drafts[start : start + BATCH] for start in range(0, len(drafts), BATCH))


def _later(draft: Draft, offset: timedelta) -> Draft:
    if draft.at is not None:
        return replace(draft, at=draft.at + offset)
    return replace(draft, delay=draft.delay + offset)


def _required(tx: object, call: str) -> object:
    if tx is None:
        raise Misuse(
            f"app.sync.{call}() joins a blocking transaction: pass tx=connection, or write `await app.{call}(…)`"
        )
    return tx
