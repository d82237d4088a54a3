"""What may follow a message, as callers write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict
from uuid import UUID

from mainspring.app.envelope import PublishOptions

Addressed = Callable[..., Any] | tuple[Any, Any]
"""A registered consumer, function or class; or one with the payload that it is sent."""


class SendOptions(PublishOptions, total=False):
    """What ``send`` accepts: the options of ``publish``, and what follows when the message has ended."""

    then: Addressed | None
    """The consumer that follows when this one is done: itself, or with its payload, ``(consumer, payload)``."""
    failed: Addressed | None
    """The one that follows when this one was buried, cancelled or expired instead."""


class JoinOptions(TypedDict, total=False):
    """What ``join`` accepts beside its members; None is the same as leaving an option out."""

    then: Addressed | None
    """The consumer that follows when all members are done: itself, or with its payload, ``(consumer, payload)``."""
    failed: Addressed | None
    """The one that follows when all have ended and some are not done: buried, cancelled or expired."""
    key: str | None
    """What all of it is about: the key of the members and of what follows."""
    correlation_id: str | UUID | None
    """What all of it belongs to [the id of the join]."""
    tx: Any
    """The caller's own transaction: the join exists if and when that commits."""
