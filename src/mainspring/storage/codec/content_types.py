"""Content types: which are allowed, which are JSON, and the version they carry as a parameter."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from mainspring.model.errors import BadOption, Unreadable

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
BUILT_IN: Final = (JSON, BYTES)

_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA = re.compile(f"{_NAME}/{_NAME}")
_VERSION = re.compile(r';\s*version\s*=\s*("?)([^";]*)\1\s*(?:;|$)', re.IGNORECASE)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


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
    """The content type of this version. The first one has no mark: whoever knows of none has written it."""
    return media if version == 1 else f"{media}; version={version}"


# What is stored may say anything, so what is remembered of it is bounded.
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
