"""``Remote``: another Mainspring database as a broker, exactly once by message id."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from mainspring.app.config import Options
from mainspring.app.names import check_group, check_name, check_pattern
from mainspring.app.options import whole
from mainspring.app.storages import Address, open_storage, read_url
from mainspring.brokers.contract import SENT, Broker, BrokerConnection, Received, SendResult, WireMessage
from mainspring.brokers.wire import Outbound, read, write
from mainspring.model.errors import (
    BadOption,
    BrokerUnavailable,
    ClaimLost,
    NotGranted,
    SchemaMissing,
    SchemaTooNew,
    StorageError,
    StorageUnavailable,
)
from mainspring.model.message import Draft
from mainspring.model.text import described
from mainspring.runtime.intake import in_parts
from mainspring.runtime.settler import BATCH
from mainspring.storage.contract import Storage

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring
    from mainspring.app.queue.item import Item
    from mainspring.app.queue.queue import Queue

_GROUP = "remote"
"""The group of the inbox marks over there."""
_HOLD = timedelta(minutes=1)
"""How long received messages are claimed; what is not acknowledged is extended at a third of it."""
_REAP_EVERY = 1.0
_NOW = timedelta()
_COUNTED = 1_000_000
"""Up to how many are counted as waiting."""
_CLOSE_WITHIN = 4.0
_MIGRATE = "run `mainspring migrate --app MODULE:APP` for the app whose database it is"


class Remote(Broker):
    """Another Mainspring database: messages are published there, or read from a group there, each once.

    No two-phase commit: a message leaves one database when the other has committed it with its inbox mark, and a repeat
    finds the mark. ``name`` is what this app is called over there: it distinguishes senders, whose ids may then be the
    same, and sources.
    """

    kind: ClassVar[str] = "mainspring"
    reading: ClassVar[str] = "group='billing' and topics=['orders.*']"

    def __init__(
        self,
        url: str,
        *,
        name: str = "mainspring",
        group: str | None = None,
        topics: Sequence[str] = (),
        schema: str = "mainspring",
        namespace: str | None = None,
        largest: int = 16 * 1024 * 1024,
        declare: bool = False,
    ) -> None:
        self.name: str = check_name(name, "name")
        self.group: str | None = None if group is None else check_group(group)
        """The group over there that is read."""
        if isinstance(topics, str):
            raise BadOption(f"Remote(…, topics={topics!r}) must be a list, as in topics=[{topics!r}]")
        self.topics: tuple[str, ...] = tuple(check_pattern(each) for each in topics)
        """What ``declare`` subscribes the group to."""
        if self.topics and self.group is None:
            raise BadOption("Remote(…, topics=…) has no group=: name the group over there that is read")
        self.declare: bool = declare
        self.largest: int = whole(largest, "largest", least=1, most=2**29)
        """How many bytes a payload may have."""
        self._address: Address = read_url(url)
        self._options = Options.read({"schema": schema, "namespace": namespace})
        if self._address.engine == "memory":
            raise BadOption(
                "Remote('memory://') leads to no database of another app: pass its sqlite:/// or postgresql://"
            )

    @property
    def url(self) -> str:
        """The address of the database."""
        return self._address.target if self._address.engine == "postgresql" else f"sqlite:///{self._address.target}"

    @property
    def source(self) -> str:
        """The group that is read."""
        return "" if self.group is None else f"mainspring:{self.name}:{self.group}"

    def address(self, topic: str) -> str:
        """Return the topic, which is the same there; in other tables than those of most apps with their name."""
        tables = self._options.tables
        return topic if tables == "mainspring" else f"{tables}:{topic}"

    async def connect(self) -> BrokerConnection:
        """Open the database."""
        if self._address.missing:  # opening it would make an empty one
            raise BrokerUnavailable(f"the file {self._address.shown} does not exist: correct the URL, or {_MIGRATE}")
        storage, _ = open_storage(self._address, self._options)
        try:
            await storage.open()
            await storage.schema.check()
        except BaseException as error:
            await storage.close()
            if isinstance(error, SchemaMissing):
                raise BrokerUnavailable(f"{self._address.shown}: {error}, for the app whose database it is") from error
            if isinstance(error, StorageError):
                raise BrokerUnavailable(f"{self._address.shown}: {error}") from error
            raise
        return RemoteConnection(self, storage)

    def app(self) -> Mainspring:
        """Return this app as the other database sees it: a reader of its group."""
        from mainspring.app.mainspring import Mainspring

        schema, namespace = self._options.schema, self._options.namespace
        return Mainspring(self.url, name=self.name, schema=schema, namespace=namespace, auto_migrate=False)


class RemoteConnection:
    """An open database of another app."""

    def __init__(self, broker: Remote, storage: Storage) -> None:
        self._broker = broker
        self._storage = storage
        self._sender = f"mainspring:{broker.name}"
        self._reader: RemoteReader | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it is closed: the storage opens its own connections again."""
        return self._closed

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """Publish there, each once."""
        if self._closed:
            return [SendResult("later", "the connection is closed")] * len(messages)
        try:
            async with asyncio.timeout(within):
                return await self._stored(messages)
        except TimeoutError:
            return [SendResult("later", f"no response within {within:g} s")] * len(messages)

    async def _stored(self, messages: Sequence[WireMessage]) -> list[SendResult]:
        drafts: dict[str, Draft] = {}
        results: dict[str, SendResult] = {}
        for each in messages:
            try:
                drafts[each.id] = self._draft(each)
            except Exception as error:  # noqa: BLE001 - one that cannot be read decides about no other
                results[each.id] = SendResult("rejected", described(error))
        results |= await store_once(self._storage, _GROUP, self._sender, drafts)
        return [results[each.id] for each in messages]

    def _draft(self, message: WireMessage) -> Draft:
        if len(message.body) > self._broker.largest:
            raise ValueError(f"its {len(message.body):,} bytes exceed the limit of {self._broker.largest:,} (largest=)")
        sent = Received(message.body, message.headers, message.content_type, message.topic, message.id, message.id)
        found = read(sent)
        return Draft(
            UUID(message.id),
            message.topic,
            found.payload,
            found.content_type,
            {name: value for name, value in found.headers.items() if name != "causationid"} or None,
            message.key,
            correlation_id=message.correlation_id,
        )

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """See ``BrokerConnection``."""
        async with self._reading() as reader:
            return await reader.receive(limit, wait)

    async def ack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        async with self._reading() as reader:
            await reader.ack(received)

    async def nack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        async with self._reading() as reader:
            await reader.nack(received)

    async def lag(self) -> int | None:
        """See ``BrokerConnection``."""
        group = self._broker.group
        if group is None:
            return None
        with _unavailable():
            return (await self._storage.ledger.pending({group: _COUNTED})).get(group, 0)

    async def check(self) -> list[str]:
        """Its tables were checked when it was opened; name a missing group."""
        if await self._is_there():
            return []
        return [f"there is no group {self._broker.group!r} in {self._broker.shown}: declare=True makes it"]

    async def declare(self) -> list[str]:
        """Subscribe the group over there to its topics. Its tables are made by ``mainspring migrate`` of that app."""
        broker = self._broker
        was_there = await self._is_there()
        if not broker.topics:
            if was_there:
                return []
            raise BrokerUnavailable(f"the group {broker.group!r} has no topics: pass Remote(…, topics=['orders.*'])")
        with _unavailable():
            async with broker.app() as app:
                await app.queue(str(broker.group), *broker.topics).declare()
        return [] if was_there else [f"group {broker.group}"]

    async def _is_there(self) -> bool:
        with _unavailable():
            known = await self._storage.ledger.roster()
        return self._broker.group is None or any(each.name == self._broker.group for each in known.groups)

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[RemoteReader]:
        group = self._broker.group
        if self._closed or group is None:
            raise BrokerUnavailable("the connection is closed" if self._closed else "Remote(…) has no group= to read")
        with _unavailable():
            async with self._opening:
                if self._reader is None:
                    self._reader = await RemoteReader.open(self._broker, group)
            yield self._reader

    async def close(self) -> None:
        """Close the database; what was received and not acknowledged is released."""
        if self._closed:
            return
        self._closed = True
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                await reader.close()
        finally:
            await self._storage.close()


async def store_once(storage: Storage, group: str, source: str, drafts: Mapping[str, Draft]) -> dict[str, SendResult]:
    """Store messages of other databases by their ids, each with its mark. Raises nothing that a message may cause."""
    try:
        receipts = [await storage.inbox.receive(group, source, part) for part in in_parts(drafts)]
    except (StorageUnavailable, SchemaMissing, SchemaTooNew, NotGranted) as error:
        return dict.fromkeys(drafts, SendResult("later", str(error)))
    except Exception as error:  # noqa: BLE001 - of several, one at a time tells which it is
        if len(drafts) == 1:
            # What the database says is as a rule of itself: its disk is full, or its tables are being moved.
            return dict.fromkeys(
                drafts, SendResult("later" if isinstance(error, StorageError) else "rejected", described(error))
            )
        each_alone = [await store_once(storage, group, source, {id: draft}) for id, draft in drafts.items()]
        return {id: result for found in each_alone for id, result in found.items()}
    other = SendResult("rejected", "its id is known there as another message")
    return dict.fromkeys(drafts, SENT) | {id: other for receipt in receipts for id in receipt.mismatched}


class RemoteReader:
    """Claims the deliveries of a group in another database, and settles what is acknowledged.

    What was received stays claimed until then. One whose reader was killed is received again when its claim lapses.
    """

    def __init__(self, app: Mainspring, queue: Queue[Any], sender: str) -> None:
        self._app = app
        self._queue = queue
        self._sender = sender
        self._in_hand: dict[UUID, Item[Any]] = {}
        self._reaped_at = float("-inf")
        self._extending = asyncio.create_task(self._extend(), name="mainspring-remote-extend")

    @classmethod
    async def open(cls, broker: Remote, group: str) -> RemoteReader:
        """Open the app, and look up the group. Raises BrokerUnavailable if it is not there.

        One that it declares is declared again while it is read: another release may read fewer topics.
        """
        app = broker.app()
        await app.__aenter__()
        try:
            queue = app.queue(group, *(broker.topics if broker.declare else ()))
            await queue.declare()
        except BaseException as error:
            await app.__aexit__(None, None, None)
            if isinstance(error, BadOption):
                raise BrokerUnavailable(str(error)) from error
            raise
        return cls(app, queue, broker.name)

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """Claim up to ``limit``; wait for the first."""
        until = time.monotonic() + wait
        while not (items := await self._claimed(min(limit, BATCH))):
            left = until - time.monotonic()
            if left <= 0:
                break
            await self._queue.wait(timedelta(seconds=min(left, _REAP_EVERY)))
        self._in_hand.update((each.message_id, each) for each in items)
        return [self._received(each) for each in items]

    async def _claimed(self, limit: int) -> Sequence[Item[Any]]:
        if time.monotonic() - self._reaped_at >= _REAP_EVERY:
            if (lapsed := await self._queue.reap(_HOLD)) is not None:
                return [lapsed]  # and the next call looks for one more
            self._reaped_at = time.monotonic()
        return await self._queue.claim(limit, _HOLD)

    def _received(self, item: Item[Any]) -> Received:
        about = item.key, item.correlation_id, item.causation_id, item.published_at
        stored = Outbound(item.message_id, item.topic, item.body, item.content_type, item.headers, *about)
        sent = write(stored, self._sender, "cloudevents", "ce-")
        return Received(
            sent.body,
            sent.headers,
            sent.content_type,
            item.topic,
            sent.id,
            sent.id,
            sent.key,
            sent.correlation_id,
            redelivered=item.suspect or item.attempt > 1,
            token=item,
        )

    async def ack(self, received: Sequence[Received]) -> None:
        """Settle them as done."""
        items = [item for each in received if (item := self._in_hand.pop(each.token.message_id, None)) is not None]
        # Of one that lapsed and was claimed elsewhere, the mark is here: it is a repeat there.
        with contextlib.suppress(ClaimLost):
            await self._queue.ack(*items)

    async def nack(self, received: Sequence[Received]) -> None:
        """Release them."""
        items = [item for each in received if (item := self._in_hand.pop(each.token.message_id, None)) is not None]
        with contextlib.suppress(ClaimLost):
            await self._queue.abandon(*items, delay=_NOW)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(_HOLD.total_seconds() / 3)
            if self._in_hand:
                with contextlib.suppress(StorageError):  # tried again, or they lapse
                    await self._queue.extend(*self._in_hand.values(), hold=_HOLD)

    async def close(self) -> None:
        """Release what is in hand, and close the app."""
        self._extending.cancel()
        try:
            async with asyncio.timeout(_CLOSE_WITHIN):
                with contextlib.suppress(StorageError, ClaimLost):  # they lapse
                    await self._queue.abandon(*self._in_hand.values(), delay=_NOW)
        except TimeoutError:
            pass  # they lapse
        finally:
            await self._app.__aexit__(None, None, None)


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise BrokerUnavailable(str(error)) from error
