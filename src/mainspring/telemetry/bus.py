"""The bus: whoever wants to know is told, and nobody pays for what nobody wants to know."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger("mainspring.hooks")

Subscriber = Callable[[Any], Any]
"""Takes one event; plain or async. What it returns is ignored, what it raises is logged."""


class Bus:
    """Hands events to their subscribers, in the order they subscribed.

    A subscriber can neither fail nor delay what it is told about: a plain one is called at once and should be short,
    an async one runs beside.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type, list[Subscriber]] = {}
        self._running: set[asyncio.Future[Any]] = set()

    def subscribe(self, kind: type, subscriber: Subscriber) -> None:
        """Tell the subscriber of every event of this kind from now on."""
        self._subscribers.setdefault(kind, []).append(subscriber)

    def __bool__(self) -> bool:
        """Whether anybody wants to know anything."""
        return bool(self._subscribers)

    def wants(self, kind: type) -> bool:
        """Whether anybody wants to know of this kind: the event need not be made otherwise."""
        return kind in self._subscribers

    def emit(self, event: object) -> None:
        """Tell whoever wants to know. Never raises, never waits."""
        for subscriber in self._subscribers.get(type(event), ()):
            try:
                answer = subscriber(event)
                if inspect.isawaitable(answer):
                    task = asyncio.ensure_future(answer)
                    self._running.add(task)
                    task.add_done_callback(self._done)
            except (Exception, asyncio.CancelledError):
                _logger.exception("%s failed at %r", _name(subscriber), event)

    async def settled(self) -> None:
        """Wait for the async subscribers that are still at it."""
        while running := [task for task in self._running if task.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(running)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _logger.error("a hook failed", exc_info=task.exception())


def _name(subscriber: Subscriber) -> str:
    return getattr(subscriber, "__qualname__", repr(subscriber))
