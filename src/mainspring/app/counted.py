"""Counting what is published, when it is handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from mainspring.model.message import Draft

Count = Callable[[Iterable[Draft]], None]
"""Is told of messages that were stored."""


class Counts(Protocol):
    """What tells of the messages that it stores."""

    published: Count


def uncounted(_drafts: Iterable[Draft]) -> None:
    """Counts nothing."""
