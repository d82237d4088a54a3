"""Options of a schedule's occurrences: what is sent, how its runs are retried and limited, and what follows them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, get_args
from uuid import UUID

from mainspring.app.config import time_limit
from mainspring.app.consume.batch import lone
from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.envelope import MISSING, Addressed, Envelope, PriorityName, priority
from mainspring.app.names import check_headers, check_name
from mainspring.app.options import choice, given
from mainspring.app.schedule.timing import TimingOptions
from mainspring.model.errors import BadOption
from mainspring.model.message import Priority
from mainspring.model.schedule import OWN_RETRY, QUEUE_EMPTY, UNLIMITED, DeadLetters, Mode
from mainspring.timing.backoff import RetryPolicy, Spec, read_policy, write_policy
from mainspring.timing.duration import Duration

Follows = Addressed | str | Mapping[str, Any]
"""A consumer, or its group's name; or ``(consumer, payload)``, as data ``{"consumer": "mail", "payload": …}``."""


class OccurrenceOptions(TypedDict, total=False):
    """What a schedule sends; None is the same as omitting an option. An empty text or mapping sets none."""

    priority: Priority | PriorityName | int | None
    """One of four levels ["normal"]."""
    headers: Mapping[str, str] | None
    """Text to text, passed to the handler as it is [none]."""
    key: str | None
    """What every occurrence is about, for limits by key and for ``cancel`` [none]."""
    correlation_id: str | UUID | None
    """What every occurrence belongs to [none]."""
    dead: DeadLetters | None
    """Which of its dead letters are kept per group: the latest, which counts earlier ones, or all [the app's]."""
    then: Follows | None
    """The consumer that follows when a run is done, or ``(consumer, payload)`` [none]."""
    failed: Follows | None
    """The one that follows when an occurrence was buried or cancelled instead [none]."""


class OnceOptions(OccurrenceOptions, total=False):
    """Options of ``schedules.once``: what is sent, and how it is run."""

    retry: RetryPolicy | Spec | None
    """When to retry: a policy without exception types, or data; "consumer": as the consumer does ["recurring"]."""
    timeout: Duration | None
    """The time limit of one attempt; "none": none [the consumer's]."""


class ScheduleOptions(TimingOptions, OnceOptions, total=False):
    """Options of ``schedules.put`` and ``schedules.alter``; None is the same as omitting an option."""


OCCURRENCE = OnceOptions.__annotations__.keys()
OPTIONS = ScheduleOptions.__annotations__.keys()


class OccurrenceReader:
    """Reads these options into fields of a plan. Every error is raised here."""

    def __init__(self, envelope: Envelope, consumers: Consumers) -> None:
        self._envelope = envelope
        self._consumers = consumers

    def read(self, options: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that these options set; ``target`` has the fields of its target."""
        fields: dict[str, Any] = {}
        for name, value in given({name: options.get(name) for name in OCCURRENCE}).items():
            fields[name] = self._following(value, name) if name in ("then", "failed") else _READERS[name](value)
        if options.get("only_if") == QUEUE_EMPTY and target.get("mode") == "publish":
            raise BadOption(
                f"only_if={QUEUE_EMPTY!r} is about one group, and occurrences of mode='publish' go to every group of "
                f"{target.get('topic')!r}: schedule a consumer instead, or write a function"
            )
        for name in ("then", "failed"):
            if fields.get(name) is not None and target.get("mode") == "publish":
                raise BadOption(
                    f"{name}= follows one consumer, and occurrences of mode='publish' go to every group of "
                    f"{target.get('topic')!r}: schedule a consumer instead, or publish from its handler"
                )
        return fields

    def target(self, name: str, consumer: object, payload: object) -> dict[str, Any]:
        """Return the plan fields of a schedule of one consumer."""
        registration = self._consumers.find(consumer)
        remedy = f"change the payload of the schedule {name!r}"
        encoded = self._envelope.fitting(lone(registration, payload), name, registration.group, remedy)
        return target("direct", name, registration.group, *encoded)

    def _following(self, value: object, option: str) -> dict[str, Any] | None:
        if value == "":
            return None
        consumer, payload = _addressed(value, option)
        registration = self._consumers.find(consumer)
        sent = None if payload is MISSING else payload
        topic, group = registration.topic, registration.group
        remedy = f"write {option}=({group!r}, payload)"
        written = target(
            "direct", topic, group, *self._envelope.fitting(lone(registration, sent), topic, group, remedy)
        )
        return {name: value for name, value in written.items() if name != "mode"}


def target(mode: Mode, topic: str, group: str | None, body: bytes, content_type: str) -> dict[str, Any]:
    """Return the plan fields of a schedule's target: one consumer's group, or every group of a topic."""
    payload = b64encode(body).decode()
    return {"mode": mode, "topic": topic, "group": group, "payload": payload, "content_type": content_type}


def read_retry(value: object) -> Spec:
    """Read a policy, as it is stored. Raises BadOption."""
    if value == OWN_RETRY:
        return OWN_RETRY
    try:
        return write_policy(value if isinstance(value, RetryPolicy) else read_policy(value))
    except ValueError as error:
        if isinstance(value, RetryPolicy):
            raise BadOption(f"retry={value.name!r} of a schedule: {error}. Give it to the consumer itself") from None
        raise BadOption(f"retry: {error}; {OWN_RETRY!r} is the policy of the consumer") from None


def _timeout(value: object) -> float | str:
    limit = time_limit(value, "timeout")
    return UNLIMITED if limit is None else limit / timedelta(seconds=1)


def _addressed(value: object, option: str) -> tuple[object, object]:
    if isinstance(value, Mapping):
        if "consumer" not in value or not value.keys() <= {"consumer", "payload"}:
            raise BadOption(f"{option}={dict(value)!r} must be {{'consumer': 'mail', 'payload': …}}")
        return value["consumer"], value.get("payload", MISSING)
    if type(value) is tuple and len(value) == 2:  # noqa: PLR2004
        return value
    return value, MISSING


def _text(option: str) -> Callable[[object], str | None]:
    def read(value: object) -> str | None:
        return None if value == "" else check_name(str(value) if isinstance(value, UUID) else value, option)

    return read


_READERS: dict[str, Callable[[Any], Any]] = {
    "priority": lambda value: int(priority(value)),
    "headers": check_headers,
    "key": _text("key"),
    "correlation_id": _text("correlation_id"),
    "dead": lambda value: choice(value, get_args(DeadLetters), "dead"),
    "retry": read_retry,
    "timeout": _timeout,
}
