"""Names of topics, groups and keys: what is allowed, and how a namespace goes before them in the database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from mainspring.model.errors import BadOption
from mainspring.model.redaction import redacted
from mainspring.model.roster import seated
from mainspring.model.views import DeliveryView, GroupView, MessageView, Retention, RunView, WorkerView

TOPIC_LIMIT = 255
NAME_LIMIT = 200

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@lru_cache(maxsize=4096)
def check_topic(topic: str) -> str:
    """``topic`` if a message may be published on it."""
    _check_segments(topic, "topic")
    if "*" in topic or "#" in topic:
        raise BadOption(
            f"topic {topic!r} has a wildcard: publish to a plain topic; `*` and `#` are for @app.consumer(…)"
        )
    return topic


@lru_cache(maxsize=4096)
def check_pattern(pattern: str) -> str:
    """``pattern`` if a consumer may subscribe to it."""
    segments = _check_segments(pattern, "topic pattern")
    for place, segment in enumerate(segments):
        if segment != "*" and "*" in segment:
            raise BadOption(f"topic pattern {pattern!r}: `*` stands for one whole segment, as in 'orders.*'")
        if "#" in segment and (segment != "#" or place + 1 < len(segments)):
            raise BadOption(f"topic pattern {pattern!r}: `#` stands for the rest and comes last, as in 'orders.#'")
    return pattern


def check_schedule(name: object) -> str:
    """``name`` if a schedule may be called that: it is also the topic of its messages."""
    try:
        return check_topic(name)
    except BadOption as error:
        raise BadOption(str(error).replace("topic", "schedule name", 1)) from None
    except TypeError:  # nothing that cannot be hashed is text
        raise BadOption(f"a schedule name is text like 'daily.report', not {name!r}") from None


def check_group(name: object) -> str:
    """``name`` if a group may be called that."""
    checked = check_name(name, "group")
    if "/" in checked:
        raise BadOption(f"group={name!r} has a '/': it separates the namespace, use '.', '-' or '_'")
    return checked


def check_name(value: object, option: str) -> str:
    """``value`` if it is 1 to 200 printable characters: a key, a group, a correlation id, an app's name."""
    if not isinstance(value, str):
        raise BadOption(f"{option}={value!r} must be text, not {type(value).__qualname__}: write str(…) around it")
    if not value or len(value) > NAME_LIMIT:
        raise BadOption(f"{option} must be 1 to {NAME_LIMIT} characters, not {len(value)}: {_short(value)!r}")
    if _CONTROL.search(value):
        raise BadOption(f"{option}={value!r} has a control character or a lone surrogate: remove it")
    return value


def check_headers(headers: object) -> dict[str, str]:
    """``headers`` as a dict of text to text."""
    if not isinstance(headers, Mapping):
        raise BadOption(f"headers={headers!r} must be a mapping of text to text")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadOption(f"header {name!r}: {value!r} must be text to text: write str(…) around it")
        if "\x00" in name or "\x00" in value or not name:
            raise BadOption(f"header {name!r} is empty or has a NUL character, in its name or value: remove it")
        if not (name + value).isascii():
            _check_encodable(name, value)
    return dict(headers)


def check_namespace(namespace: object) -> str:
    """``namespace`` if it can go before stored names."""
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise BadOption(
            f"namespace={namespace!r} must be 1 to 32 of a-z, 0-9, '_' and '-', beginning with a letter or digit"
        )
    return namespace


def check_schema(schema: object) -> str:
    """``schema`` if it can be a schema's name or the prefix of tables."""
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        raise BadOption(f"schema={schema!r} must be 1 to 40 of a-z, 0-9 and '_', not beginning with a digit")
    return schema


@dataclass(frozen=True, slots=True)
class Namespace:
    """Puts the namespace before names on their way in, and takes it off on their way out."""

    prefix: str = ""

    @classmethod
    def of(cls, namespace: str | None) -> Namespace:
        """The namespace of this name; None for none."""
        return cls("" if namespace is None else f"{namespace}/")

    def stored(self, name: str) -> str:
        """The name as it stands in the database."""
        return self.prefix + name

    def shown(self, name: str) -> str:
        """The name as the user wrote it."""
        return name.removeprefix(self.prefix)

    def owns(self, name: str) -> bool:
        """Whether a stored name is in this namespace. No topic or group holds a slash of its own."""
        return name.startswith(self.prefix) and "/" not in name[len(self.prefix) :]

    def delivery(self, view: DeliveryView) -> DeliveryView:
        """The same delivery with names as the user wrote them."""
        return replace(view, group=self.shown(view.group), topic=self.shown(view.topic)) if self.prefix else view

    def run(self, view: RunView) -> RunView:
        """The same run with names as the user wrote them."""
        if not self.prefix:
            return view
        schedule = None if view.schedule is None else self.shown(view.schedule)
        return replace(view, group=self.shown(view.group), topic=self.shown(view.topic), schedule=schedule)

    def message(self, view: MessageView) -> MessageView:
        """The same message with names as the user wrote them."""
        if not self.prefix:
            return view
        return replace(
            view,
            topic=self.shown(view.topic),
            deliveries=tuple(map(self.delivery, view.deliveries)),
            runs=tuple(map(self.run, view.runs)),
        )

    def group(self, view: GroupView) -> GroupView:
        """The same group with names as the user wrote them."""
        if not self.prefix:
            return view
        patterns = tuple(map(self.shown, view.patterns))
        return replace(view, name=self.shown(view.name), app=self.shown(view.app), patterns=patterns)

    def worker(self, view: WorkerView) -> WorkerView:
        """The same worker with names as the user wrote them."""
        name = seated(view.app, view.name)
        if not self.prefix:
            return replace(view, name=name)
        groups, tripped = (tuple(map(self.shown, each)) for each in (view.groups, view.tripped))
        return replace(view, name=name, app=self.shown(view.app), groups=groups, tripped=tripped)

    def retention(self, kept: Retention) -> Retention:
        """The same retention with patterns as they stand in the database."""
        return replace(kept, topics={self.stored(pattern): ages for pattern, ages in kept.topics.items()})


def _check_segments(topic: object, what: str) -> list[str]:
    if not isinstance(topic, str):
        raise BadOption(f"a {what} is text like 'orders.placed', not {topic!r}")
    if not topic or len(topic) > TOPIC_LIMIT:
        raise BadOption(f"a {what} is 1 to {TOPIC_LIMIT} characters, not {len(topic)}: {_short(topic)!r}")
    if _SPACE.search(topic):
        raise BadOption(f"{what} {topic!r} has white space or a control character: use '.', '-' or '_'")
    if "/" in topic:
        raise BadOption(f"{what} {topic!r} has a '/': separate segments by '.', as in 'orders.placed'")
    segments = topic.split(".")
    if "" in segments:
        raise BadOption(f"{what} {topic!r} has an empty segment: write one dot between segments, none at the ends")
    return segments


def _check_encodable(name: str, value: str) -> None:
    try:
        (name + value).encode()
    except UnicodeEncodeError:
        raise BadOption(f"header {name!r} holds a lone surrogate, which no database stores: remove it") from None


def _short(text: str) -> str:
    text = redacted(text)  # first, or a password that is cut in the middle would not be known as one
    return text if len(text) <= 40 else text[:40] + "…"  # noqa: PLR2004
