"""Every publish, send, join and cancel, inside the caller's transaction or outside any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID

from mainspring.app.batcher import BATCH, receipts
from mainspring.app.blocking import Background
from mainspring.app.connection import Connection
from mainspring.app.consume.backpressure import Backlogs, Backpressure
from mainspring.app.consume.consumer import Registration, registration_of
from mainspring.app.consume.consumers import Consumers, DirectSending
from mainspring.app.consume.middleware import Middleware, PublishChain
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
from mainspring.app.options import flag, length, refuse_unknown
from mainspring.app.transaction.consumers import LentConnections
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption, StorageUnavailable, Unreadable
from mainspring.model.inbox import InboxReceipt
from mainspring.model.join import Join, JoinReceipt
from mainspring.model.message import Cancelled, Draft, Published, Receipt, UniqueKey
from mainspring.runtime.schedules.middleware import Around
from mainspring.storage.contract import Keyed, Lender
from mainspring.storage.script import Script
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.telemetry.spans import Spans

REASON = "cancelled by the application"
MOST = 10_000
"""The most members of a join: they are stored in one transaction."""

_KNOWN = JoinOptions.__annotations__.keys()
_FOLLOWING = ("then", "failed")


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
        consumers: Consumers,
        chain: PublishChain,
        blocking: BlockingPublisher | None = None,
        backlogs: Backlogs | None = None,
    ) -> None:
        self._connection = connection
        self._consumers = consumers
        self._direct: DirectSending | None = None
        self._fan_in = FanIn(consumers, envelope)
        backlogs = backlogs or consumers.backlogs
        self._limits = backlogs.limits
        self._gate = Backpressure(backlogs, connection, transactions, clock)
        self._envelope = envelope
        self._catalogue = catalogue
        self._transactions = transactions
        self.clock = clock
        self._blocking = blocking
        self._chain = chain

    async def publish(self, message: object, payload: object, options: PublishOptions) -> Receipt:
        """See ``Mainspring.publish``."""
        return await self.store(self.draft(message, payload, options, "publish(…)"), options, "app.publish()")

    async def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        """Publish from within a handler: its message is the cause."""
        draft = self.draft(message, payload, options, "ctx.publish(…)", causation_id)
        return await self.store(draft, options, "ctx.publish()")

    async def send(self, consumer: Registration, payload: object, options: SendOptions) -> Receipt:
        """Publish to one group only, perhaps with a follow-up."""
        name, call = f"{consumer.group}.send(…)", f"{consumer.group}.send()"
        if options.get("direct"):
            raise BadOption(f"{name} goes to a consumer of this app, through its database: leave out direct=True")
        draft = self._envelope.draft(
            payload, MISSING, _own(options), group=consumer.group, topic=consumer.topic, call=name
        )
        if options.get("then") is None and options.get("failed") is None:
            return await self.store(draft, options, call)
        refuse_followed(_map(options), name)
        published = await self._open(self._fan_in.chain(draft, options, name), options.get("tx"), call)
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
        self,
        messages: Iterable[object],
        spread: Duration | None,
        options: PublishOptions,
        more: tuple[object, ...] = (),
    ) -> list[Receipt]:
        """See ``Mainspring.publish_many``; ``more`` is what it does not take."""
        if more:
            raise BadOption(
                "app.publish_many(…) takes one iterable, of messages or (topic, payload) pairs: write "
                "app.publish_many(('orders.placed', each) for each in …)"
            )
        tx, made = options.get("tx"), self.drafts(messages, spread, options)
        if (sender := self._sender(options, "app.publish_many()", spread)) is not None:
            with self._chain.around(made, enlisted=False) as drafts:
                return await sender.send(drafts, "app.publish_many()")
        if self._limits:
            await self._gate.admit(made, tx, "app.publish_many()")
        with self._chain.around(made, enlisted=tx is not None) as drafts:
            if tx is None:
                return await (await self._connection.opening("app.publish_many()")).batcher.publish_many(drafts)
            answers: list[Receipt] = []
            for batch in (drafts[start : start + BATCH] for start in range(0, len(drafts), BATCH)):
                answers += receipts(batch, await self._transactions.run(tx, self.publishing(batch)))
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
    def spans(self) -> Spans | None:
        """What creates spans, as ``outermost`` has decided; None if none would be recorded."""
        return self._chain.spans

    def around_occurrences(self) -> Around | None:
        """Return the middleware around the publishing of occurrences; None without any."""
        return self._chain.around_occurrences()

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
        *,
        group: str | None = None,
        instead_of: str | None = None,
    ) -> Draft:
        """Return the draft of a publish, to one group or to all; ``instead_of`` is the content type of an original."""
        return self._envelope.draft(
            message, payload, _map(options), group=group, causation_id=causation_id, call=call, instead_of=instead_of
        )

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
        if (sender := self._sender(options, call)) is not None:
            with self._chain.around([draft], enlisted=False) as drafts:
                return (await sender.send(drafts, call))[0]
        unique_key = unique_key_of(draft, _map(options), call)
        if self._limits:
            await self._gate.admit([draft], options.get("tx"), call)
        if not self._chain:
            return await self._store_now(draft, unique_key, options, call)
        with self._chain.around([draft], enlisted=options.get("tx") is not None) as drafts:
            return await self._store_now(drafts[0], unique_key, options, call)

    def _sender(self, options: PublishOptions, call: str, spread: Duration | None = None) -> DirectSending | None:
        """Return what sends to brokers without the outbox; None if that is not asked for."""
        if options.get("direct") is None or not flag(options["direct"], "direct"):
            return None
        if self._direct is None:
            if self._consumers.direct is None:
                raise BadOption(
                    f"{call} with direct=True: this app has no route: register one by app.route(…, to=…), or leave out "
                    "direct=True"
                )
            self._direct = self._consumers.direct(self._connection, self._consumers, self.clock)
        self._direct.check({**options, "spread": spread}, call)
        return self._direct

    async def receive(self, group: str, source: str, received: Mapping[str, Draft]) -> InboxReceipt:
        """Store messages from outside, as an intake does."""
        return await (await self._connection.storage("app.worker()")).inbox.receive(group, source, received)

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
        return receipts([draft], await self._transactions.run(tx, self.publishing([draft])))[0]

    def publishing(self, drafts: Sequence[Draft]) -> Script[Published]:
        """Store drafts as they are, in a caller's transaction."""
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

    def drafts(self, messages: Iterable[object], spread: Duration | None, options: PublishOptions) -> list[Draft]:
        """Return the drafts of a publish of many."""
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


def _map(options: PublishOptions | SendOptions | JoinOptions) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", options)


def _own(options: SendOptions) -> Mapping[str, Any]:
    """Return the message's own options, without those of what follows it."""
    given = _map(options)
    if "then" not in given and "failed" not in given:
        return given
    return {name: value for name, value in given.items() if name not in _FOLLOWING}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A join and its members, ready to be stored as one."""

    join: Join
    members: tuple[Draft, ...]

    @property
    def drafts(self) -> list[Draft]:
        """All its drafts, published now or later."""
        return [*self.members, *filter(None, (self.join.then, self.join.failed))]

    def of(self, drafts: Sequence[Draft]) -> Bundle:
        """Return a copy with these ``drafts``, in their order."""
        rest = iter(drafts)
        members = tuple(next(rest) for _ in self.members)
        join = self.join
        return Bundle(
            replace(join, then=join.then and next(rest), failed=join.failed and next(rest)),
            members,
        )


class FanIn:
    """Reader of joins. Every check of a join happens here, before anything is stored."""

    def __init__(self, consumers: Consumers, envelope: Envelope) -> None:
        self._consumers = consumers
        self._envelope = envelope

    def join(self, members: Any, options: JoinOptions, call: str, causation_id: UUID | None = None) -> Bundle:
        """Return the join of these members; the message ``causation_id`` is its cause."""
        refuse_unknown(options, _KNOWN, call)
        id = self._envelope.identity()
        shared = {
            "key": options.get("key"),
            "correlation_id": options.get("correlation_id") or str(id),
            "validate": options.get("validate"),
        }
        drafts = tuple(self._draft(each, "a member ", shared, call, causation_id) for each in _counted(members, call))
        if not drafts:
            raise BadOption(f"{call} has no members: give at least one, as in {_example(call)}")
        return Bundle(self._join(id, options, shared, call, causation_id), drafts)

    def chain(self, member: Draft, options: SendOptions, call: str) -> Bundle:
        """Return a join of one: it is the cause of what follows, which shares its correlation."""
        shared = {
            "key": member.key,
            "correlation_id": member.correlation_id or str(member.id),
            "priority": member.priority,
            "validate": options.get("validate"),
        }
        return Bundle(self._join(self._envelope.identity(), options, shared, call, member.id), (member,))

    def _join(
        self,
        id: UUID,
        options: JoinOptions | SendOptions,
        shared: Mapping[str, Any],
        call: str,
        causation_id: UUID | None,
    ) -> Join:
        given = {option: value for option in _FOLLOWING if (value := _map(options).get(option)) is not None}
        if not given:
            raise BadOption(f"{call} has neither then= nor failed=: nothing would follow. Write {_example(call)}")
        own = {**shared, "message_id": id}
        drafts = {name: self._draft(each, f"{name}=", own, call, causation_id) for name, each in given.items()}
        return Join(id, **drafts)

    def _addressed(self, given: object, where: str, call: str) -> tuple[Registration, object]:
        """Return the consumer and its payload; MISSING without one."""
        consumer, payload = given if type(given) is tuple and len(given) == 2 else (given, MISSING)  # noqa: PLR2004
        found = registration_of(consumer)
        if found is None:
            named = ": a topic may have any number of groups" if isinstance(consumer, str) else ""
            raise BadOption(
                f"{call}: {where}{consumer!r} is no consumer{named}. Pass the function or class under @app.consumer, "
                "itself or as (consumer, payload)"
            )
        if not any(each is found or each.function is found.function for each in self._consumers):
            raise BadOption(
                f"{call}: {where}{found.name} is a consumer of another app: pass one that was registered by "
                "@app.consumer of this app"
            )
        return found, payload

    def _draft(
        self, given: object, where: str, options: Mapping[str, Any], call: str, causation_id: UUID | None
    ) -> Draft:
        """Return the draft for a (consumer, payload) pair, or for a consumer that takes no payload."""
        consumer, payload = self._addressed(given, where, call)
        draft = self._envelope.draft(
            None if payload is MISSING else payload,
            MISSING,
            {**options, "validate": False} if payload is MISSING else options,
            group=consumer.group,
            topic=consumer.topic,
            causation_id=causation_id,
            call=call,
        )
        if payload is MISSING:
            _check_takes_nothing(consumer, draft, where, call)
        return draft


def _counted(members: Any, call: str) -> Iterable[object]:
    if isinstance(members, str | bytes | Mapping) or not isinstance(members, Iterable):
        raise BadOption(f"{call} takes a list of (consumer, payload), not {members!r}: write {_example(call)}")
    for place, each in enumerate(members):
        if place == MOST:
            raise BadOption(
                f"{call} has more than {MOST:,} members, which are stored in one transaction: let each member be the "
                "join of a part"
            )
        yield each


def _check_takes_nothing(consumer: Registration, draft: Draft, where: str, call: str) -> None:
    if consumer.decode is None:
        return
    try:
        consumer.decode(draft.payload, draft.content_type)
    except Unreadable:
        raise BadOption(
            f"{call}: {where}{consumer.group} takes a payload, and none was given: write ({consumer.group}, payload)"
        ) from None


def _example(call: str) -> str:
    name = call.partition("(")[0]
    return f"{name}([(resize, photo), …], then=publish_album)"
