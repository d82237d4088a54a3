"""Logins, logouts and rejected requests, in the log and in the audit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mainspring.model.redaction import redacted

Note: TypeAlias = Callable[[str, str, str, str], Awaitable[object]]
"""Writes an audit entry: action, subject, name and detail."""

UNKNOWN = "unknown"
OTHERS = "other addresses"
_SUBJECT = "dashboard"
_FIRST, _LONGEST = 60.0, 3600.0
_ADDRESSES = 16
_HOUR, _LINES = 3600.0, 60
"""The maximum lines per hour about unknown senders, besides one that counts the rest."""
_PATIENCE = 3.0

_logger = logging.getLogger("mainspring.dashboard")


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> object:
        """Cancel the call."""
        ...


Later: TypeAlias = Callable[[float, Callable[[], None]], Timer]
_Key: TypeAlias = tuple[str, str, str]
"""The kind, the name and the address."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One rejected request."""

    action: str
    by: str
    subject: str
    why: str
    peer: str


@dataclass(slots=True)
class _Run:
    """Rejections of one kind by one sender."""

    last: Refused
    pause: float
    timer: Timer
    more: int = 0


@dataclass(slots=True)
class _Hour:
    """The lines about unknown senders since the first one, and the count of those not written."""

    began: float = 0.0
    lines: int = 0
    timer: Timer | None = None
    more: int = 0
    last: Refused | None = None


class AccessLog:
    """Logs every login, logout and rejection, and records it in the audit.

    Unknown senders cannot flood either: of one kind by one sender the first is written at once, and the next ones as a
    count at the end of a pause, which doubles from a minute to an hour while they continue. Beyond 16 addresses of
    unknown senders, the others share a line, and beyond 60 lines about unknown senders in an hour, the rest is one
    count at its end. No token is written.
    """

    def __init__(self, note: Note, later: Later | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._note = note
        self._later = later or _later
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs: dict[_Key, _Run] = {}
        self._hour = _Hour()
        self._writing: set[asyncio.Task[None]] = set()

    async def logged_in(self, name: str, peer: str) -> None:
        """Record a login. An unreachable database does not prevent the login."""
        _logger.info("log in: %s, from %s", name, peer)
        await self._record("log in", _SUBJECT, f"{name} (dashboard)", f"from {peer}")

    async def logged_out(self, name: str, peer: str) -> None:
        """Record a logout."""
        _logger.info("log out: %s, from %s", name, peer)
        await self._record("log out", _SUBJECT, f"{name} (dashboard)", f"from {peer}")

    def refused(self, what: Refused) -> None:
        """Record a rejection, or only count it if a similar one was written recently."""
        self._follow_loop()
        key = (what.action, what.by, what.peer)
        if key not in self._runs and sum(by == what.by for _, by, _ in self._runs) >= _ADDRESSES:
            key = (what.action, what.by, OTHERS)
        run = self._runs.get(key)
        if run is not None:
            run.last, run.more = what, run.more + 1
            return
        self._runs[key] = _Run(what, _FIRST, self._later(_FIRST, lambda: self._over(key)))
        self._write(what, f"{what.why}, from {key[2]}")

    async def aclose(self) -> None:
        """Write the pending counts."""
        self._follow_loop()
        self._write_counts()
        self._hour_over()
        if self._writing:
            await asyncio.wait(self._writing)

    def _follow_loop(self) -> None:
        """Start over on a new loop: pending calls of the previous one are dropped."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        self._loop = loop
        self._writing.clear()
        self._write_counts()
        if (old := self._hour.timer) is not None:
            old.cancel()
            left = self._hour.began + _HOUR - self._clock()
            if left > 0:
                self._hour.timer = self._later(left, self._hour_over)
            else:
                self._hour_over()

    def _write_counts(self) -> None:
        runs, self._runs = self._runs, {}
        for key, run in runs.items():
            run.timer.cancel()
            self._write_count(key, run)

    def _hour_over(self) -> None:
        hour, self._hour = self._hour, _Hour()
        if hour.timer is not None:
            hour.timer.cancel()
        if hour.last is not None:
            self._record_soon(hour.last, _counted(hour.more, _HOUR, OTHERS, hour.last))

    def _over(self, key: _Key) -> None:
        run = self._runs.pop(key)
        if run.more:
            self._write_count(key, run)
            run.more, run.pause = 0, min(run.pause * 2, _LONGEST)
            run.timer = self._later(run.pause, lambda: self._over(key))
            self._runs[key] = run

    def _write_count(self, key: _Key, run: _Run) -> None:
        if run.more:
            self._write(run.last, _counted(run.more, run.pause, key[2], run.last), run.more)

    def _write(self, what: Refused, detail: str, count: int = 1) -> None:
        hour = self._hour
        if what.by == UNKNOWN:
            if hour.timer is None:
                hour.began, hour.timer = self._clock(), self._later(_HOUR, self._hour_over)
            if hour.lines >= _LINES:
                hour.more, hour.last = hour.more + count, what
                return
            hour.lines += 1
        self._record_soon(what, detail)

    def _record_soon(self, what: Refused, detail: str) -> None:
        _logger.warning("%s: %s by %s: %s", what.action, what.subject, what.by, detail)
        task = asyncio.create_task(self._record(what.action, what.subject, what.by, detail))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _record(self, action: str, subject: str, by: str, detail: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._note(action, subject, by, detail)
        except Exception as error:  # noqa: BLE001 - it is logged; an unreachable database prevents no login
            why = redacted(str(error)) or type(error).__name__
            _logger.warning("%s was not recorded in the audit: %s", action, why)


def _counted(more: int, seconds: float, whence: str, last: Refused) -> str:
    times = "once more" if more == 1 else f"{more:,} more times"
    return f"{times} within {seconds / 60:.0f} min, from {whence}; last: {last.why}"


def _later(seconds: float, then: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, then)
