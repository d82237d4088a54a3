"""A connection to RabbitMQ: its channels, and what the broker's answers mean."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import aiormq
from aiormq.connection import TCPTransportFactory, TLSTransportFactory

from mainspring.brokers.contract import SENT, Received, SendResult, WireMessage
from mainspring.brokers.rabbitmq_frames import Frames
from mainspring.brokers.rabbitmq_properties import read_message, written_message
from mainspring.model.errors import BadOption, BrokerUnavailable
from mainspring.model.text import described

if TYPE_CHECKING:
    from mainspring.brokers.rabbitmq import RabbitMQ

_client_log = logging.getLogger("aiormq")
if _client_log.level == logging.NOTSET:  # the link logs what is lost, once; the client each attempt, with tracebacks
    _client_log.setLevel(logging.CRITICAL)

_AT_ONCE = 100
"""How many messages of a batch wait for their confirms at once: a task for each costs more than it gains."""
_ANSWER_WITHIN = 10.0
_CLOSE_WITHIN = 4.0
_HEARTBEAT = 15
"""Seconds: a broker that is gone without a word is noticed after about three of them."""
_IN_FLIGHT = 8 * 1024 * 1024
"""Bytes of bodies that are sent before their confirms are awaited."""
_FIRST_WITH_LIMIT, _DEFAULT_LIMIT = 4, 20
_DLX, _LIMIT, _TYPE = "x-dead-letter-exchange", "x-delivery-limit", "x-queue-type"
_MOST_ARGUMENTS = 20
_DIFFERS = re.compile(
    r"inequivalent arg '(?P<name>[^']+)' .* but current is "
    r"(?:none|the value '(?P<value>.*)' of type '(?P<type>\w+)'|'(?P<bare>.*)')$"
)
_ARGUMENTS: dict[str, Callable[[str], Any]] = {"longstr": str, "bool": "true".__eq__}


async def connect(broker: RabbitMQ) -> RabbitMQConnection:
    """Open a connection. Raises BrokerUnavailable, or BadOption for an option of the URL."""
    given = parse_qs(urlsplit(broker.url).query, keep_blank_values=True)
    added = "" if "heartbeat" in given else f"{'&' if '?' in broker.url else '?'}heartbeat={_HEARTBEAT}"
    named: Any = {} if "name" in given else {"connection_name": "mainspring"}
    socket: Any = _Socket(TLSTransportFactory() if broker.url.startswith("amqps") else TCPTransportFactory())
    try:
        client = aiormq.Connection(broker.url + added, transport_factory=socket, client_properties=named)
        # Where it has a limit, a full queue drops the reply to a channel that the broker closes, or writes to the
        # channel after the reply, for which the broker closes the connection.
        client.write_queue = asyncio.Queue()
    except ValueError:
        raise BadOption(f"the URL of RabbitMQ at {broker.where} has an option that cannot be read") from None
    try:
        await client.connect()
    except Exception as error:  # noqa: BLE001 - anything that an endpoint which is no RabbitMQ may cause
        raise BrokerUnavailable(f"RabbitMQ at {broker.where} {_refusal(broker, _words(error))}") from None
    return RabbitMQConnection(broker, client, socket)


def _refusal(broker: RabbitMQ, words: str) -> str:
    if words.startswith("ACCESS_REFUSED"):
        return f"refuses {broker.login}: {words} Check the password, and that the user exists"
    if "Connection.OpenOk" in words:  # the client drops the broker's own words
        return f"refuses {broker.login}: there is no such vhost, it is full, or the user has no permission for it"
    if "WRONG_VERSION_NUMBER" in words:
        return "offers no TLS at this port: write amqp://, or the port that has TLS, as a rule 5671"
    reason = re.sub(r"^-?\d+ ", "", words)  # the number of an error of the system
    return f"cannot be reached: {reason}. Check the host and the port, and that the server runs"


class _Socket:
    """Opens the socket, and keeps it: it is aborted where the broker does not respond."""

    def __init__(self, factory: Any) -> None:
        self._factory = factory
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: Any, **options: Any) -> tuple[Frames, asyncio.StreamWriter]:
        reader, self._writer = await self._factory.create(url, **options)
        return Frames(reader), self._writer

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()


class RabbitMQConnection:
    """A connection to RabbitMQ: a channel that sends, one that reads, and one more for each question.

    A reading channel that is lost takes the connection along. A sending channel that the broker closes because of one
    message is opened again, and those without a confirm are sent one by one, so that each gets its own result.
    """

    def __init__(self, broker: RabbitMQ, client: Any, socket: _Socket) -> None:
        self.server: tuple[int, ...] = tuple(map(int, re.findall(r"\d+", str(client.server_properties.get("version")))))
        """The version of the server, as in (4, 0, 5)."""
        self._broker = broker
        self._client = client
        self._socket = socket
        self._lost: str | None = None
        self._opening = asyncio.Lock()
        self._sender: Any = None
        self._sending: set[str] = set()
        """The ids of messages that the sending channel has, of all calls that send."""
        self._reader: Any = None
        self._starting: asyncio.Task[None] | None = None
        self._delivered: deque[Any] = deque()
        self._unsettled: dict[int, None] = {}
        """Delivery tags, in their order."""
        self._changed = asyncio.Event()
        """Something was delivered, or the connection is lost."""

    @property
    def closed(self) -> bool:
        """Whether it is lost."""
        return self._lost is not None or not self._client.is_opened

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """See ``BrokerConnection``."""
        results: dict[int, SendResult] = {}
        why = ""
        try:
            async with asyncio.timeout(within):
                if not self.closed:
                    await self._send(messages, results)
        except TimeoutError:
            self._lose(f"no confirm within {within:g} s")
        except Exception as error:  # noqa: BLE001 - a channel cannot be opened
            why = _words(error)
        later = SendResult("later", why or self._why())
        return [results.get(number, later) for number in range(len(messages))]

    async def _send(self, messages: Sequence[WireMessage], results: dict[int, SendResult]) -> None:
        groups: list[dict[int, dict[str, Any]]] = [{}]
        alone: dict[int, dict[str, Any]] = {}
        own: set[str] = set()
        in_flight = 0
        for number, message in enumerate(messages):
            try:
                written = written_message(message, self._broker, self._client.connection_tune.frame_max)
            except Exception as error:  # noqa: BLE001 - routing_key= may be the application's own function
                reason = str(error) if isinstance(error, ValueError) else described(error)
                results[number] = SendResult("rejected", reason)
                continue
            in_flight += len(message.body)
            if in_flight > _IN_FLIGHT:
                groups.append({})
                in_flight = len(message.body)
            # The client finds what the broker returns by its id: of two with the same, one would look confirmed.
            if message.id in self._sending:
                alone[number] = written
            else:
                groups[-1][number] = written
                self._sending.add(message.id)
                own.add(message.id)
        try:
            for group in groups:
                await self._send_together(group, results)
        finally:
            self._sending -= own
        await self._send_alone(alone, results)

    async def _send_together(self, messages: Mapping[int, dict[str, Any]], results: dict[int, SendResult]) -> None:
        """Send all at once, and those that a closed channel leaves without a result once more."""
        left: dict[int, dict[str, Any]] = {}
        async with self._opening:
            if self._sender is None or self._sender.is_closed:
                self._sender = await self._client.channel(on_return_raises=True)
        channel = self._sender

        waiting = iter(messages.items())

        async def publish() -> None:
            for number, written in waiting:
                try:
                    await channel.basic_publish(**written)
                    results[number] = SENT
                except Exception as error:  # noqa: BLE001 - judged by its kind
                    if channel.is_closed and not self.closed:
                        left[number] = written
                    else:
                        results[number] = _judged(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(messages), _AT_ONCE)):
                group.create_task(publish())
        await self._send_alone(left, results)

    async def _send_alone(self, messages: Mapping[int, dict[str, Any]], results: dict[int, SendResult]) -> None:
        channel: Any = None
        refused: dict[str, SendResult] = {}
        for number in sorted(messages):
            written = messages[number]
            if written["routing_key"] in refused:
                results[number] = refused[written["routing_key"]]
                continue
            if channel is None or channel.is_closed:
                channel = await self._client.channel(on_return_raises=True)
            try:
                await channel.basic_publish(**written)
                results[number] = SENT
            except Exception as error:  # noqa: BLE001 - judged by its kind
                results[number] = _judged(error)
                if _words(error).startswith(("NOT_FOUND", "ACCESS_REFUSED")):
                    refused[written["routing_key"]] = results[number]
        if channel is not None:
            await channel.close()

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """See ``BrokerConnection``."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)
        if not self._delivered and not self.closed:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()
        if self.closed:
            raise BrokerUnavailable(self._why())
        taken = [self._delivered.popleft() for _ in range(min(limit, len(self._delivered)))]
        return [read_message(each, self._broker.queue or "") for each in taken]

    async def _start(self) -> None:
        """Begin to read: from now on the broker delivers."""
        if self._broker.queue is None:
            raise BrokerUnavailable(f"RabbitMQ at {self._broker.where} is only sent to: pass queue= to read one")
        try:
            async with self._asking():
                self._reader = await self._client.channel(publisher_confirms=False)
                self._reader.closing.add_done_callback(self._ended)
                self._reader.on_consumer_cancel_callbacks.add(self._cancelled)
                await self._reader.basic_qos(prefetch_count=self._broker.prefetch)
                await self._reader.basic_consume(self._broker.queue, self._arrived)
        except BrokerUnavailable as error:
            self._lose(str(error))
            if "NOT_FOUND" not in str(error):
                raise
            raise BrokerUnavailable(f"{error}: declare=True makes it, or change queue=") from error

    async def _arrived(self, message: Any) -> None:
        self._unsettled[message.delivery_tag] = None
        self._delivered.append(message)
        self._changed.set()

    def _cancelled(self, _frame: object) -> None:
        self._lose(f"queue {self._broker.queue!r} was deleted, or its node has stopped")

    def _ended(self, closing: asyncio.Future[Any]) -> None:
        error = None if closing.cancelled() else closing.exception()
        self._lose("the channel was closed" if error is None else _words(error))

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._changed.set()

    def _why(self) -> str:
        return f"RabbitMQ at {self._broker.where}: {self._lost or 'the connection is lost'}"

    async def ack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        await self._settle(received, "basic_ack")

    async def nack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        await self._settle(received, "basic_nack", requeue=True)

    async def _settle(self, received: Sequence[Received], method: str, **how: bool) -> None:
        async with self._asking():
            tags = {each.token for each in received} & self._unsettled.keys()
            # One frame settles all up to the first that stays.
            first = next((tag for tag in self._unsettled if tag not in tags), None)
            run = [tag for tag in tags if first is None or tag < first]
            frames = [(max(run), True)] if run else []
            frames += [(tag, False) for tag in sorted(tags.difference(run))]
            for tag in tags:
                del self._unsettled[tag]
            for number, (tag, multiple) in enumerate(frames, 1):
                await getattr(self._reader, method)(tag, multiple=multiple, wait=number == len(frames), **how)

    async def lag(self) -> int | None:
        """See ``BrokerConnection``."""
        if self._broker.queue is None:
            return None
        found = await self._ask("queue_declare", self._broker.queue, passive=True)
        return None if isinstance(found, str) else found.message_count

    async def check(self) -> list[str]:
        """Name a missing exchange or queue, and a queue that drops what is redelivered too often.

        RabbitMQ 4 drops a message of a quorum queue after 20 redeliveries, unless the queue has a dead-letter exchange
        or ``x-delivery-limit=-1``. Both are seen where they are arguments of the queue and the user has the permission
        to configure it; elsewhere, as where a policy sets them, they are not, and the queue is named nevertheless.
        Bindings, the type of the exchange, and queues that the default exchange leads to are not checked.
        """
        wrong: list[str] = []
        for kind, name in self._broker.places:
            found = await self._ask(f"{kind}_declare", name, passive=True)
            if isinstance(found, str) and found.startswith("NOT_FOUND"):
                wrong.append(f"there is no {kind} {name!r} for {self._broker.login}: declare=True makes it")
            elif isinstance(found, str):
                wrong.append(f"{kind} {name!r} is of no use to {self._broker.login}: {found}")
            elif kind == "queue" and self.server >= (_FIRST_WITH_LIMIT,):
                limit = await self._limit(name)
                if limit is not None:
                    wrong.append(
                        f"RabbitMQ {'.'.join(map(str, self.server))} drops a message of queue {name!r} after "
                        f"{limit} redeliveries: declare the queue with {_LIMIT}=-1 or with {_DLX}; if a policy sets "
                        "either, which cannot be seen from here, nothing needs to change"
                    )
        return wrong

    async def declare(self) -> list[str]:
        """Make the exchange and the queue where they are missing, and bind them; bindings are named with a new one.

        A quorum queue is made without a limit of redeliveries. What is there stays as it is.
        """
        broker = self._broker
        arguments: dict[str, Any] = {_TYPE: broker.queue_type}
        # Before 4 there is no limit unless one is set, and -1 drops a message at its first redelivery.
        if broker.queue_type == "quorum" and self.server >= (_FIRST_WITH_LIMIT,):
            arguments[_LIMIT] = -1
        options: dict[str, dict[str, Any]] = {"exchange": {"exchange_type": broker.exchange_type}}
        options["queue"] = {"arguments": arguments}
        made: list[str] = []
        for kind, name in broker.places:
            if isinstance(await self._ask(f"{kind}_declare", name, passive=True), str):
                await self._make(f"{kind}_declare", name, durable=True, **options[kind])
                made.append(f"{kind} {name}")
        for each in broker.bindings:
            await self._make("queue_bind", broker.queue, broker.exchange, routing_key=each)
        return made + [f"binding of queue {broker.queue} to {each}" for each in broker.bindings if made]

    async def _limit(self, queue: str) -> int | None:
        """Return after how many redeliveries the queue drops a message; None if it drops none.

        AMQP cannot read the arguments of a queue. A declaration of one that is there makes nothing and compares them in
        turn; its refusal names the first that differs, and the current value. Each of these declarations differs, and
        has an argument of streams, which is not compared, and with which no queue is made if there is none.
        """
        asked: dict[str, Any] = {_TYPE: "quorum", "x-max-age": "1D", _DLX: 0}
        for _ in range(_MOST_ARGUMENTS):
            found = _DIFFERS.search(str(await self._ask("queue_declare", queue, durable=True, arguments=asked)))
            if found is None:
                break  # no permission, or names so long that the answer is cut
            name, current = found["name"], found["value"] or found["bare"]
            if name == _TYPE or not name.startswith("x-") or (name == _DLX and current is not None):
                return None  # no quorum queue, or one that keeps what it drops
            if name == _LIMIT:
                limit = _DEFAULT_LIMIT if current is None else int(current)
                return limit if limit >= 0 else None
            if name == _DLX:
                del asked[_DLX]
                asked[_LIMIT] = "?"
            else:
                asked[name] = _ARGUMENTS.get(found["type"], int)(current)
        return _DEFAULT_LIMIT

    async def _make(self, method: str, *names: str | None, **how: Any) -> None:
        words = await self._ask(method, *names, **how)
        if isinstance(words, str):
            raise BrokerUnavailable(f"RabbitMQ at {self._broker.where} refuses {self._broker.login}: {words}")

    async def _ask(self, method: str, *names: str | None, **how: Any) -> Any:
        """Return the broker's answer, or its words if it refuses: it then closes the channel, which is used once."""
        async with self._asking():
            channel = await self._client.channel(publisher_confirms=False)
            try:
                answer = await getattr(channel, method)(*names, **how)
            except aiormq.ChannelClosed as error:
                return _words(error)
            await channel.close()
            return answer

    @contextlib.asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        if self.closed:
            raise BrokerUnavailable(self._why())
        try:
            async with asyncio.timeout(_ANSWER_WITHIN):
                yield
        except TimeoutError:
            self._lose(f"no response within {_ANSWER_WITHIN:g} s")
            raise BrokerUnavailable(self._why()) from None
        except (aiormq.AMQPError, OSError, RuntimeError) as error:
            raise BrokerUnavailable(f"RabbitMQ at {self._broker.where}: {_words(error)}") from error

    async def close(self) -> None:
        """See ``BrokerConnection``."""
        self._lose("the connection was closed")
        ends: list[asyncio.Task[None]] = [asyncio.create_task(self._client.close())]
        if self._starting is not None:
            self._starting.cancel()
            ends.append(self._starting)
        try:
            await asyncio.wait(ends, timeout=_CLOSE_WITHIN)
        finally:
            self._socket.abort()
            await asyncio.wait(ends, timeout=1)
            for each in ends:
                if each.done() and not each.cancelled():
                    each.exception()  # seen, and of no consequence: the connection ends either way


def _words(error: BaseException) -> str:
    """Return the broker's own words."""
    return " ".join(str(each) for each in error.args if each is not None) or type(error).__name__


def _judged(error: Exception) -> SendResult:
    match error:
        case aiormq.PublishError():
            words, key = error.args
            how = "bind one, or change exchange= or routing_key="
            return SendResult("rejected", f"no queue is bound for routing key {key!r} ({words}): {how}")
        case aiormq.DeliveryError():
            return SendResult("later", "the broker did not take it (basic.nack), as when a queue is full")
        case aiormq.ChannelNotFoundEntity():
            return SendResult("rejected", f"{_words(error)}: declare=True makes it, or change exchange=")
        case aiormq.ChannelPreconditionFailed():
            return SendResult("rejected", _words(error))
        case aiormq.AMQPError() | OSError() | RuntimeError():
            return SendResult("later", _words(error))
        case _:
            return SendResult("rejected", described(error))  # it cannot be encoded
