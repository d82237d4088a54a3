"""Consumers written as classes: made anew for every message, their constructors injected."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar, Unpack, get_args, get_origin

from mainspring.app.following import SendOptions
from mainspring.model.errors import Misuse
from mainspring.model.message import Receipt

T = TypeVar("T")


class Sender(Protocol):
    """What sends straight to a registered class."""

    @property
    def sync(self) -> SyncSender:
        """The same for callers who block."""
        ...

    async def send(self, payload: object, **options: Unpack[SendOptions]) -> Receipt:
        """Publish to this consumer only."""
        ...


class SyncSender(Protocol):
    """What sends straight to a registered class, for callers who block."""

    def send(self, payload: object, **options: Unpack[SendOptions]) -> Receipt:
        """Publish to this consumer only."""
        ...


class Consumer(Generic[T]):
    """The parent of consumers that are classes, of messages of type ``T``.

    A subclass has a method ``consume``, plain or async, which takes what a handler function may take. Without a
    payload among its parameters, ``ctx.message`` is the message. An instance is made for every message; what its
    constructor asks for is injected.
    """

    mainspring: ClassVar[Sender | None] = None
    """Set by ``@app.consumer(…)`` above the class."""

    @classmethod
    async def send(cls, payload: T, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message straight to this consumer; options as ``app.publish``."""
        return await sender_of(cls).send(payload, **options)

    @classmethod
    def send_blocking(cls, payload: T, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message straight to this consumer, and wait until it is stored; options as ``app.sync.publish``."""
        return sender_of(cls).sync.send(payload, **options)


def sender_of(kind: type[Consumer[Any]]) -> Sender:
    """What sends to the class; raises Misuse when nobody registered it."""
    sender = kind.__dict__.get("mainspring")
    if sender is None:
        raise Misuse(f"{kind.__qualname__} is not registered: put @app.consumer(…) above it")
    found: Sender = sender
    return found


def message_of(kind: type) -> Any:
    """The ``T`` of ``Consumer[T]``, None where the class leaves it open."""
    found = _message_of(kind)
    return None if isinstance(found, TypeVar) else found


def _message_of(kind: type) -> Any:
    for parent in getattr(kind, "__orig_bases__", ()):
        origin, given = get_origin(parent), get_args(parent)
        if origin is Consumer:
            return given[0]
        if isinstance(origin, type) and issubclass(origin, Consumer):
            inner = _message_of(origin)
            open_ones: tuple[Any, ...] = getattr(origin, "__parameters__", ())
            return given[open_ones.index(inner)] if inner in open_ones else inner
    return next((found for parent in kind.__bases__ if (found := _message_of(parent)) is not None), None)
