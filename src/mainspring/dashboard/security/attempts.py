"""How often somebody may try to log in."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_CLIENTS = 1024


@dataclass(slots=True)
class _Bucket:
    left: float
    seen: float


class Attempts:
    """Counts failed attempts, of each client and of all together: some at once, then one at a time.

    What it remembers is bounded, and of a client that is forgotten the attempts still count for all together.
    """

    def __init__(
        self,
        *,
        each: int = 5,
        every: float = 12.0,
        together: int = 50,
        all_every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._each, self._every = each, every
        self._together, self._all_every = together, all_every
        self._clock = clock
        self._clients: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(together, clock())

    def wait(self, client: str, *, alone: bool = False) -> float:
        """Seconds until this client may try; 0: now. ``alone``: whatever the others do."""
        now = self._clock()
        own = self._clients.get(client)
        waits = [0.0 if alone else _wait(self._all, self._together, self._all_every, now)]
        if own is not None:
            waits.append(_wait(own, self._each, self._every, now))
        return max(waits)

    def failed(self, client: str) -> None:
        """Count an attempt that was wrong."""
        now = self._clock()
        own = self._clients.pop(client, None) or _Bucket(self._each, now)
        _wait(own, self._each, self._every, now)
        own.left -= 1
        self._clients[client] = own
        while len(self._clients) > _CLIENTS:
            self._clients.popitem(last=False)
        _wait(self._all, self._together, self._all_every, now)
        self._all.left -= 1


def _wait(bucket: _Bucket, most: int, every: float, now: float) -> float:
    bucket.left = min(float(most), bucket.left + (now - bucket.seen) / every)
    bucket.seen = now
    return 0.0 if bucket.left >= 1 else (1 - bucket.left) * every
