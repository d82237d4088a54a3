"""Checks of the names of topics, groups, keys and tables; and the names of functions."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mainspring.model.errors import BadOption
from mainspring.model.message import RESERVED, is_reserved
from mainspring.model.redaction import redacted

TOPIC_LIMIT = 255
NAME_LIMIT = 200
TABLES_LIMIT = 52
"""PostgreSQL cuts names at 63 bytes, and the channel of a schema has ``mainspring_`` before it."""

FORWARDS = "mainspring.fleet"
"""How the groups begin whose messages are for other databases of a fleet; the name of the app follows."""

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@lru_cache(maxsize=4096)
def check_topic(topic: str) -> str:
    """Check and return a topic to publish on."""
    _check_segments(topic, "topic")
    if "*" in topic or "#" in topic:
        raise BadOption(
            f"topic {topic!r} has a wildcard: publish to a plain topic; `*` and `#` are for @app.consumer(…)"
        )
    return topic


@lru_cache(maxsize=4096)
def check_pattern(pattern: str) -> str:
    """Check and return a pattern to subscribe to."""
    segments = _check_segments(pattern, "topic pattern")
    for place, segment in enumerate(segments):
        if segment != "*" and "*" in segment:
            raise BadOption(f"topic pattern {pattern!r}: `*` stands for one whole segment, as in 'orders.*'")
        if "#" in segment and (segment != "#" or place + 1 < len(segments)):
            raise BadOption(f"topic pattern {pattern!r}: `#` stands for the rest and comes last, as in 'orders.#'")
    return pattern


def check_schedule(name: object) -> str:
    """Check and return a schedule's name, which is also the topic of its messages."""
    try:
        return check_topic(name)
    except BadOption as error:
        raise BadOption(str(error).replace("topic", "schedule name", 1)) from None
    except TypeError:  # nothing that cannot be hashed is text
        raise BadOption(f"a schedule name is text like 'daily.report', not {name!r}") from None


def check_group(name: object) -> str:
    """Check and return a group's name."""
    checked = check_name(name, "group")
    if "/" in checked:
        raise BadOption(f"group={name!r} has a '/': use '.', '-' or '_'")
    return checked


def forwards_of(app: str) -> str:
    """Return the group of an app for messages for other databases; of each app another: they may share databases."""
    return f"{FORWARDS}.{app}"[:NAME_LIMIT]


def check_own_group(name: object) -> str:
    """Check and return the name of a group of the application's own."""
    checked = check_group(name)
    if checked == FORWARDS or checked.startswith(f"{FORWARDS}."):
        raise BadOption(f"group={name!r} begins with {FORWARDS!r}, which the library keeps for fleets: rename it")
    return checked


def check_name(value: object, option: str) -> str:
    """Return ``value`` if it is 1 to 200 printable characters: a key, group, correlation id or app name."""
    if not isinstance(value, str):
        raise BadOption(f"{option}={value!r} must be text, not {type(value).__qualname__}: write str(…) around it")
    if not value or len(value) > NAME_LIMIT:
        raise BadOption(f"{option} must be 1 to {NAME_LIMIT} characters, not {len(value)}: {_short(value)!r}")
    if _CONTROL.search(value):
        raise BadOption(f"{option}={value!r} has a control character or a lone surrogate: remove it")
    return value


def check_headers(headers: object) -> dict[str, str]:
    """Check and return headers as a dict."""
    if not isinstance(headers, Mapping):
        raise BadOption(f"headers={headers!r} must be a mapping of text to text")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadOption(f"header {name!r}: {value!r} must be text to text: write str(…) around it")
        if "\x00" in name or "\x00" in value or not name:
            raise BadOption(f"header {name!r} is empty or has a NUL character, in its name or value: remove it")
        if is_reserved(name):
            raise BadOption(f"header {name!r} begins with {RESERVED!r}, which the library keeps for itself: rename it")
        if not (name + value).isascii():
            _check_encodable(name, value)
    return dict(headers)


def check_namespace(value: object, option: str = "namespace") -> str:
    """Check and return a part of a schema's name."""
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise BadOption(
            f"{option}={value!r} must be 1 to 32 of a-z, 0-9, '_' and '-', beginning with a letter or digit"
        )
    return value


def check_schema(value: object, option: str = "schema") -> str:
    """Check and return a schema's name or the prefix of tables."""
    if not isinstance(value, str) or not _SCHEMA.fullmatch(value):
        raise BadOption(f"{option}={value!r} must be 1 to 40 of a-z, 0-9 and '_', not beginning with a digit")
    return value


def tables(schema: str, namespace: str | None) -> str:
    """Return the schema on PostgreSQL, the table prefix on SQLite: unique per setting (invariant 27)."""
    if namespace is None:
        return schema
    if len(schema) + 1 + len(namespace) > TABLES_LIMIT:
        raise BadOption(
            f"schema={schema!r} ({len(schema)} characters) and namespace={namespace!r} ({len(namespace)}) name the "
            f"tables together, with a dash between them: {len(schema) + 1 + len(namespace)} characters, and the "
            f"limit is {TABLES_LIMIT}; shorten one of them"
        )
    return f"{schema}-{namespace}"


def handler_name(function: Any) -> str:
    """Return the name of a handler, provider or upcaster: module and qualified name."""
    inner = inspect.unwrap(function)
    if isinstance(inner, functools.partial):
        return f"functools.partial({handler_name(inner.func)})"
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', '')}.{name}"


def is_reloaded(before: Any, now: Any) -> bool:
    """Return whether this is the same function from a reloaded module or notebook cell, not a second one."""
    if handler_name(before) != handler_name(now):
        return False
    old, new = (getattr(inspect.unwrap(getattr(each, "consume", each)), "__code__", None) for each in (before, now))
    if old is None or new is None or old is new:  # two closures of one function are two functions
        return False
    return bool(old.co_filename != new.co_filename or old.co_firstlineno == new.co_firstlineno)


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
    text = redacted(text)  # first: a password that is cut in the middle would not be recognised
    return text if len(text) <= 40 else text[:40] + "…"  # noqa: PLR2004
