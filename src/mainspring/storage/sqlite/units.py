"""Scripts on their way through a thread, and the callers who wait for them on their loops."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

from mainspring.storage.script import Script
from mainspring.storage.sqlite.connections import primary

_RUINOUS = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN})

Explain = Callable[[BaseException], BaseException]
"""Turns a driver's error into the one that callers see."""


class Unit:
    """A whole script, to be run at once, and the future of its caller."""

    __slots__ = ("answer", "error", "future", "loop", "script", "tells")

    def __init__(self, script: Script[Any], loop: asyncio.AbstractEventLoop, *, tells: bool) -> None:
        self.script: Script[Any] = script
        self.loop: asyncio.AbstractEventLoop = loop
        self.tells: bool = tells
        """Whether it may have brought something to do."""
        self.future: asyncio.Future[Any] = loop.create_future()
        self.answer: Any = None
        self.error: BaseException | None = None


Units = SimpleQueue[Unit | None]
"""Units in order of arrival; None is the end."""


def answer(units: Iterable[Unit], explain: Explain) -> None:
    """Let every caller know, from any thread: one wake-up per loop, however many of its callers wait."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Unit]] = {}
    for unit in units:
        if unit.error is not None:
            unit.error = explain(unit.error)
        by_loop.setdefault(unit.loop, []).append(unit)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, answered)
        except RuntimeError:  # the loop is closed: nobody is left to be answered
            continue


def ruined(connection: sqlite3.Connection, units: Iterable[Unit]) -> bool:
    """Whether the connection had better be opened anew after these units."""
    return connection.in_transaction or any(
        unit.error is not None and primary(unit.error) in _RUINOUS for unit in units
    )


def _resolve(units: list[Unit]) -> None:
    for unit in units:
        if unit.future.done():  # the caller was cancelled; its unit was not
            continue
        if unit.error is None:
            unit.future.set_result(unit.answer)
        else:
            unit.future.set_exception(unit.error)
