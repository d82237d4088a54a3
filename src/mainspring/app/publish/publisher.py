"""Every publish, send and cancel, inside the caller's transaction or outside any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast
from uuid import UUID

from mainspring.app.batcher import BATCH, receipts
from mainspring.app.blocking import Background
from mainspring.app.connection import Connection
from mainspring.app.consume.limits import Backlogs
from mainspring.app.consume.middleware import Middleware, PublishChain
from mainspring.app.consume.registration import Registration
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.message.envelope import (
    MISSING,
    Envelope,
    JoinOptions,
    PublishOptions,
    SendOptions,
    later,
    read_identity,
)
from mainspring.app.message.unique import refuse_followed, refuse_many, unique_key_of
from mainspring.app.names import check_name, check_topic
from mainspring.app.options import length
from mainspring.app.publish.backpressure import Backpressure
from mainspring.app.publish.fan_in import Bundle, FanIn, alone, follows
from mainspring.app.transaction.consumers import LentConnections
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption, StorageUnavailable
from mainspring.model.join import JoinReceipt
from mainspring.model.message import Cancelled, Draft, Published, Receipt, UniqueKey
from mainspring.storage.contract import Keyed, Lender
from mainspring.storage.script import Script
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

REASON = "cancelled by the application"


class BlockingPublisher(NamedTuple):
    """The publisher of blocking callers, and the loop that it works on."""

    publisher: Publisher
    background: Background


class Publisher:
    """Publish, send and cancel of one app."""

    def __init__(
        self,
        connection: Connection,
        envelope: Envelope,
        catalogue: Catalogue,
        transactions: Transactions,
        clock: Clock,
        fan_in: FanIn,
        backlogs: Backlogs,
        blocking: BlockingPublisher | None = None,
        chain: PublishChain | None = None,
    ) -> None:
        self._connection = connection
        self._fan_in = fan_in
        self._limits = backlogs.limits
        self._gate = Backpressure(backlogs, connection, transactions, clock)
        self._envelope = envelope
        self._catalogue = catalogue
        self._transactions = transactions
        self.clock = clock
        self._blocking = blocking
        self._chain = PublishChain(()) if chain is None else chain

    async def publish(self, message: object, payload: object, options: PublishOptions) -> Receipt:
        """See ``Mainspring.publish``."""
        return await self.store(self.draft(message, payload, options, "publish(…)"), options, "app.publish()")

    async def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        """Publish from within a handler: its message is the cause."""
        draft = self.draft(message, payload, options, "ctx.publish(…)", causation_id)
        return await self.store(draft, options, "ctx.publish()")

    async def send(self, consumer: Registration, payload: object, options: SendOptions) -> Receipt:
        """Publish to one group only, perhaps with a follow-up."""
        draft, call = self.direct(consumer, payload, options), f"{consumer.group}.send()"
        if not follows(options):
            return await self.store(draft, options, call)
        published = await self._open(self._chain_of(draft, consumer, options), options.get("tx"), call)
        (receipt,) = receipts([draft], published)
        # A "duplicate" of an id made here was stored by our own lost attempt.
        was_ours = receipt.status == "duplicate" and options.get("message_id") is None
        return replace(receipt, status="stored") if was_ours else receipt

    async def fan_in(self, members: Any, options: JoinOptions, causation_id: UUID | None = None) -> JoinReceipt:
        """See ``Mainspring.join``."""
        whose = "app" if causation_id is None else "ctx"
        bundle = self._fan_in.join(members, options, f"{whose}.join(…)", causation_id)
        await self._open(bundle, options.get("tx"), f"{whose}.join()")
        return JoinReceipt(bundle.join.id, tuple(each.id for each in bundle.members))

    async def publish_many(
        self, messages: Iterable[object], spread: Duration | None, options: PublishOptions
    ) -> list[Receipt]:
        """See ``Mainspring.publish_many``."""
        tx, made = options.get("tx"), self._drafts(messages, spread, options)
        if self._limits:
            await self._gate.admit(made, tx, "app.publish_many()")
        with self._chain.around(made, enlisted=tx is not None) as drafts:
            if tx is None:
                return await (await self._connection.opening("app.publish_many()")).batcher.publish_many(drafts)
            answers: list[Receipt] = []
            for batch in _batches(drafts):
                answers += receipts(batch, await self._transactions.run(tx, self._publishing(batch)))
            return answers

    async def cancel(self, which: object, key: str | None, reason: str, tx: object) -> Cancelled:
        """See ``Mainspring.cancel``."""
        target = self._target(which, key)
        if tx is None:
            storage = await self._connection.storage("app.cancel()")
            answer = await storage.mailbox.cancel(target, reason)
            if answer.asked:
                with contextlib.suppress(StorageUnavailable):  # only a hint: the next heartbeat informs the holders
                    await storage.doorbell.ring()
            if answer.cancelled:
                self._connection.rouse()  # under an order, others may wait for it
            return answer
        return await self._transactions.run(tx, self._transactions.operations.mailbox.cancel.script(target, reason))

    def lending(self, lender: Lender) -> LentConnections:
        """Return connections for transactional consumers."""
        return LentConnections(self._transactions, lender)

    def outermost(self) -> tuple[Middleware, ...]:
        """Return the middleware around every attempt, outside all other; called when a worker starts."""
        return self._chain.outermost()

    @property
    def blocking(self) -> BlockingPublisher:
        """The publisher of handlers that are plain functions."""
        assert self._blocking is not None, "handlers are served by the app's own side"
        return self._blocking

    def draft(
        self,
        message: object,
        payload: object,
        options: PublishOptions,
        call: str,
        causation_id: UUID | None = None,
    ) -> Draft:
        """Return the draft of a publish."""
        return self._envelope.draft(message, payload, _map(options), causation_id=causation_id, call=call)

    def direct(self, consumer: Registration, payload: object, options: SendOptions) -> Draft:
        """Return the draft of a message for one group only."""
        return self._envelope.draft(
            payload,
            MISSING,
            alone(options),
            group=consumer.group,
            topic=consumer.topic,
            call=f"{consumer.group}.send(…)",
        )

    def _chain_of(self, draft: Draft, consumer: Registration, options: SendOptions) -> Bundle:
        call = f"{consumer.group}.send(…)"
        refuse_followed(_map(options), call)
        return self._fan_in.chain(draft, options, call)

    async def _open(self, bundle: Bundle, tx: object, call: str) -> Published:
        if self._limits:
            await self._gate.admit(bundle.members, tx, call)
        with self._chain.around(bundle.drafts, enlisted=tx is not None) as drafts:
            ready = bundle.of(drafts)
            if tx is None:
                return await (await self._connection.opening(call)).batcher.join(ready.join, ready.members)
            return await self._transactions.run(tx, self._joining(ready))

    async def store(self, draft: Draft, options: PublishOptions, call: str) -> Receipt:
        """Store a draft as publishing does: under back-pressure, through middleware."""
        unique_key = unique_key_of(draft, _map(options), call)
        if self._limits:
            await self._gate.admit([draft], options.get("tx"), call)
        if not self._chain:
            return await self._store_now(draft, unique_key, options, call)
        with self._chain.around([draft], enlisted=options.get("tx") is not None) as drafts:
            return await self._store_now(drafts[0], unique_key, options, call)

    async def _store_now(
        self, draft: Draft, unique_key: UniqueKey | None, options: PublishOptions, call: str
    ) -> Receipt:
        tx = options.get("tx")
        if tx is None:
            batcher = (await self._connection.opening(call)).batcher
            if unique_key is not None:
                return await batcher.publish_unique(draft, unique_key)
            return await batcher.publish(draft, fresh=options.get("message_id") is None)
        if unique_key is not None:
            return await self._transactions.run(tx, self._publishing_unique(draft, unique_key))
        return receipts([draft], await self._transactions.run(tx, self._publishing([draft])))[0]

    def _publishing(self, drafts: Sequence[Draft]) -> Script[Published]:
        published = yield from self._transactions.operations.mailbox.publish.script(drafts)
        self._transactions.stored(drafts, published)
        return published

    def _publishing_unique(self, draft: Draft, unique_key: UniqueKey) -> Script[Receipt]:
        receipt = yield from self._transactions.operations.mailbox.publish_unique.script(draft, unique_key)
        if receipt.id == draft.id:
            self._transactions.stored([draft], Published(frozenset((draft.id,))))
        return receipt

    def _joining(self, bundle: Bundle) -> Script[Published]:
        published = yield from self._transactions.operations.mailbox.join.script(bundle.join, bundle.members)
        self._transactions.stored(bundle.members, published)
        return published

    def _drafts(self, messages: Iterable[object], spread: Duration | None, options: PublishOptions) -> list[Draft]:
        if options.get("message_id") is not None:
            raise BadOption("publish_many(…) makes the ids itself: leave message_id out, or publish one by one")
        refuse_many(_map(options))
        drafts = []
        for each in messages:
            message, payload = each if type(each) is tuple and len(each) == 2 else (each, MISSING)  # noqa: PLR2004
            drafts.append(self._envelope.draft(message, payload, _map(options), call="publish_many(…)"))
        if spread is None or not drafts:
            return drafts
        step = length(spread, "spread") / len(drafts)
        put_off = (later(draft, step * place) for place, draft in enumerate(drafts))
        return [self._envelope.in_order(each, "publish_many(…, spread=…)") for each in put_off]

    def _target(self, which: object, key: str | None) -> UUID | Keyed:
        if isinstance(which, Receipt):
            which = which.id
        if key is not None:
            topic = which if isinstance(which, str) else self._catalogue.topic_of(which)
            if topic is None:
                raise BadOption(f"cancel({which!r}, key=…): name a topic, or a type with @app.message(topic)")
            return Keyed(check_topic(topic), check_name(key, "key"))
        try:
            return read_identity(which)
        except BadOption:
            raise BadOption(
                f"cancel({which!r}) is not a message id: pass the id from the receipt, or a topic with key=…, as in "
                "cancel('payments.timeout', key='order:42')"
            ) from None


def _map(options: PublishOptions | SendOptions) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", options)


def _batches(drafts: Sequence[Draft]) -> Iterable[Sequence[Draft]]:
    return (drafts[start : start + BATCH] for start in range(0, len(drafts), BATCH))
