"""The event bus: passes events to subscribers; an event without subscribers is never created."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import repr_of
from mainspring.telemetry.logs import log

_logger = logging.getLogger("mainspring.hooks")
_SHOWN = 100

Subscriber = Callable[[Any], Any]
"""Takes one event; plain or async. Its result is ignored, its errors are logged."""


class Bus:
    """Passes events to their subscribers, in the order they subscribed.

    A subscriber can neither fail nor delay the work it observes: a plain one is called at once and should be short,
    an async one runs in a task.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type, list[Subscriber]] = {}
        self._running: set[asyncio.Future[Any]] = set()

    def subscribe(self, kind: type, subscriber: Subscriber) -> None:
        """Call the subscriber with every event of this kind from now on."""
        self._subscribers.setdefault(kind, []).append(subscriber)

    def __bool__(self) -> bool:
        """Return whether there is any subscriber."""
        return bool(self._subscribers)

    def wants(self, kind: type) -> bool:
        """Return whether this kind has subscribers; if not, the event need not be created."""
        return kind in self._subscribers

    def emit(self, event: object) -> None:
        """Call the subscribers. Never waits, and raises nothing but Ctrl-C."""
        for subscriber in self._subscribers.get(type(event), ()):
            try:
                result = subscriber(event)
                if inspect.isawaitable(result):
                    task = asyncio.ensure_future(_awaited(result, subscriber, event))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
            except BaseException as error:  # the event has happened already, whatever its subscriber raises
                if is_interrupt(error):
                    raise
                _log_error(subscriber, event, error)

    async def settled(self) -> None:
        """Wait for the async subscribers that are still running."""
        while running := [task for task in self._running if task.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(running)


async def _awaited(result: Awaitable[object], subscriber: Subscriber, event: object) -> None:
    try:
        await result
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # SystemExit would end the loop that this runs on
        if is_interrupt(error):
            raise
        _log_error(subscriber, event, error)


def _log_error(subscriber: Subscriber, event: object, error: BaseException) -> None:
    name = getattr(subscriber, "__qualname__", None) or repr_of(subscriber, _SHOWN)
    log(_logger, logging.ERROR, "%s failed at %s", name, repr_of(event), error=error)
