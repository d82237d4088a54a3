"""Headers reserved for the library: what a message is part of."""

from __future__ import annotations

from collections.abc import Mapping

RESERVED = "mainspring-"
"""The prefix of reserved headers, in any case: rejected from publishers, never shown (invariant 30)."""
REPLACES_HEADER = "mainspring-replaces"
"""On the replacement of a dead letter: the id of the message that was first replaced."""


def is_reserved(name: str) -> bool:
    """Return whether a header is reserved for the library."""
    return name[: len(RESERVED)].lower() == RESERVED


def public(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the publisher's headers."""
    return {name: value for name, value in (headers or {}).items() if not is_reserved(name)}


def reserved(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the library's headers."""
    return {name: value for name, value in (headers or {}).items() if is_reserved(name)}
