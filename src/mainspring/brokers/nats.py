"""NATS JetStream: messages are sent to subjects that a stream stores, and pulled from a durable consumer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import ClassVar
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from mainspring.brokers.contract import (
    Addressing,
    Broker,
    BrokerConnection,
    WireMessage,
    addressed,
    bounded,
    check_addressing,
    check_server,
    sourced,
)
from mainspring.model.errors import BadOption, MissingExtra
from mainspring.timing.duration import Duration, DurationError, duration

_SUBJECT = re.compile(r"(?!\$JS\.|\$SYS\.|_INBOX\.)[^\s.*>]+(?:\.[^\s.*>]+)*")
"""What a message can be sent to."""
_LONGEST_SUBJECT = 3_900
"""Over a protocol line of more than 4,096 bytes the server closes the connection."""
_NAME = re.compile(r"[^\s.*>/\\]{1,255}")
_PATTERN = re.compile(r"(?:\*|[^\s.*>]+|>\Z)(?:\.(?:\*|[^\s.*>]+|>\Z))*")
_NO_TOKEN = re.compile(r"[^!#$&'*+\-.^_`|~0-9A-Za-z]")
_UNSAFE = re.compile(r"\A +| +\Z|[^ -~]+|%")
_ESCAPED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Nats(Broker):
    """NATS with JetStream: ``Nats("nats://localhost:4222", stream="ORDERS", durable="billing")``.

    ``Nats-Msg-Id`` is the message's id and subject, as in ``7@orders.placed``. A stream takes one value once within its
    ``duplicate_window``: a repeat is stored once, and what two routes send to two subjects of one stream is stored at
    both. When received, ``@`` with the message's own subject is removed: a stream that transforms subjects leaves it.

    Header names and values are written as in the HTTP binding of CloudEvents: ``%``, what is not printable ASCII and
    blanks at the ends, in names all that is no character of a token, are UTF-8 bytes as ``%XX``. When received, ``%XX``
    is read where that is valid UTF-8. Headers named ``Nats-…`` are the protocol's and are not received.
    """

    kind: ClassVar[str] = "nats"
    reading: ClassVar[str] = "stream='orders' and durable='billing'"

    servers: tuple[str, ...]
    """Where servers of one cluster are; one of them is chosen."""
    subject: Addressing
    """The subject of a topic."""
    stream: str | None
    """The stream that is read, or declared."""
    subjects: tuple[str, ...]
    """What the stream takes, as in "orders.>"."""
    durable: str | None
    """The durable consumer that is read: all of its stream, unless it was made with a filter."""
    ack_wait: timedelta
    """After what time a declared durable delivers again what a lost worker has not acknowledged."""
    declare: bool
    """Whether a worker makes a missing stream, which keeps all that it gets, and a missing durable when it connects."""
    name: str | None
    """What distinguishes this server from another whose streams have the same names, as in "eu". It is part of the
    inbox marks: after a change of it, a repeat of an older message is not known."""

    def __init__(
        self,
        url: str | Sequence[str] = "nats://localhost:4222",
        *,
        subject: Addressing = "{topic}",
        stream: str | None = None,
        subjects: Sequence[str] = (),
        durable: str | None = None,
        ack_wait: Duration = "1m",
        declare: bool = False,
        name: str | None = None,
    ) -> None:
        check_server(name)
        check_addressing(subject, "subject")
        servers = (url,) if isinstance(url, str) else tuple(url)
        _require(len({_user(each) for each in servers}) == 1, "url: pass one, or several with the same user")
        for option, given in (("stream", stream), ("durable", durable)):
            named = given is None or (isinstance(given, str) and _NAME.fullmatch(given))
            _require(named, f"{option}={given!r}: a name has no blank and none of . * > / \\")
        _require(stream or not (durable or subjects), "durable= and subjects= belong to a stream: pass stream= too")
        fits = not isinstance(subjects, str) and all(_PATTERN.fullmatch(each) for each in subjects)
        _require(fits, f"subjects={subjects!r}: pass a list of subjects, as in ['orders.>']")
        for each in _fixed(subject.replace("{topic}", "topic") if isinstance(subject, str) else subject):
            _require(_SUBJECT.fullmatch(each), f"subject={each!r}: write words with dots between, and no wildcard")
        try:
            wait = duration(ack_wait, of="ack_wait")
        except DurationError as error:
            raise BadOption(f"Nats({error})") from None
        _require(wait >= timedelta(milliseconds=1), f"ack_wait={ack_wait!r}: it must be at least 1ms")
        self.__dict__.update(servers=servers, subject=subject, stream=stream, subjects=tuple(subjects))
        self.__dict__.update(durable=durable, ack_wait=wait, declare=declare, name=name)

    def __repr__(self) -> str:
        return f"Nats({self.shown!r})"

    @property
    def url(self) -> str:
        """Its addresses, which may contain a password."""
        return ", ".join(self.servers)

    @property
    def shown(self) -> str:
        """Its addresses, without user, password or token."""
        return ", ".join(re.sub("//.*@", "//", each) for each in self.servers)

    @property
    def source(self) -> str:
        """The durable that is read; what is long, with a hash."""
        if self.durable is None:
            return ""
        return bounded(sourced(self.kind, self.name, str(self.stream), self.durable), 190)

    @property
    def addressing(self) -> Addressing:
        """See ``Broker``."""
        return self.subject

    def address(self, topic: str) -> str:
        """Return the subject of a topic."""
        try:
            return addressed(self.subject, topic)
        except KeyError:
            raise BadOption(f"Nats(subject=…) has no subject for topic {topic!r}: add it") from None

    def require(self) -> None:
        """See ``Broker``."""
        try:
            import mainspring.brokers.nats_connection  # noqa: F401
        except ImportError as error:
            raise MissingExtra("nats-py", "nats", "Nats(…)") from error

    async def connect(self) -> BrokerConnection:
        """Connect."""
        self.require()
        from mainspring.brokers.nats_connection import connect

        return await connect(self, _user(self.servers[0]), _fixed(self.subject))


def _require(fits: object, text: str) -> None:
    if not fits:
        raise BadOption(f"Nats(…): {text}")


def _fixed(subject: Addressing) -> tuple[str, ...]:
    """Return the subjects that are known without a topic."""
    if isinstance(subject, Mapping):
        return tuple(subject.values())
    return (subject,) if isinstance(subject, str) and "{topic}" not in subject else ()


def _user(url: str) -> tuple[str | None, str | None]:
    """Return the user and password of a URL; a user alone is a token. Raises BadOption."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0 and not parts.path.strip("/")
        fits = fits and "@" not in parts.query + parts.fragment  # a password with ? or #: what is before is no host
    except (ValueError, TypeError, AttributeError):
        fits = False
    _require(fits, "url: write 'nats://user:password@host:4222', or tls:// in place of nats://")
    return parts.username and unquote(parts.username), parts.password and unquote(parts.password)


@lru_cache(maxsize=256)  # subjects repeat with each message
def is_subject(text: str) -> bool:
    """Return whether a message can be sent to a subject of this name."""
    return _SUBJECT.fullmatch(text) is not None and len(text.encode()) <= _LONGEST_SUBJECT


def written_headers(message: WireMessage, subject: str) -> dict[str, str]:
    """Return the headers of a message to a subject, as they are sent."""
    # The id is first: a server that meets its name in a value before it does not deduplicate.
    values = [f"{message.id}@{subject}", message.content_type, *message.headers.values()]
    together = "".join(values)
    if not (together.isascii() and together.isprintable()) or "%" in together or " " in together:
        values = [_encoded(each) for each in values]
    names = ("Nats-Msg-Id", "content-type", *map(_encoded_name, message.headers))
    return {name: value for name, value in zip(names, values, strict=True) if name is not None}


def read_headers(
    found: Mapping[str, str | bytes], subject: str
) -> tuple[dict[str, str | bytes], str | None, str | None]:
    """Return the headers of a message at a subject, its content type, and its id."""
    headers: dict[str, str | bytes] = {}
    special: dict[str, str] = {}
    for name, value in found.items():
        lower = name.lower()
        if isinstance(value, bytes):
            headers[name] = value
        elif lower.startswith("nats-") or lower == "content-type":
            special[lower] = _decoded(value)
        else:
            headers[_decoded(name)] = _decoded(value)
    return headers, special.get("content-type"), special.get("nats-msg-id", "").removesuffix(f"@{subject}") or None


@lru_cache(maxsize=256)  # names repeat with each message
def _encoded_name(name: str) -> str | None:
    """Return the name of a header as it is sent; None of one that the message has for itself."""
    return None if name.lower() in ("nats-msg-id", "content-type") else _encoded(name, _NO_TOKEN)


def _encoded(text: str, unsafe: re.Pattern[str] = _UNSAFE) -> str:
    return unsafe.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def _decoded(text: str) -> str:
    return _ESCAPED.sub(_unescaped, text) if "%" in text else text


def _unescaped(found: re.Match[str]) -> str:
    try:
        return unquote_to_bytes(found[0]).decode()
    except UnicodeDecodeError:
        return found[0]
