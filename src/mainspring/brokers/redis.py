"""Redis Streams: entries are added with a reply for each, and read through consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from mainspring.brokers.contract import (
    Addressing,
    Broker,
    BrokerConnection,
    addressed,
    bounded,
    check_addressing,
    check_server,
    sourced,
)
from mainspring.model.errors import BadOption, MissingExtra
from mainspring.timing.duration import Duration, DurationError, duration

RETURNED = "mainspring-returned"
"""The consumer that holds what a worker gave back: others claim it from there at once."""


@dataclass(frozen=True, eq=False)
class RedisStreams(Broker):
    """Streams of one Redis server, 6.2 or later, at ``redis://``, ``rediss://`` or ``unix://``; no Redis Cluster.

    An entry has the fields ``id``, ``content_type``, ``key``, ``correlation_id``, one ``h:<name>`` per header, and
    ``body``. All but the body are UTF-8 text, and may be missing. By hand::

        XADD orders * content_type application/json h:ce-type orders.placed body '{"n": 7}'

    Fields with other names are received as headers. An entry without ``body`` is received as a JSON object of all its
    fields, with Base64 for values that are no UTF-8 text.

    A message is *sent* when Redis has replied, and the reply promises that it is in memory, no more. A crash loses what
    was not yet written to disk, a failover what the replica had not yet received, since no ``WAIT`` follows: set
    ``appendonly yes`` and ``appendfsync always``, and ``min-replicas-to-write``, where that matters.

    What a worker has received and not acknowledged stays pending. A worker that stops gives it back at once, to the
    consumer ``mainspring-returned``; from one that was killed others take it over after ``claim_after``.
    """

    kind: ClassVar[str] = "redis"
    reading: ClassVar[str] = "streams=['orders'] and group='billing'"

    url: str = field(default="redis://localhost:6379/0", repr=False)
    _: KW_ONLY
    stream: Addressing = "{topic}"
    """Where messages are sent: text with ``{topic}``, a mapping of topics, or a function."""
    streams: Sequence[str] = ()
    """What is read."""
    group: str | None = None
    """The consumer group that reads it."""
    consumer: str | None = None
    """The name of this consumer, which no two connections may share [made of host, process and chance]."""
    claim_after: Duration = "1m"
    """How long an entry is pending for one consumer before another takes it: longer than a batch takes to store."""
    maxlen: int | None = None
    """About how many entries a stream that is sent to keeps [any number]. One batch in 16 trims it, and only what every
    group has acknowledged: a stream that no group reads is not trimmed."""
    largest: int = 1_000_000
    """How many bytes a body may have: Redis itself accepts 512 MB."""
    declare: bool = False
    """Whether missing streams and groups are made: when a worker connects, and by the first message to a stream."""
    name: str | None = None
    """What distinguishes this server from another whose streams have the same names, as in "eu". It is part of the
    inbox marks: after a change of it, a repeat of an older message is not known."""

    def __post_init__(self) -> None:
        """Check everything. Raises BadOption."""
        _where(self.url)
        check_server(self.name)
        check_addressing(self.stream, "stream")
        if isinstance(self.streams, str) or not all(isinstance(each, str) and each for each in self.streams):
            raise BadOption(f"streams={self.streams!r} must be a list of names, as in streams=['orders']")
        object.__setattr__(self, "streams", tuple(dict.fromkeys(self.streams)))
        if bool(self.streams) != bool(self.group):
            raise BadOption("streams= and group= go together, as in streams=['orders'], group='billing'")
        if self.consumer in ("", RETURNED):
            raise BadOption(f"consumer={self.consumer!r} is not possible: choose another name, or leave it out")
        if not self.stream or not (isinstance(self.stream, str | Mapping) or callable(self.stream)):
            raise BadOption(f"stream={self.stream!r} must be text like '{{topic}}', a mapping of topics, or a function")
        for name, value in (("maxlen", self.maxlen), ("largest", self.largest)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise BadOption(f"{name}={value!r} must be a whole number, 1 or more")
        try:
            milliseconds = duration(self.claim_after, of="claim_after").total_seconds() * 1000
        except DurationError as error:
            raise BadOption(str(error)) from None
        if milliseconds < 1:
            raise BadOption(f"claim_after={self.claim_after!r} would take entries from workers that store them: '1m'")

    @property
    def source(self) -> str:
        """The group and its streams; what is long, or is no name of a group, with a hash."""
        return bounded(self._source_of("+".join(self.streams)), 150, "/") if self.streams else ""

    @property
    def reads(self) -> frozenset[str]:
        """Each stream that the group reads."""
        return frozenset(map(self._source_of, self.streams))

    def _source_of(self, streams: str) -> str:
        return sourced(self.kind, self.name, self.group or "", streams)

    @property
    def addressing(self) -> Addressing:
        """See ``Broker``."""
        return self.stream

    def address(self, topic: str) -> str:
        """Return the stream of a topic."""
        return addressed(self.stream, topic)

    def require(self) -> None:
        """See ``Broker``."""
        try:
            import mainspring.brokers.redis_connection  # noqa: F401
        except ImportError as error:
            raise MissingExtra("redis and hiredis", "redis", "RedisStreams(…)") from error

    async def connect(self) -> BrokerConnection:
        """Connect: by one socket that sends and acknowledges and, if anything is read, one that waits."""
        self.require()
        from mainspring.brokers.redis_connection import connect

        return await connect(self, _where(self.url))


def _where(url: str) -> str:
    """Return the server, database and user that a URL names. Raises BadOption, which quotes no part of it."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        is_file = parts.scheme == "unix"
        database = query["db"][0] if "db" in query else "" if is_file else parts.path.strip("/")
        is_valid = parts.scheme in ("redis", "rediss", "unix") and (not database or database.isdecimal())
        place = unquote(parts.path) if is_file else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
        user = unquote(parts.username or "") or query.get("username", ["default"])[0]
    except (AttributeError, TypeError, ValueError):  # its text may have a piece of the password
        is_valid = False
    if not is_valid:
        raise BadOption(
            "url must be like 'redis://user:password@host:6379/0', 'rediss://…' or 'unix:///run/redis.sock?db=0', with "
            "%-escapes for special characters of the password, as in %2F for '/'"
        )
    return f"Redis at {place}, database {database or 0}, user {user}"
