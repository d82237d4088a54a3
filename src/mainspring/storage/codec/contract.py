"""What a codec is, and the content types that name one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

from mainspring.model.errors import BadOption, Unreadable

Read = Callable[[bytes], Any]
"""Reads a payload as one type."""

Decode = Callable[[bytes, str], Any]
"""Reads (payload, content type); raises Unreadable."""


JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
BUILT_IN: Final = (JSON, BYTES)
_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA = re.compile(f"{_NAME}/{_NAME}")
_VERSION = re.compile(r';\s*version\s*=\s*("?)([^";]*)\1\s*(?:;|$)', re.IGNORECASE)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@runtime_checkable
class Codec(Protocol):
    """Turns values into the bytes of one content type, and back.

    One object serves the whole app, from every thread. Whatever it raises is told apart from a handler's failure: at
    ``publish`` it becomes Unencodable and nothing is stored, at delivery Unreadable, and the bytes stay as they are.
    """

    @property
    def content_type(self) -> str:
        """Stored beside the bytes to find this codec again, as in ``application/msgpack``."""
        ...

    def encode(self, value: Any) -> bytes:
        """The payload of a value."""
        ...

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        """What reads payloads as this type, ``Any`` included.

        Asked once for each consumer, when it registers, so that a delivery costs a call and no reflection. Raise
        when nothing of this content type can be read as that type.
        """
        ...


def check_content_type(value: object, whose: str) -> str:
    """``value`` if a codec may store its payloads under it. It begins the error as ``whose``."""
    if not isinstance(value, str):
        raise BadOption(f"{whose} is {value!r}: it must be text, as in 'application/msgpack'")
    if ";" in value:
        raise BadOption(f"{whose} is {value!r}: leave the parameters out, the version is added by @app.message")
    if not _MEDIA.fullmatch(value):
        raise BadOption(f"{whose} is {value!r}: write a type and a subtype in lower case, as in 'application/msgpack'")
    if value in BUILT_IN:
        raise BadOption(f"{whose} is {value!r}, which is built in: choose another, as in 'application/vnd.shop+json'")
    return value


def stamped(media: str, version: int) -> str:
    """The content type of this version. The first one has no mark: code without versions writes it."""
    return media if version == 1 else f"{media}; version={version}"


# A stored content type may be anything, so the cache is bounded.
@lru_cache(maxsize=256)
def parted(content_type: str) -> tuple[str, int]:
    """The media type in lower case, and the version. Raises Unreadable when that is no whole number."""
    media, parameters, _ = content_type.partition(";")
    version = _VERSION.search(content_type) if parameters else None
    if version is None:
        return media.strip().lower(), 1
    if not _NUMBER.fullmatch(version[2]):
        raise Unreadable(f"content type {content_type!r} has a version that is no whole number from 1")
    return media.strip().lower(), int(version[2])


def is_json(media: str) -> bool:
    """Whether it is JSON under one of its many names, as in ``application/vnd.shop+json``."""
    return media.endswith(("/json", "+json", "-json"))


def with_version_of(content_type: str, other: str) -> str:
    """``content_type`` as the version that ``other`` has; bytes have none."""
    media, _ = parted(content_type)
    if media == BYTES:
        return content_type
    try:
        return stamped(media, parted(other)[1])
    except Unreadable:
        return media
