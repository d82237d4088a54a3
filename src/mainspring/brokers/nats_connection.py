"""A connection to NATS JetStream: what is published and pulled, and what the server's answers mean."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from nats.errors import Error

from mainspring.brokers.contract import SENT, Received, SendResult, WireMessage, bounded
from mainspring.brokers.nats import is_subject, read_headers, written_headers
from mainspring.brokers.nats_answers import Answer, Answers
from mainspring.brokers.nats_client import UNREADABLE, Client
from mainspring.model.errors import BadOption, BrokerError, BrokerUnavailable
from mainspring.model.text import described

if TYPE_CHECKING:
    from mainspring.brokers.nats import Nats

_PING_EVERY = 10  # seconds; a server that leaves three without an answer is lost
_ANSWER_WITHIN = 5.0
_CLOSE_WITHIN = 2.0
_MARGIN = 0.1
"""Seconds by which the server ends a pull before its wait is over."""
_PULL_AGAIN = 0.05
_GATHER = 0.02
"""Seconds for which a batch that is not full waits for its next message, if the server has not ended it."""
_REFUSED, _DENIED, _MISSING, _TIMED_OUT, _AWAY = 400, 403, 404, 408, 503
_DECLARE = "Pass declare=True, with subjects= for the stream, or make it by `nats stream add` and `nats consumer add`"
_NOT_PERMITTED = re.compile(r'permissions violation for publish to "(.*)"', re.IGNORECASE)


async def connect(broker: Nats, user: tuple[str | None, str | None], fixed: Sequence[str]) -> NatsConnection:
    """Open a connection as this user; ``fixed`` are the subjects that are known. Raises BrokerUnavailable."""
    connection = NatsConnection(broker, user, fixed)
    try:
        await connection.open()
    except BaseException:
        await connection.close()
        raise
    return connection


class NatsConnection:
    """A connection to a NATS server. The client's own reconnecting is off: a lost connection stays lost."""

    def __init__(self, broker: Nats, user: tuple[str | None, str | None], fixed: Sequence[str]) -> None:
        self._broker = broker
        self._fixed = fixed
        self._client = Client()
        places = [urlsplit(each) for each in broker.servers]
        self._servers = [f"{each.scheme}://{each.netloc.rpartition('@')[2]}" for each in places]
        self._user, self._password = user
        shown = "" if self._user is None else " (token)" if self._password is None else f" (user {self._user!r})"
        self._where = ", ".join(f"{each.hostname}:{each.port or 4222}" for each in places) + shown
        self._read_by = f"CONSUMER.INFO.{broker.stream}.{broker.durable}"
        self._lost: str | None = None
        self._told = ""
        self._closing = False
        self._numbers = count(1)
        self._replies = self._pulls = ""
        self._asked: dict[str, tuple[str, Answers, int]] = {}
        self._subscription: Any = None  # by which messages arrive, from the first receive on
        self._pull: str | None = None  # where the server ends the pull that is open
        self._pull_ends = 0.0
        self._wanted = 0
        self._refused: str | None = None
        self._arrived: deque[Any] = deque()
        self._held: dict[str, None] = {}
        self._news = asyncio.Event()

    async def open(self) -> None:
        """Connect, and see that JetStream is there."""
        is_token = self._password is None
        try:
            await self._client.connect(
                self._servers,
                name="mainspring",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=3,
                ping_interval=_PING_EVERY,
                pending_size=0,  # else a publish may wait for the socket, and ignores that it is cancelled
                error_cb=self._tell,
                closed_cb=self._ended,
                user=None if is_token else self._user,
                password=self._password,
                token=self._user if is_token else None,
            )
            self._replies, self._pulls = self._client.new_inbox(), self._client.new_inbox()
            await self._client.listen(f"{self._replies}.*", self._answer)
        except (Error, OSError, TimeoutError) as error:
            denied = re.search("authori|authent", str(error), re.IGNORECASE)
            what = "user and the password" if denied else "host and the port"
            why = f"{error if denied else self._told or described(error)}: check the {what} in url="
            raise BrokerUnavailable(f"no connection to NATS at {self._where}: {why}") from error
        # The client sends in the clear, password included, where the server has no TLS.
        url, offered = self._client.connected_url, self._client._server_info  # noqa: SLF001
        if url is not None and url.scheme == "tls" and not offered.get("tls_required"):
            raise BrokerUnavailable(f"{self._where} offers no TLS: switch it on there, or write nats:// in url=")
        found = await self._ask("INFO")
        if _code(found) == _AWAY:  # a user that may not ask may still send
            raise BrokerUnavailable(
                f"JetStream is disabled at {self._where}: {_why(found)}. Start the server by `nats-server -js`, or "
                "enable JetStream for the account"
            )

    @property
    def closed(self) -> bool:
        """Whether it is lost."""
        return self._lost is not None or not self._client.is_connected

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """See ``BrokerConnection``."""
        clock = asyncio.get_running_loop().time
        until = clock() + within
        asked = Answers(len(messages))
        for place, each in enumerate(messages):
            await self._publish(each, asked, place)
        if not await asked.complete(within):
            self._lose(f"{self._where} has not confirmed within {within:g} s")
        answers = asked.found()
        unheard = {each["subject"] for each in answers if each.get("unheard")}
        why = {each: await self._unheard(each, until - clock()) for each in unheard}
        return [why[each["subject"]] if each.get("unheard") else self._judged(each) for each in answers]

    async def _publish(self, message: WireMessage, asked: Answers, place: int) -> None:
        try:
            subject = self._broker.address(message.topic)
            headers = written_headers(message, subject)
            fits = is_subject(subject)
        except Exception as error:  # noqa: BLE001 - of the application's own function, or text that is no Unicode
            why = str(error) if isinstance(error, BadOption) else described(error)
            return asked.put(place, _error(_REFUSED, why))
        if not fits:
            why = f"no message can be sent to subject {subject[:200]!r}: change subject="
            return asked.put(place, _error(_REFUSED, why))
        # The client counts the body alone, and the server closes the connection if it is too large with its headers.
        size = len(message.body) + 12 + sum(map(len, headers)) + sum(map(len, headers.values())) + 4 * len(headers)
        if size > (limit := self._client.max_payload):
            why = f"its {size:,} bytes with headers exceed {limit:,}: raise max_payload there"
            return asked.put(place, _error(_REFUSED, why))
        return await self._request(asked, place, subject, message.body, headers)

    def _judged(self, answer: Answer) -> SendResult:
        if "error" in answer:
            # A message that breaks a rule of the stream is refused. Other errors pass, as that of a full stream.
            return SendResult("rejected" if _code(answer) == _REFUSED else "later", _why(answer))
        if "stream" not in answer or "seq" not in answer:
            return SendResult("later", f"a subscriber that is no stream has answered at {self._where}")
        return SENT

    async def _unheard(self, subject: str, within: float) -> SendResult:
        """Return why nothing has answered: no stream takes the subject, or one has no leader at the moment."""
        found = await self._ask("STREAM.NAMES", {"subject": subject}, within)
        if "error" in found:
            return SendResult("later", f"no stream has answered at {self._where}: {_why(found)}")
        if found.get("streams"):
            return SendResult("later", f"stream {found['streams'][0]!r} has no leader at the moment")
        how = f"pass stream=, subjects= and declare=True, or run `nats stream add NAME --subjects '{subject}'`"
        return SendResult("rejected", f"no stream at {self._where} takes subject {subject!r}: {how}")

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """See ``BrokerConnection``."""
        clock = asyncio.get_running_loop().time
        until, margin = clock() + wait, min(_MARGIN, wait / 2)
        asked = False
        while len(self._arrived) < limit:
            self._news.clear()
            self._check_readable()
            if self._pull is None:
                if self._arrived or until - clock() <= margin:
                    break
                if asked:  # it was ended early, as when another reader is first
                    await asyncio.sleep(_PULL_AGAIN)
                await self._pull_next(limit, max(0.001, until - clock() - margin))
                asked = True
            pause = _GATHER if self._arrived else min(until, self._pull_ends + margin) - clock()
            if not await self._woken(pause):
                if self._arrived or clock() < self._pull_ends:
                    break
                await self._check_durable()
        return [self._taken(self._arrived.popleft()) for _ in range(min(limit, len(self._arrived)))]

    async def _pull_next(self, limit: int, expires: float) -> None:
        if self._subscription is None:
            self._subscription = await self._client.listen(f"{self._pulls}.*", self._arrive)
        self._pull, self._wanted = f"{self._pulls}.{next(self._numbers)}", limit
        self._pull_ends = asyncio.get_running_loop().time() + expires
        # no_wait with expires waits for the first message alone: the server ends the pull with the last that it has.
        request = {"batch": limit, "expires": int(expires * 1e9), "no_wait": True}
        path = f"$JS.API.CONSUMER.MSG.NEXT.{self._broker.stream}.{self._broker.durable}"
        await self._put(path, msgspec.json.encode(request), self._pull)

    def _arrive(self, message: Any) -> None:
        if message.reply:
            self._arrived.append(message)
            self._wanted -= 1
            if self._wanted <= 0:
                self._pull = None
        elif message.subject == self._pull:
            self._pull = None
            headers = message.headers or {}
            status = headers.get("Status")
            if status == "503":
                self._refused = "nothing answers: it is not there, or has no leader at the moment"
            elif status not in ("404", "408"):  # no more there, or not in time
                self._refused = f"{status} {headers.get('Description', '')}".strip()
        self._news.set()

    async def _woken(self, pause: float) -> bool:
        try:
            async with asyncio.timeout(pause):
                return await self._news.wait()
        except TimeoutError:
            return False

    def _check_readable(self) -> None:
        durable, stream = self._broker.durable, self._broker.stream
        if durable is None:
            raise BrokerError("Nats(…) is only sent to: pass stream= and durable= to read from it")
        if self.closed:
            raise BrokerUnavailable(self._gone())
        if self._refused is not None and not self._arrived:
            why, self._refused = self._refused, None
            raise BrokerUnavailable(f"durable {stream}/{durable} cannot be read at {self._where}: {why}. {_DECLARE}")

    async def _check_durable(self) -> None:
        """Find out why the server has not ended a pull: an older one is silent if there is no such durable."""
        self._pull = None
        found = await self._ask(self._read_by)
        if _code(found) == _TIMED_OUT:
            self._lose(f"{self._where} does not respond")
        self._refused = _why(found) if "error" in found else None

    def _taken(self, message: Any) -> Received:
        # $JS.ACK.<stream>.<durable>.<deliveries>.<sequence>.<its number for the durable>.<nanoseconds of storing>.…, or
        # with domain and account before the stream.
        fields = message.reply.split(".")
        deliveries, sequence, _, stored = fields[4:8] if len(fields) == 9 else fields[6:10]  # noqa: PLR2004 - see above
        headers, content_type, message_id = read_headers(message.headers or {}, message.subject)
        self._held[message.reply] = None
        return Received(
            message.data,
            headers,
            content_type,
            message.subject,
            bounded(f"{self._broker.stream}/{sequence}/{stored}", 200),
            message_id,
            redelivered=deliveries != "1",
            token=message.reply,
            unreadable="its headers are no UTF-8 text" if UNREADABLE in headers else None,
        )

    async def ack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``. The server answers for the last, and has then read all before it."""
        for each in received[:-1]:
            await self._put(each.token, b"+ACK")
        for each in received[-1:]:
            found = await self._asked_one(each.token, b"+ACK", _ANSWER_WITHIN)
            if "error" in found:
                raise BrokerUnavailable(f"{self._where} has not taken acknowledgements: {_why(found)}")
        for each in received:
            self._held.pop(each.token, None)

    async def nack(self, received: Sequence[Received]) -> None:
        """See ``BrokerConnection``."""
        for each in received:
            if each.token in self._held:
                await self._put(each.token, b"-NAK")
                del self._held[each.token]

    async def lag(self) -> int | None:
        """See ``BrokerConnection``."""
        return None if self._broker.durable is None else (await self._ask(self._read_by)).get("num_pending")

    async def check(self) -> list[str]:
        """See ``BrokerConnection``."""
        stream, durable = self._broker.stream, self._broker.durable
        wrong: list[str] = []
        if durable is None:
            results = [await self._unheard(each, _ANSWER_WITHIN) for each in self._fixed]
            wrong += [each.reason for each in results if each.status == "rejected"]
        for kind, name, path in (
            ("stream", stream, f"STREAM.INFO.{stream}"),
            ("durable", durable and f"{stream}/{durable}", self._read_by),
        ):
            if name is None:
                break
            found = await self._ask(path)
            if "error" in found:
                return [*wrong, f"{kind} {name} cannot be used at {self._where}: {_why(found)}. {_DECLARE}"]
            subjects = self._broker.subjects if kind == "stream" else ()
            wrong += [f"{kind} {name} {each}" for each in _problems(found["config"], subjects)]
        return wrong

    async def declare(self) -> list[str]:
        """See ``BrokerConnection``."""
        stream, durable = self._broker.stream, self._broker.durable
        made: list[str] = []
        if stream is not None and _code(await self._ask(f"STREAM.INFO.{stream}")) == _MISSING:
            if not self._broker.subjects:
                raise BrokerError(f"stream {stream} cannot be declared: pass subjects=, as in ['orders.>']")
            config: dict[str, Any] = {"name": stream, "subjects": self._broker.subjects, "retention": "limits"}
            config |= {"storage": "file", "discard": "new", "num_replicas": 1}
            config |= dict.fromkeys(("max_consumers", "max_msgs", "max_bytes", "max_msg_size"), -1)
            await self._make(f"STREAM.CREATE.{stream}", config)
            made.append(f"stream {stream}")
        if durable is not None and _code(await self._ask(self._read_by)) == _MISSING:
            config = {"durable_name": durable, "ack_policy": "explicit", "deliver_policy": "all", "max_deliver": -1}
            config |= {"replay_policy": "instant", "ack_wait": int(self._broker.ack_wait.total_seconds() * 1e9)}
            await self._make(f"CONSUMER.DURABLE.CREATE.{stream}.{durable}", {"stream_name": stream, "config": config})
            made.append(f"durable {stream}/{durable}")
        return made

    async def _make(self, path: str, config: object) -> None:
        found = await self._ask(path, config)
        if "error" in found:
            raise BrokerUnavailable(f"{path} has failed at {self._where}: {_why(found)}")

    async def close(self) -> None:
        """See ``BrokerConnection``. What is not acknowledged is given back, for others to receive at once."""
        if self._closing:
            return
        self._closing = True
        with suppress(Exception):  # what is not given back is delivered again after ack_wait
            async with asyncio.timeout(_CLOSE_WITHIN):
                if self._subscription is not None and not self.closed:
                    await self._subscription.drain()
                    for each in (*self._held, *(each.reply for each in self._arrived)):
                        await self._put(each, b"-NAK")
        self._lose("the connection is closed")
        try:
            async with asyncio.timeout(_CLOSE_WITHIN):
                await self._client.close()
        except Exception:  # noqa: BLE001 - it waits for a server that does not read, and has no way to abort
            if (writer := getattr(self._client._transport, "_io_writer", None)) is not None:  # noqa: SLF001
                writer.transport.abort()

    async def _put(self, subject: str, body: bytes, reply: str = "", headers: dict[str, str] | None = None) -> None:
        if self.closed:
            raise BrokerUnavailable(self._gone())
        try:
            await self._client.publish(subject, body, reply, headers)
        except Error as error:
            raise BrokerUnavailable(f"{self._where}: {error}") from error

    async def _request(
        self, asked: Answers, place: int, subject: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        number = str(next(self._numbers))
        self._asked[number] = subject, asked, place
        try:
            await self._put(subject, body, f"{self._replies}.{number}", headers)
        except BrokerUnavailable as error:
            del self._asked[number]
            asked.put(place, _error(_AWAY, str(error)))

    async def _ask(self, path: str, body: object = None, within: float = _ANSWER_WITHIN) -> Answer:
        return await self._asked_one(f"$JS.API.{path}", b"" if body is None else msgspec.json.encode(body), within)

    async def _asked_one(self, subject: str, body: bytes, within: float) -> Answer:
        asked = Answers(1)
        await self._request(asked, 0, subject, body)
        await asked.complete(max(0.0, within))
        return (asked.found() or [_error(_TIMED_OUT, f"no answer within {within:g} s")])[0]

    def _answer(self, message: Any) -> None:
        if (known := self._asked.pop(message.subject.rpartition(".")[2], None)) is not None:
            subject, asked, place = known
            answer = _read(message)
            answer["subject"] = subject
            asked.put(place, answer)

    async def _tell(self, error: Exception) -> None:
        """Note an error that the client reports: a user that may not publish gets no other answer."""
        self._told = described(error)
        denied = _NOT_PERMITTED.search(str(error))
        for subject, asked, place in self._asked.values():
            if denied is not None and subject.lower() == denied[1].lower():
                asked.put(place, _error(_DENIED, f"{self._where}: {error}"))

    async def _ended(self) -> None:
        self._lose(f"the connection to {self._where} is lost: {self._client.last_error or self._told}")

    def _gone(self) -> str:
        return self._lost or f"the connection to {self._where} is lost"

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        for _, asked, place in self._asked.values():
            asked.put(place, _error(_AWAY, self._lost))
        self._asked.clear()
        self._arrived.clear()  # they are delivered again
        self._news.set()


def _read(message: Any) -> Answer:
    if not message.data:
        unheard = (message.headers or {}).get("Status") == "503"
        return {**_error(_AWAY, "no responders"), "unheard": True} if unheard else {}
    try:
        return msgspec.json.decode(message.data, type=Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _error(_AWAY, f"the answer is not one of JetStream: {error}")


def _error(code: int, text: str) -> Answer:
    return {"error": {"code": code, "description": text}}


def _code(answer: Answer) -> int:
    return int(answer.get("error", {}).get("code", 0))


def _why(answer: Answer) -> str:
    return str(answer["error"].get("description") or answer["error"])


def _problems(config: dict[str, Any], subjects: Sequence[str]) -> list[str]:
    """Return what is wrong with a stream that is to take these subjects, or with a durable."""
    limits = [each for each in ("max_msgs", "max_bytes", "max_msgs_per_subject") if config.get(each, -1) > 0]
    missing = [each for each in subjects if each not in (config.get("subjects") or ())]
    most, policy, pushed = config.get("max_deliver", -1), config.get("ack_policy"), config.get("deliver_subject")
    drops = f"drops its oldest messages, read or not, beyond {' and '.join(limits)}"
    problems = {
        f"{drops}: set its discard policy to new, and senders wait": limits and config.get("discard") == "old",
        "confirms nothing, so that nothing counts as sent: make it without no_ack": config.get("no_ack"),
        f"does not take {', '.join(missing)}: add that by `nats stream edit`": missing,
        f"drops a message silently after {most} deliveries: set max_deliver to -1": most > 0,
        f"has ack policy {policy!r}: make it with 'explicit'": policy not in (None, "explicit"),
        f"pushes to {pushed!r}: make one that is pulled": pushed,
    }
    return [text for text, is_wrong in problems.items() if is_wrong]
