"""Headers that the library keeps for itself: what a message is part of travels with it under them."""

from __future__ import annotations

from collections.abc import Mapping

RESERVED = "mainspring-"
"""What the names of our own headers begin with, in any case: refused to publishers, not shown (invariant 30)."""
REPLACES_HEADER = "mainspring-replaces"
"""On what replaces a dead letter: the id of the message that was first replaced."""


def is_reserved(name: str) -> bool:
    """Whether a header is one of the library's own."""
    return name[: len(RESERVED)].lower() == RESERVED


def public(headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers of the publisher."""
    return {name: value for name, value in (headers or {}).items() if not is_reserved(name)}


def reserved(headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers of the library."""
    return {name: value for name, value in (headers or {}).items() if is_reserved(name)}
