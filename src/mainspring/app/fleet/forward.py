"""A message for another database than that of its transaction: as it is stored there, and the group that sends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID, uuid5

import msgspec

from mainspring.app.batcher import BATCH, receipts
from mainspring.app.config import Options
from mainspring.app.consume import signature
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.context import Publishing
from mainspring.app.consume.middleware import Middleware, around
from mainspring.app.names import forwards_of
from mainspring.app.transaction.consumers import LentConnections
from mainspring.model.errors import BadOption
from mainspring.model.message import Delivery, Draft, Priority, Receipt, public
from mainspring.runtime.handler import Batching, Handler
from mainspring.timing.backoff import MESSAGES

if TYPE_CHECKING:
    from mainspring.app.fleet.destinations import Destinations
    from mainspring.app.fleet.member import Member
    from mainspring.app.message.envelope import PublishOptions

HEADER = "mainspring-forward"
"""Where a forwarded message goes, with all of it that would mean something in the database where it waits."""
_AT_ONCE = 250
_LINGER = 0.005
_CONCURRENCY = 2


class Forward(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of the header."""

    database: str
    id: UUID
    key: str | None = None
    delay: timedelta = timedelta()
    at: datetime | None = None
    expires_in: timedelta | None = None
    expires_at: datetime | None = None


_read = msgspec.json.Decoder(Forward).decode


def enclosed(draft: Draft, database: str, group: str, id: UUID) -> Draft:
    """Return what is stored of a message for that database: due at once, under no key, for the group that sends it.

    It expires here too. Elsewhere it waits for its time: there it is found and cancelled by its key.
    """
    times = (draft.delay, draft.at, draft.expires_in, draft.expires_at)
    written = msgspec.json.encode(Forward(database, draft.id, draft.key, *times)).decode()
    headers = {**(draft.headers or {}), HEADER: written}
    return replace(draft, id=id, group=group, headers=headers, key=None, delay=timedelta(), at=None)


def opened(delivery: Delivery) -> tuple[str, Draft]:
    """Return the database of a stored message, and the message as it was published. Raises ValueError.

    Times count from when it was stored, by the clock of the database that stored it.
    """
    written = (delivery.headers or {}).get(HEADER)
    if written is None:
        raise ValueError(f"it has no header {HEADER}")
    forward, start = _read(written), delivery.published_at
    return forward.database, Draft(
        forward.id,
        delivery.topic,
        delivery.payload,
        delivery.content_type,
        public(delivery.headers) or None,
        forward.key,
        priority=Priority(delivery.priority),
        at=start + forward.delay if forward.delay else forward.at,
        expires_at=forward.expires_at if forward.expires_in is None else start + forward.expires_in,
        correlation_id=delivery.correlation_id,
        causation_id=delivery.causation_id,
    )


async def store_for(database: str, member: Member, drafts: Sequence[Draft], options: PublishOptions) -> list[Receipt]:
    """Store messages for another database in the caller's transaction of this one, and return their receipts."""
    for name, why in _IMPOSSIBLE.items():
        if options.get(name):
            call = f"fleet.publish(…, {name}=…) for {database!r} in a transaction of {member.name!r}"
            raise BadOption(f"{call}: {why}, or leave tx= out")
    publisher, code, tx = member.place.front.publisher, member.place.code, options.get("tx")
    is_named, group = options.get("message_id") is not None, forwards_of(code.options.name)
    answers: list[Receipt] = []
    with code.chain.around(drafts, enlisted=True) as sent:
        # A message with an id of the caller's may go to several databases, and to this one.
        rows = [enclosed(each, database, group, uuid5(each.id, database) if is_named else each.id) for each in sent]
        for batch in (rows[start : start + BATCH] for start in range(0, len(rows), BATCH)):
            answers += receipts(batch, await member.place.transactions.run(tx, publisher.publishing(batch)))
    return [replace(each, id=draft.id) for each, draft in zip(answers, drafts, strict=True)]


_IMPOSSIBLE = {
    "unique": "only the database that it is for knows what is there. Pass a message_id= for what may be there once",
    "direct": "what is sent directly is part of no transaction. Leave it out",
}
"""The options that a message for another database cannot have, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwards(Registration):
    """The group of the messages for other databases, which every worker of a fleet serves."""

    destinations: Destinations
    takes_less: ClassVar[bool] = True

    def handler(
        self,
        app: Publishing,
        lending: LentConnections | None = None,  # noqa: ARG002 - it has no transaction
        outermost: tuple[Middleware, ...] = (),
    ) -> Handler:
        """Return what the runtime runs: it stores batches elsewhere."""
        return Handler(
            group=self.group,
            call=self.destinations.send,
            retry=self.retry,
            concurrency=self.concurrency,
            keep=self.keep,
            dead=self.dead,
            around=around(outermost, app, batch=True),
            batching=self.batching,
        )


def forwarding(options: Options, destinations: Destinations) -> Forwards:
    """Return the group of an app's fleet."""

    async def stored_elsewhere() -> None:
        raise AssertionError("what is for other databases has no handler of the application's")

    group = forwards_of(options.name)
    return Forwards(
        group=group,
        name="messages for other databases of the fleet",
        function=stored_elsewhere,
        shape=signature.read(stored_elsewhere, None),
        decode=None,
        topics=(),
        topic=group,
        retry=MESSAGES,
        timeout=None,
        concurrency=_CONCURRENCY,
        keep=options.keep,
        threaded=False,
        dead=options.dead,
        batching=Batching(_AT_ONCE, _LINGER),
        destinations=destinations,
    )
