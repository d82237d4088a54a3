"""``Remote``: another Mainspring database as a broker, exactly once by message id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from mainspring.app.config import Options
from mainspring.app.names import check_name
from mainspring.app.storages import Address, open_storage, read_url
from mainspring.brokers.contract import SENT, Broker, BrokerConnection, Received, SendResult, WireMessage
from mainspring.brokers.wire import read
from mainspring.model.errors import BadOption, BrokerUnavailable, StorageError, StorageUnavailable
from mainspring.model.message import Draft
from mainspring.model.text import described
from mainspring.storage.contract import Storage

_GROUP = "remote"
"""The group of the inbox marks over there."""


class Remote(Broker):
    """Another Mainspring database: what is sent is published there, under the same id, each once.

    No two-phase commit: the message leaves this outbox when the other database has committed it with its inbox mark,
    and a repeat finds the mark. ``name`` distinguishes senders; their ids may then be the same.
    """

    kind: ClassVar[str] = "mainspring"

    def __init__(
        self, url: str, *, name: str = "mainspring", schema: str = "mainspring", namespace: str | None = None
    ) -> None:
        self.declare: bool = False
        self.name: str = check_name(name, "name")
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
        """Nothing is read from it: the other app has a route of its own."""
        return ""

    def address(self, topic: str) -> str:
        """Return the topic: it is the same there."""
        return topic

    async def connect(self) -> BrokerConnection:
        """Open the database."""
        storage, _ = open_storage(self._address, self._options)
        try:
            await storage.open()
            await storage.schema.check()
        except BaseException as error:
            await storage.close()
            if isinstance(error, StorageError):
                raise BrokerUnavailable(f"{self._address.shown}: {error}") from error
            raise
        return RemoteConnection(storage, self.name)


class RemoteConnection:
    """An open database of another app."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._source = f"mainspring:{name}"
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it is closed: the storage opens its own connections again."""
        return self._closed

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """Publish there, all or none, each once."""
        if self._closed:
            return [SendResult("later", "the connection is closed")] * len(messages)
        try:
            async with asyncio.timeout(within):
                return await self._stored(messages)
        except TimeoutError:
            return [SendResult("later", f"no response within {within:g} s")] * len(messages)

    async def _stored(self, messages: Sequence[WireMessage]) -> list[SendResult]:
        try:
            drafts = {each.id: _draft(each) for each in messages}
            await self._storage.inbox.receive(_GROUP, self._source, drafts)
        except StorageUnavailable as error:
            return [SendResult("later", str(error))] * len(messages)
        except Exception as error:  # noqa: BLE001 - of several, one at a time tells which it is
            if len(messages) == 1:
                return [SendResult("rejected", described(error))]
            return [result for each in messages for result in await self._stored([each])]
        return [SENT] * len(messages)

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """Nothing is read from it."""
        raise BrokerUnavailable(f"a Remote is only sent to, so there are no {limit} messages to wait for, {wait:g} s")

    async def ack(self, received: Sequence[Received]) -> None:
        """Nothing is read from it."""

    async def nack(self, received: Sequence[Received]) -> None:
        """Nothing is read from it."""

    async def lag(self) -> int | None:
        """Nothing is read from it."""
        return None

    async def check(self) -> list[str]:
        """Its tables were checked when it was opened."""
        return []

    async def declare(self) -> list[str]:
        """Its tables are made by ``mainspring migrate`` of the other app."""
        return []

    async def close(self) -> None:
        """Close the database."""
        if not self._closed:
            self._closed = True
            await self._storage.close()


def _draft(message: WireMessage) -> Draft:
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
