"""Message ids: UUIDv7, made by the publisher, so that a publish can be repeated without harm."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_RANDOM = (1 << 62) - 1
_LOW = (1 << 12) - 1


class Identities:
    """Makes ids that only ever grow within a process (RFC 9562, UUIDv7, method 3).

    The twelve bits after the milliseconds are a finer fraction of time; where two ids would share it, or the
    clock was set back, the next one counts on from the last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def make(self) -> UUID:
        """A fresh id, greater than every one made here before."""
        # Nanoseconds to 1/4096 of a millisecond: the clock's own fraction fills the counter's place.
        milliseconds, rest = divmod(time.time_ns(), 1_000_000)
        tick = milliseconds << 12 | rest * 4096 // 1_000_000
        with self._lock:
            self._last = tick = max(tick, self._last + 1)
        noise = int.from_bytes(os.urandom(8), "big") & _RANDOM
        return UUID(int=(tick >> 12) << 80 | _VERSION | (tick & _LOW) << 64 | _VARIANT | noise)
