"""Message ids: UUIDv7, made by the publisher, so that a publish can be repeated without harm."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from uuid import UUID, SafeUUID

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_LOW = (1 << 12) - 1


class Identities:
    """Makes ids that only ever grow within a process (RFC 9562, UUIDv7, method 3).

    The twelve bits after the milliseconds are a finer fraction of time; where two ids would share it, or the
    clock was set back, the next one counts on from the last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._pid = 0
        self._random = random.Random()
        _all.add(self)

    def make(self) -> UUID:
        """A fresh id, greater than every one made here before."""
        # In 1/4096 of a millisecond: shifted right by twelve it is milliseconds, and the rest is the fraction.
        tick = time.time_ns() * 4096 // 1_000_000
        with self._lock:
            self._last = tick = max(tick, self._last + 1)
            if self._pid != os.getpid():
                # A forked child must not go on with its parent's noise.
                self._pid, self._random = os.getpid(), random.Random()
            noise = self._random.getrandbits(62)
        return _uuid((tick >> 12) << 80 | _VERSION | (tick & _LOW) << 64 | _VARIANT | noise)

    def forget(self) -> None:
        """After a fork: whoever held the lock stayed with the parent."""
        self._lock = threading.Lock()


def _uuid(number: int) -> UUID:
    # What UUID(int=number) does without its checks, which cost as much as all the rest.
    made = object.__new__(UUID)
    object.__setattr__(made, "int", number)
    object.__setattr__(made, "is_safe", SafeUUID.unknown)
    return made


_all: weakref.WeakSet[Identities] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
