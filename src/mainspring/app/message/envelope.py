"""From the arguments of ``publish`` to a draft: topics by type, ids, times, keys, limits."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict
from uuid import UUID, SafeUUID

from mainspring.app.message.catalogue import Catalogue, PayloadType
from mainspring.app.message.unique import Unique
from mainspring.app.names import check_headers, check_name, check_topic
from mainspring.app.options import choice, closest, flag, length, refuse_unknown
from mainspring.model.errors import BadOption, BadSignature, PayloadTooLarge
from mainspring.model.limits import Limits
from mainspring.model.message import Draft, Priority
from mainspring.storage.codec import with_version_of
from mainspring.storage.patterns import matches
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

PriorityName = Literal["urgent", "high", "normal", "low"]


class PublishOptions(TypedDict, total=False):
    """Options of every publish; None is the same as leaving an option out."""

    tx: Any
    """The caller's own transaction: the message exists if and when that commits."""
    delay: Duration | None
    """How long to wait, counted by the database's clock."""
    at: datetime | None
    """When to deliver it: an aware datetime."""
    key: str | None
    """What the message is about; ``cancel(topic, key=…)`` finds it by this."""
    priority: Priority | PriorityName | int | None
    """One of four levels ["normal"]."""
    headers: Mapping[str, str] | None
    """Text to text, passed to the handler as it is. Names that begin with ``mainspring-`` are rejected."""
    correlation_id: str | UUID | None
    """What this message belongs to; in a handler, ``ctx.publish`` passes it on."""
    message_id: UUID | str | None
    """The id; a repeated one stores nothing [a new UUIDv7]."""
    unique: Unique | Literal["key", "payload"] | None
    """At most one of its kind: by "key" or by "payload" until it has ended, or as in ``unique(…)``."""
    expires: Duration | datetime | None
    """After this long, or at this time, it is cancelled instead of delivered."""
    past: Literal["run", "raise"] | None
    """What to do when ``at`` has passed ["run": deliver now]."""
    validate: bool | None
    """Whether to reject a payload that does not fit the type of its topic, where that is known here [True]."""
    direct: bool | None
    """Whether to send it to the brokers of its routes now, and store nothing: what they do not confirm is lost unless
    the caller sends it again, and no consumer of this database receives it [False]."""


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        """Show it in a signature."""
        return "…"


MISSING: Final = Missing()
"""No payload was given, which is not the same as None."""

UNGIVEN: Final[Any] = None
"""The default of an argument that is required: the error for leaving it out is ours."""

_KNOWN = PublishOptions.__annotations__.keys()
_LEVELS = {level.name.lower(): level for level in Priority}
_NOTHING: Mapping[str, Any] = {}


class Envelope:
    """Builder of drafts. Every check of a message happens here, before anything is stored."""

    def __init__(
        self,
        catalogue: Catalogue,
        payload_limit: int,
        clock: Clock,
        orders: OrderedGroups | None = None,
    ) -> None:
        self._orders = OrderedGroups() if orders is None else orders
        self._catalogue = catalogue
        self._of_topic = catalogue.of_topic
        self._limit = payload_limit
        self._clock = clock
        self._identities = Identities()

    def addressed(self, message: object, payload: object) -> tuple[str, object]:
        """Return the topic and the payload of ``publish(message, payload)``."""
        return self._address(message, payload, None)

    def draft(
        self,
        message: object,
        payload: object,
        options: Mapping[str, Any] = _NOTHING,
        *,
        group: str | None = None,
        topic: str | None = None,
        causation_id: UUID | None = None,
        call: str = "publish(…)",
        instead_of: str | None = None,
    ) -> Draft:
        """Return the draft of ``publish(message, payload, **options)``; ``topic`` is used if no type has one.

        ``instead_of`` is the content type of the message that this one replaces: plain values get its version.
        """
        name, value = self._address(message, payload, topic)
        body, content_type = self.encode(value, name)
        if instead_of is not None and self._catalogue.topic_of(type(value)) is None:
            content_type = with_version_of(content_type, instead_of)
        expected = self._of_topic.get(name) if group is None else self._expected(group, name)
        if expected and (len(expected) > 1 or type(value) not in expected[0].instances):
            _check(expected, value, name, body, content_type, options.get("validate"))
        if not options or (len(options) == 1 and "tx" in options):
            return Draft(self._identities.make(), name, body, content_type, group=group, causation_id=causation_id)
        if not options.keys() <= _KNOWN:
            _refuse(options, call)
        delay, at = self._when(options)
        expires_in, expires_at = _expiry(options.get("expires"), delay, at)
        headers, key, correlation = options.get("headers"), options.get("key"), options.get("correlation_id")
        draft = Draft(
            id=self.identity(options.get("message_id")),
            topic=name,
            payload=body,
            content_type=content_type,
            headers=None if headers is None else check_headers(headers),
            key=None if key is None else check_name(key, "key"),
            group=group,
            priority=priority(options.get("priority")),
            delay=delay,
            at=at,
            expires_in=expires_in,
            expires_at=expires_at,
            correlation_id=None if correlation is None else _correlation(correlation),
            causation_id=causation_id,
        )
        return self.in_order(draft, call)

    def _expected(self, group: str, topic: str) -> tuple[PayloadType, ...]:
        """Return what payloads for this group must be, or if it is of another app those of the topic."""
        expected = self._catalogue.of_group.get(group)
        return self._of_topic.get(topic, ()) if expected is None else expected

    def in_order(self, draft: Draft, call: str) -> Draft:
        """Return the draft; reject one that would delay later messages of its key."""
        self._orders.refuse_later(draft, call)
        return draft

    def encode(self, value: object, topic: str) -> tuple[bytes, str]:
        """Encode a value for this topic; return the payload and its content type."""
        body, content_type = self._catalogue.encode(value, topic)
        if len(body) > self._limit:
            raise PayloadTooLarge(topic, len(body), self._limit)
        return body, content_type

    def fitting(self, value: object, topic: str, group: str | None, remedy: str) -> tuple[bytes, str]:
        """Encode a payload that is published later, to this group or to the topic's. Raises BadPayload."""
        body, content_type = self.encode(value, topic)
        for each in self._of_topic.get(topic, ()) if group is None else self._expected(group, topic):
            each.check(topic, body, content_type, remedy)
        return body, content_type

    def identity(self, given: object = None) -> UUID:
        """Return the given id, or a new one."""
        if given is None:
            return self._identities.make()
        return read_identity(given, "make one from your own id by uuid.uuid5(uuid.NAMESPACE_URL, 'order:42')")

    def _address(self, message: object, payload: object, topic: str | None) -> tuple[str, object]:
        if isinstance(message, str) and topic is None:
            return check_topic(message), None if payload is MISSING else payload
        if payload is not MISSING:
            # A type in the place of the topic: the way to publish a TypedDict, whose values are plain dicts.
            named = self._catalogue.topic_of(message)
            if named is None:
                raise BadOption(
                    f"publish({message!r}, payload): the first argument must be a topic, or a type registered by "
                    "@app.message(topic)"
                )
            return named, payload
        named = self._catalogue.topic_of(type(message)) or topic
        if named is None:
            raise BadSignature(_homeless(message))
        return named, message

    def _when(self, options: Mapping[str, Any]) -> tuple[timedelta, datetime | None]:
        delay, at = options.get("delay"), options.get("at")
        past = choice(options.get("past") or "run", ("run", "raise"), "past")
        if at is None:
            return timedelta() if delay is None else length(delay, "delay"), None
        if delay is not None:
            raise BadOption("delay and at were both given: a message has one due time, pass one of them")
        moment = instant(at, "at")
        if past == "raise" and moment < self._clock.now():
            raise BadOption(f"at={at.isoformat()} has passed: give a later time, or past='run' to deliver it now")
        return timedelta(), moment


def _check(
    expected: tuple[PayloadType, ...], value: object, topic: str, body: bytes, content_type: str, validate: object
) -> None:
    """Raise BadPayload unless the payload fits, or is not to be validated."""
    if validate is not None and not flag(validate, "validate"):
        return
    for each in expected:
        if not each.trusts(type(value), body):
            each.check(topic, body, content_type)


def _refuse(options: Mapping[str, Any], call: str) -> None:
    for name in ("then", "failed"):
        if name in options:
            raise BadOption(
                f"{call} has no option {name!r}: a topic may have any number of groups, and what follows must follow "
                f"one. Write `consumer.send(payload, {name}=…)`, or `app.join([(consumer, payload), …], {name}=…)`"
            )
    refuse_unknown(options, _KNOWN, call)


def priority(value: object) -> Priority:
    """Read a priority: its name, number or itself."""
    if value is None:
        return Priority.NORMAL
    if isinstance(value, str) and value in _LEVELS:
        return _LEVELS[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in set(Priority):
        return Priority(value)
    hint = closest(value, _LEVELS) if isinstance(value, str) else ""
    raise BadOption(f"priority={value!r} is not one of 'urgent', 'high', 'normal', 'low' or 0 to 3.{hint}")


def instant(value: object, option: str) -> datetime:
    """Read an aware datetime; return it in UTC."""
    if not isinstance(value, datetime):
        raise BadOption(f"{option}={value!r} must be an aware datetime, as in datetime.now(UTC) + timedelta(hours=1)")
    if value.tzinfo is None or value.utcoffset() is None:
        raise BadOption(
            f"{option}={value.isoformat()} has no time zone: write datetime(…, tzinfo=UTC) or ZoneInfo('Europe/Paris')"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise BadOption(f"{option}={value.isoformat()} is not within the years 1 to 9999 of UTC") from None


def read_identity(value: object, remedy: str = "to find one by a key of yours, write app.messages.list(key=…)") -> UUID:
    """Read a message id: a UUID, or the text of one. Raises BadOption with the ``remedy``."""
    if isinstance(value, UUID):
        return value
    if isinstance(value, str):
        try:
            return UUID(value)
        except ValueError:
            pass
    raise BadOption(f"message_id={value!r} is not a UUID: {remedy}")


def later(draft: Draft, offset: timedelta) -> Draft:
    """Postpone a draft by ``offset``."""
    if draft.at is not None:
        return replace(draft, at=draft.at + offset)
    return replace(draft, delay=draft.delay + offset)


def _expiry(value: object, delay: timedelta, at: datetime | None) -> tuple[timedelta | None, datetime | None]:
    if value is None:
        return None, None
    if isinstance(value, datetime):
        moment = instant(value, "expires")
        if at is not None and moment <= at:
            raise BadOption(
                f"expires={value.isoformat()} is not after at={at.isoformat()}: it would never be delivered"
            )
        return None, moment
    span = length(value, "expires", least=timedelta(microseconds=1))
    if delay and span <= delay:
        raise BadOption(f"expires={value!r} is not after delay={str(delay)!r}: it would never be delivered")
    return span, None


def _correlation(value: object) -> str:
    return check_name(str(value) if isinstance(value, UUID) else value, "correlation_id")


def _homeless(message: object) -> str:
    kind = type(message).__qualname__
    if isinstance(message, dict | list | int | float | bool | bytes | None):
        return f"a {kind} has no topic of its own: write publish('your.topic', payload)"
    if isinstance(message, type):
        return f"publish({message.__qualname__}) got the type: pass an instance, or a payload after it"
    return f"{kind} has no topic: put @app.message('your.topic') above it, or write publish('your.topic', message)"


_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_LOW = (1 << 12) - 1
_UNKNOWN = SafeUUID.unknown  # reading it of the enum takes as long as making the rest of an id
_set_number, _set_safety = (vars(UUID)[slot].__set__ for slot in ("int", "is_safe"))


class Identities:
    """Generator of ids that grow within a process (RFC 9562, UUIDv7, method 3).

    The twelve bits after the milliseconds are a finer fraction of time; if two ids would share it, or the
    clock was set back, the next one increments the last.
    """

    def __init__(self) -> None:
        self._last = 0
        self.forget()
        _all.add(self)

    def make(self) -> UUID:
        """Return a new id, greater than every earlier one."""
        # In 1/4096 of a millisecond: shifted right by twelve it is milliseconds, and the rest is the fraction.
        tick = time.time_ns() * 4096 // 1_000_000
        with self._lock:
            if tick <= self._last:
                tick = self._last + 1
            self._last = tick
            noise = self._random.getrandbits(62)
        return _uuid((tick >> 12) << 80 | _VERSION | (tick & _LOW) << 64 | _VARIANT | noise)

    def forget(self) -> None:
        """Reset after a fork: the lock's holder stayed in the parent, whose noise must not be repeated."""
        self._lock = threading.Lock()
        self._random = random.Random()


def _uuid(number: int) -> UUID:
    # UUID(int=number) without its checks, which cost as much as all the rest.
    made = object.__new__(UUID)
    _set_number(made, number)
    _set_safety(made, _UNKNOWN)
    return made


_all: weakref.WeakSet[Identities] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


Addressed = Callable[..., Any] | tuple[Any, Any]
"""A registered consumer, function or class; or one with its payload."""


class SendOptions(PublishOptions, total=False):
    """Options of ``send``: those of ``publish``, and what follows when the message has ended."""

    then: Addressed | None
    """The consumer that follows when this one is done, or ``(consumer, payload)``."""
    failed: Addressed | None
    """The one that follows when this one was buried, cancelled or expired instead."""


class JoinOptions(TypedDict, total=False):
    """Options of ``join``; None is the same as leaving an option out."""

    then: Addressed | None
    """The consumer that follows when all members are done, or ``(consumer, payload)``."""
    failed: Addressed | None
    """The one that follows when all have ended and some are not done: buried, cancelled or expired."""
    key: str | None
    """The key of the members and of what follows."""
    correlation_id: str | UUID | None
    """The correlation of all [the id of the join]."""
    tx: Any
    """The caller's own transaction: the join exists if and when that commits."""
    validate: bool | None
    """Whether to reject a payload that does not fit the type of its consumer [True]."""


class OrderedGroups:
    """The ordered groups of an app, by name, and their subscriptions."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[str, ...]] = {}

    def note(self, group: str, patterns: Iterable[str], limits: Limits | None) -> None:
        """Mark this group as ordered, or not."""
        self._groups.pop(group, None)
        if limits is not None and limits.ordered:
            self._groups[group] = tuple(patterns)

    def refuse_later(self, draft: Draft, call: str) -> None:
        """Raise BadOption for a message of a key that is due later than those behind it."""
        if draft.key is None or not (draft.delay or draft.at):
            return
        for group, patterns in self._groups.items():
            if draft.group == group or (draft.group is None and any(matches(each, draft.topic) for each in patterns)):
                raise BadOption(
                    f"{call} with key={draft.key!r} is for later, and consumer {group!r} is ordered: all that is "
                    "published under this key afterwards would wait for it. Leave out the key, or delay=, at= or "
                    "spread=, or publish it to a topic of its own"
                )
