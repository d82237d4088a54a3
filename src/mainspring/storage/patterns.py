"""Topic patterns: ``*`` is one dotted segment, ``#`` the rest, alike on every engine.

No topic has a slash, except those that earlier releases stored for a namespace, as in ``staging/orders.placed``: no
wildcard matches these.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest


@lru_cache(maxsize=4096)
def expression(pattern: str) -> str:
    """Write the pattern as a regular expression that Python and PostgreSQL read alike.

    ``#`` stands for zero or more segments and only at the end: ``orders.#`` also matches ``orders``.
    """
    segments = pattern.split(".")
    rest = segments[-1] == "#"
    if rest:
        segments.pop()
    written = r"\.".join("[^./]+" if segment == "*" else _literal(segment) for segment in segments)
    if not rest:
        return f"^{written}$"
    return f"^{written}(\\.[^/]+)?$" if segments else "^[^/]+$"


def is_wild(pattern: str) -> bool:
    """Whether the pattern can match more than one topic."""
    return any(segment in ("*", "#") for segment in pattern.split("."))


def specificity(pattern: str) -> tuple[int, ...]:
    """What patterns that match one topic are sorted by, the most specific first.

    Segment by segment from the left, a name comes before ``*`` and that before ``#``.
    """
    return tuple({"*": 1, "#": 2}.get(segment, 0) for segment in pattern.split("."))


@lru_cache(maxsize=65_536)
def matches(pattern: str, topic: str) -> bool:
    """Whether a message on ``topic`` is for a subscription to ``pattern``."""
    return pattern == topic if not is_wild(pattern) else _compiled(pattern).fullmatch(topic) is not None


def shared_topic(one: str, other: str) -> str | None:
    """Return a topic that both patterns match, with "any" where both leave it open; None if there is none."""
    # A rest may be empty: what the other pattern has in its place stands in the topic.
    pairs = zip_longest(
        *([each for each in pattern.split(".") if each != "#"] for pattern in (one, other)), fillvalue="*"
    )
    names = [second if first == "*" else first for first, second in pairs]
    topic = ".".join("any" if each == "*" else each for each in names) or "any"
    # Where their names differ, or one of them ends before the other, one of the two does not match.
    return topic if matches(one, topic) and matches(other, topic) else None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(expression(pattern))


def _literal(segment: str) -> str:
    # Only what is special in every engine is escaped: re.escape also escapes what PostgreSQL then reads as a class.
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", segment)
