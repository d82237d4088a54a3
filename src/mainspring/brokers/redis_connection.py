"""A connection to Redis Streams: the commands, and what their replies mean."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import socket
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import hiredis
import msgspec
from redis import exceptions
from redis.asyncio.connection import Connection, parse_url

from mainspring.brokers.contract import SENT, Received, SendResult, WireMessage, bounded
from mainspring.brokers.redis import RETURNED
from mainspring.model.errors import BadOption, BrokerUnavailable
from mainspring.model.text import described, text_of
from mainspring.timing.duration import duration

if TYPE_CHECKING:
    from mainspring.brokers.redis import RedisStreams

_logger = logging.getLogger("mainspring.brokers")
_LOOK_EVERY = 1.0
"""Seconds between two looks for what other consumers left; also the longest time for which one read blocks."""
_REPLY_WITHIN = 8.0
_LEAVE_WITHIN = 2.0
_TRIM_EVERY = 16
"""Batches from one trim to the next."""
_MOST_RETURNED = 10_000
_FORGET = (
    "if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 "
    "then return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end"
)
"""Removes a consumer, in one step with the look whether entries are pending for it: they would be lost with it."""
_ADVICE = {
    "AuthenticationError": "check the user and the password in url",
    "ReadOnlyError": "it is a replica: name the primary in url",
    "BusyLoadingError": "it has just started, and is tried again",
    "NoPermissionError": "grant this user the commands of streams and these streams, by ACL SETUSER",
    "OutOfMemoryError": "raise its maxmemory, or bound streams by maxlen=",
    "MovedError": "Redis Cluster is not supported: name a server without cluster mode",
    "NOGROUP": "declare=True makes it, as does `XGROUP CREATE stream group 0 MKSTREAM`",
    "WRONGTYPE": "name another stream, or remove this key",
    "DB": "name another database in url",
    "ConnectionError": "check the host and the port in url, and that the server runs",
    "TimeoutError": "check the host and the port in url; rediss:// is for a server with TLS",
    "InvalidResponse": "check the port in url: what answers there is no Redis",
}


async def connect(broker: RedisStreams, where: str) -> RedisConnection:
    """Open the sockets of a connection. Raises BrokerUnavailable, or BadOption for a parameter of the URL."""
    try:
        # Every call has a deadline of its own; replies have the forms of RESP2.
        fixed = {"socket_timeout": None, "health_check_interval": 0, "decode_responses": False, "protocol": 2}
        options: dict[str, Any] = {**parse_url(broker.url), **fixed}
        kind = options.pop("connection_class", Connection)
        made = [_Channel(kind(**options), hiredis.pack_command, where) for _ in range(2 if broker.streams else 1)]
    except Exception as error:  # noqa: BLE001 - the client has no one kind for what it refuses
        unknown = re.search("unexpected keyword argument ('.*')", text_of(error))
        told = text_of(error) if unknown is None else f"there is no parameter {unknown[1]}"
        raise BadOption(f"url of {where}: {told}: correct or remove it") from None
    try:
        for each in made:
            await each.open()
    except BaseException:
        for each in made:
            await each.close()
        raise
    return RedisConnection(broker, *made)


class _Channel:
    """One socket to Redis: commands are written at once, and their replies read in their order."""

    def __init__(self, client: Any, pack: Any, where: str) -> None:

        self.pack = pack
        self.where = where
        self._client = client
        self._errors = exceptions
        self._lock = asyncio.Lock()
        self._is_replica = False

    @property
    def is_open(self) -> bool:
        """Whether it can be used. Not at a replica: the host's name may lead to the primary by now."""
        return bool(self._client.is_connected) and not self._is_replica

    async def open(self) -> None:
        """Connect. Raises BrokerUnavailable, also if the server loads, is a replica, or is too old."""
        try:
            async with asyncio.timeout(_REPLY_WITHIN):
                await self._client.connect()
        except TimeoutError:
            raise BrokerUnavailable(f"{self.where}: no response within {_REPLY_WITHIN:g} s") from None
        except self._errors.RedisError as error:
            raise BrokerUnavailable(self.told(error)) from error
        except Exception as error:  # noqa: BLE001 - of a parameter; its text may have a piece of the password
            why = f"{type(error).__name__}: correct or remove the parameters of url"
            raise BrokerUnavailable(f"{self.where}: {why}") from None
        # PING fails while it loads, or without a password. A user who may not ask these is not refused.
        _, role, command = await self.ask([("PING",), ("ROLE",), ("COMMAND", "INFO", "XAUTOCLAIM")])
        if isinstance(role, list) and role[0] == b"slave":
            raise BrokerUnavailable(f"{self.where}: it is a read-only replica: name the primary in url")
        if command == [None]:
            raise BrokerUnavailable(f"{self.where}: it has no XAUTOCLAIM: Redis 6.2 or later is needed")

    async def ask(
        self, commands: Sequence[tuple[Any, ...] | bytes], within: float = _REPLY_WITHIN, into: list[Any] | None = None
    ) -> list[Any]:
        """Return a reply, or the error that is the reply, per command. Raises BrokerUnavailable.

        ``into`` then has those that were read. Cancelled, it closes the socket: the replies that were not read would be
        taken for those to later commands.
        """
        replies: list[Any] = [] if into is None else into
        if not commands:
            return replies
        packed = [each if isinstance(each, bytes) else self.pack(each) for each in commands]
        try:
            async with asyncio.timeout(within), self._lock:
                if not self.is_open:  # the client would connect again
                    raise BrokerUnavailable(f"{self.where}: the connection is closed")
                await self._client.send_packed_command([b"".join(packed)], check_health=False)
                for _ in packed:
                    try:
                        replies.append(await self._client.read_response())
                    except self._errors.ResponseError as error:
                        self._is_replica |= isinstance(error, self._errors.ReadOnlyError)
                        replies.append(error)
        except TimeoutError:
            raise BrokerUnavailable(f"{self.where}: no reply within {within:g} s") from None
        except self._errors.RedisError as error:
            raise BrokerUnavailable(self.told(error)) from error
        return replies

    async def do(self, commands: Sequence[tuple[Any, ...]], within: float = _REPLY_WITHIN) -> list[Any]:
        """Return a reply per command. Raises BrokerUnavailable, also if one of them is an error."""
        replies = await self.ask(commands, within)
        for each in replies:
            if isinstance(each, Exception):
                raise BrokerUnavailable(self.told(each)) from each
        return replies

    def told(self, error: Exception) -> str:
        """Return what Redis said, where that is, and what to change."""
        if isinstance(error, BrokerUnavailable):
            return str(error)
        said = text_of(error)
        advice = _ADVICE.get(type(error).__name__) or _ADVICE.get(said.partition(" ")[0])
        return f"{self.where}: {said}" + (f" ({advice})" if advice else "")

    async def close(self) -> None:
        # Nothing depends on a good end: Redis sees that the socket is gone.
        with contextlib.suppress(self._errors.RedisError, OSError, TimeoutError):
            async with asyncio.timeout(_LEAVE_WITHIN):
                await self._client.disconnect()


class RedisConnection:
    """A connection to a Redis server. ``listen`` only reads: what blocks is not what sends or acknowledges."""

    def __init__(self, broker: RedisStreams, talk: _Channel, listen: _Channel | None = None) -> None:
        self._broker = broker
        self._group = broker.group or ""
        self._consumer = broker.consumer or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._idle = int(duration(broker.claim_after).total_seconds() * 1000)
        self._talk = talk
        self._listen = listen
        self._closed = False
        self._fetching: asyncio.Task[list[Received]] | None = None
        self._fetched: deque[Received] = deque()
        self._look_at = 0.0
        self._cursors: dict[str, bytes] = dict.fromkeys(broker.streams, b"0-0")
        """The streams that are read, and where the look for what others left goes on in each."""
        self._maxlen = broker.maxlen
        self._batches = 0
        self._untrimmed: set[str] = set()

    @property
    def closed(self) -> bool:
        """Whether it is lost."""
        return self._closed or not self._talk.is_open or (self._listen is not None and not self._listen.is_open)

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """See ``BrokerConnection``."""
        until = asyncio.get_running_loop().time() + within
        packed = [self._packed(each) for each in messages]
        commands = [each[1] for each in packed if not isinstance(each, SendResult)]
        replies: list[Any] = []
        lost: Exception | None = None
        try:
            await self._talk.ask(commands, within, replies)
        except BrokerUnavailable as error:
            lost = error
        known = iter(replies)
        results = [
            each if isinstance(each, SendResult) else self._result(each[0], next(known, lost)) for each in packed
        ]
        if self._maxlen is not None and lost is None:
            await self._trim(self._maxlen, until)
        return results

    def _packed(self, message: WireMessage) -> tuple[str, bytes] | SendResult:
        """Return the stream and the command, or why there is none."""
        if len(message.body) > self._broker.largest:
            size = f"its {len(message.body):,} bytes exceed the limit of {self._broker.largest:,}"
            return SendResult("rejected", f"{size}: store it elsewhere and send a reference, or raise largest=")
        fields = ["id", message.id, "content_type", message.content_type]
        if message.key is not None:
            fields += ("key", message.key)
        if message.correlation_id is not None:
            fields += ("correlation_id", message.correlation_id)
        for name, value in message.headers.items():
            fields += (f"h:{name}", value)
        only = () if self._broker.declare else ("NOMKSTREAM",)
        try:
            stream = self._broker.address(message.topic)
            return stream, self._talk.pack(("XADD", stream, *only, "*", *fields, "body", message.body))
        except KeyError:
            return SendResult("rejected", f"stream= has no entry for {message.topic!r}: add it")
        except Exception as error:  # noqa: BLE001 - the user's function, or text without UTF-8
            return SendResult("rejected", f"stream={self._broker.stream!r} or a field of it: {described(error)}")

    def _result(self, stream: str, reply: Any) -> SendResult:
        if isinstance(reply, bytes):
            if self._maxlen is not None:
                self._untrimmed.add(stream)
            return SENT
        if reply is None:
            return SendResult("rejected", f"there is no stream {stream!r}: {_how_to_make(stream)}")
        # The codes of errors other than ERR and WRONGTYPE are states of the server, or rights, and pass.
        code = str(reply).partition(" ")[0]
        final = type(reply).__name__ == "ResponseError" and (code == "WRONGTYPE" or not code.isupper())
        return SendResult("rejected" if final else "later", self._talk.told(reply))

    async def _trim(self, maxlen: int, until: float) -> None:
        """Trim the streams sent to, up to the lowest entry that a group has not acknowledged: each 16th batch."""
        self._batches += 1
        if self._batches % _TRIM_EVERY != 1:
            return
        names, self._untrimmed = self._untrimmed, set()
        try:
            async with asyncio.timeout_at(until):
                for name in names:
                    length, groups = await self._talk.do([("XLEN", name), ("XINFO", "GROUPS", name)])
                    if length <= maxlen or not groups:
                        continue
                    read = _groups(groups)
                    pending = await self._talk.do([("XPENDING", name, each) for each in read])
                    ends = [each[b"last-delivered-id"] for each in read.values()]
                    held = [low or end for (_, low, *_), end in zip(pending, ends, strict=True)]
                    floor = min(held, key=lambda each: [int(part) for part in each.split(b"-")])
                    await self._talk.do([("XTRIM", name, "MINID", "~", floor, "LIMIT", length - maxlen)])
        except (BrokerUnavailable, TimeoutError) as error:  # the results are known, whatever comes of this
            self._maxlen = None
            _logger.warning("streams are not trimmed until the next connection: %s", described(error))

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """See ``BrokerConnection``. A read that is cancelled goes on, and the next call returns what it finds."""
        now = asyncio.get_running_loop().time
        until = now() + wait
        if self._listen is None:
            raise BrokerUnavailable(f"{self._talk.where}: there is nothing to read: pass streams= and group=")
        while True:
            if self.closed:
                raise BrokerUnavailable(f"{self._talk.where}: the connection is closed")
            if self._fetched:
                return [self._fetched.popleft() for _ in range(min(limit, len(self._fetched)))]
            if self._fetching is None:
                self._fetching = asyncio.create_task(self._fetch(self._listen, limit, until - now()))
            await asyncio.wait([self._fetching])
            fetched, self._fetching = self._fetching, None
            if not fetched.cancelled():  # by close()
                self._fetched.extend(fetched.result())
            if not self._fetched and now() >= until:
                return []

    async def _fetch(self, listen: _Channel, limit: int, wait: float) -> list[Received]:
        count = max(1, limit // len(self._cursors))  # Redis counts per stream
        now = asyncio.get_running_loop().time
        if now() >= self._look_at:
            look = [
                ("XAUTOCLAIM", name, self._group, self._consumer, self._idle, cursor, "COUNT", count)
                for name, cursor in self._cursors.items()
            ]
            replies = dict(zip(self._cursors, await listen.do(look), strict=True))
            self._cursors = {name: cursor for name, (cursor, *_) in replies.items()}
            if all(each == b"0-0" for each in self._cursors.values()):
                self._look_at = now() + _LOOK_EVERY
            left = [(name, each) for name, (_, found, *_) in replies.items() for each in found]
            if left:  # Redis 6.2 has None for an entry that was deleted
                return [_received(name, each, redelivered=True) for name, each in left if each]
        block = max(1, int(1000 * min(wait, _LOOK_EVERY)))
        read = ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", count, "BLOCK", block, "STREAMS")
        command = (*read, *self._cursors, *(">" for _ in self._cursors))
        (reply,) = await listen.do([command], _REPLY_WITHIN + block / 1000)
        return [_received(name.decode(), each) for name, entries in reply or () for each in entries]

    async def ack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        await self._talk.do([("XACK", name, self._group, *ids) for name, ids in _by_stream(received)])

    async def nack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``. Redis has no such command: they become long pending entries of another consumer."""
        await self._talk.do([self._returning(name, ids) for name, ids in _by_stream(received)])
        self._look_at = 0.0

    def _returning(self, stream: str, ids: Sequence[bytes]) -> tuple[Any, ...]:
        return ("XCLAIM", stream, self._group, RETURNED, 0, *ids, "TIME", 0, "JUSTID")

    async def lag(self) -> int | None:
        """Return how many entries the group has not been given; None if Redis does not know, as after XDEL."""
        replies = await self._talk.ask([("XINFO", "GROUPS", name) for name in self._cursors])
        groups = [{} if isinstance(each, Exception) else _groups(each).get(self._group, {}) for each in replies]
        lags: list[Any] = [each.get(b"lag") for each in groups]
        return None if not lags or None in lags else sum(lags)

    async def check(self) -> list[str]:
        """See ``BrokerConnection``."""
        names = [*self._cursors, *(each for each in self._sent_to() if not self._broker.declare)]
        *replies, memory = await self._talk.ask([*(("XINFO", "GROUPS", name) for name in names), ("INFO", "memory")])
        found = []
        for name, reply in zip(names, replies, strict=True):
            if isinstance(reply, Exception) and "no such key" not in str(reply):
                found.append(f"stream {name!r}: {self._talk.told(reply)}")
            elif isinstance(reply, Exception):
                found.append(f"there is no stream {name!r}: {_how_to_make(name, self._group)}")
            elif name in self._cursors and self._group not in _groups(reply):
                found.append(f"stream {name!r} has no group {self._group!r}: {_how_to_make(name, self._group)}")
        # A user without the right to ask gets no advice.
        if isinstance(memory, bytes) and b"maxmemory_policy:allkeys" in memory and b"maxmemory:0\r" not in memory:
            found.append("Redis removes whole streams when it is out of memory: set maxmemory-policy to noeviction")
        return found

    async def declare(self) -> list[str]:
        """Make missing streams, and groups that read them from their beginning."""
        found = []
        for name in [*self._cursors, *self._sent_to()]:
            reads = name in self._cursors
            group = self._group if reads else RETURNED
            commands = [("EXISTS", name), ("XGROUP", "CREATE", name, group, "0", "MKSTREAM")]
            if not reads:  # an empty stream is made only with a group
                commands.append(("XGROUP", "DESTROY", name, group))
            existed, made, *_ = await self._talk.ask(commands)
            if isinstance(made, Exception) and not str(made).startswith("BUSYGROUP"):
                raise BrokerUnavailable(self._talk.told(made)) from made
            found += [f"stream {name}"] if existed == 0 else []
            found += [f"group {group} of stream {name}"] if reads and not isinstance(made, Exception) else []
        return found

    def _sent_to(self) -> list[str]:
        """Return the streams that are only sent to, as far as they are known without a topic."""
        how = self._broker.stream
        names = how.values() if isinstance(how, Mapping) else [how] if isinstance(how, str) else []
        return [each for each in dict.fromkeys(names) if "{topic}" not in each and each not in self._cursors]

    async def close(self) -> None:
        """See ``BrokerConnection``. What is pending for this consumer is given back."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._fetching is not None:
                self._fetching.cancel()
                await asyncio.gather(self._fetching, return_exceptions=True)
            if self._listen is not None:
                await self._listen.close()
                await self._leave()
        except BrokerUnavailable:
            pass  # others take over what is pending, after claim_after
        finally:
            await self._talk.close()

    async def _leave(self) -> None:
        mine = [("XPENDING", name, self._group, "-", "+", _MOST_RETURNED, self._consumer) for name in self._cursors]
        pending = zip(self._cursors, await self._talk.ask(mine, _LEAVE_WITHIN), strict=True)
        held = [(name, [id for id, *_ in rows]) for name, rows in pending if isinstance(rows, list) and rows]
        leave = [self._returning(name, ids) for name, ids in held]
        leave += [("EVAL", _FORGET, 1, name, self._group, self._consumer) for name in self._cursors]
        await self._talk.ask(leave, _LEAVE_WITHIN)


def _received(stream: str, entry: Sequence[Any], *, redelivered: bool = False) -> Received:
    id, flat = entry
    fields: dict[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))
    body = fields.pop(b"body", None)
    if body is None:
        body = msgspec.json.encode({_name(name): _value(value) for name, value in fields.items()})
        fields = {b"content_type": b"application/json"}
    content_type, message_id = _popped(fields, b"content_type"), _popped(fields, b"id")
    key, correlation_id = _popped(fields, b"key"), _popped(fields, b"correlation_id")
    headers: dict[str, str | bytes]
    try:
        headers = {_header(name): value.decode() for name, value in fields.items()}
    except UnicodeDecodeError:  # of one of them: the others are text nevertheless
        headers = {_header(name): _value(value) for name, value in fields.items()}
    coordinates = bounded(f"{stream}/{id.decode()}", 200)
    return Received(
        body, headers, content_type, stream, coordinates, message_id, key, correlation_id, redelivered, id
    )  # fmt: skip


def _popped(fields: dict[bytes, bytes], name: bytes) -> str | None:
    return None if (value := fields.pop(name, None)) is None else _name(value)


@lru_cache(maxsize=256)  # names repeat with each message
def _header(field: bytes) -> str:
    return _name(field).removeprefix("h:")


def _name(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _value(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _by_stream(received: Sequence[Received]) -> list[tuple[str, list[bytes]]]:
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for each in received:
        found[each.address].append(each.token)
    return list(found.items())


def _groups(reply: Sequence[Sequence[Any]]) -> dict[str, dict[bytes, Any]]:
    """Return the groups of a stream by name, from what XINFO GROUPS replies."""
    groups = [dict(zip(each[::2], each[1::2], strict=True)) for each in reply]
    return {_name(each[b"name"]): each for each in groups}


def _how_to_make(stream: str, group: str = "") -> str:
    return f"declare=True makes it, as does `XGROUP CREATE {stream} {group or 'GROUP'} 0 MKSTREAM`"
