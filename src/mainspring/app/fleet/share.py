"""The share of a worker: which databases of a fleet are its own, beside the other workers that divide them."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from mainspring.app.code import Code
from mainspring.app.fleet.databases import Chosen
from mainspring.app.fleet.member import Member
from mainspring.app.lease.lease import Lease
from mainspring.model.errors import MainspringError
from mainspring.model.text import described

_logger = logging.getLogger("mainspring.fleet")
_CALL = "fleet.worker(share=True)"
_TTL = timedelta(seconds=15)
"""After this time the share of a worker that died is divided."""
_ROUND = 3.0
"""Seconds between two reads of which shares are held."""
_DEADLINE = 10.0
"""Seconds that a read may take."""
_RELEASED_WITHIN = 2.0
"""Seconds for which a worker that stops tries to give its share up; it expires otherwise."""
_PAGE = 100
_SHOWN = 100
"""How many characters of the name of an app are shown in the name of a lease."""


class Share:
    """The share of one worker: it holds one of the numbered leases of the fleet's home, as each worker of its kind.

    A database belongs to the held number that has the highest hash of both, so that a change moves only the databases
    of the numbers that came or went. It is only about division: where two serve a database, claims keep them apart. So
    a worker that cannot use the home, and one whose lease was lost, keeps what it has until it has another number: what
    all of them give up would be served by none. For the same reason one that has never reached the home serves all
    after the time in which another worker's share would have expired.
    """

    def __init__(self, code: Code, home: Callable[[str], Member], chosen: Chosen, served: Sequence[str]) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Called when the share has changed."""
        self._home = home
        self._prefix = _prefix(code.options.name, chosen, served)
        self._lease: Lease | None = None
        self._number: int | None = None
        self._held: frozenset[int] = frozenset()
        self._is_all = False
        self._failures = 0
        self._begun = time.monotonic()
        self._task = asyncio.create_task(self._keep(), name="mainspring-fleet-share")

    def has(self, database: str) -> bool:
        """Return whether this database belongs to it."""
        if self._number is None:
            return self._is_all
        return self._number == max(self._held, key=lambda number: _score(number, database))

    async def end(self) -> None:
        """Give it up: the other workers divide it at their next round."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._lease is not None:
            try:
                async with asyncio.timeout(_RELEASED_WITHIN):
                    await self._lease.release()
            except (MainspringError, OSError, TimeoutError) as error:
                _logger.warning("the share of this worker is divided when it expires: %s", described(error))

    async def _keep(self) -> None:
        while True:
            before = self._number, self._held, self._is_all
            try:
                async with asyncio.timeout(_DEADLINE):
                    await self._read()
            except Exception as error:  # noqa: BLE001 - it is tried again, and the worker keeps what it has
                self._failed(error)
            else:
                self._recovered()
            if before != (self._number, self._held, self._is_all):
                _logger.debug("share %s, of %d", self._number, len(self._held))
                self.on_change()
            await asyncio.sleep(_ROUND * random.uniform(0.8, 1.0))

    async def _read(self) -> None:
        """Read which numbers are held, and acquire the lowest free one if this worker has none."""
        home = self._home(_CALL)
        epochs = await self._epochs(home)
        if self._lease is None or self._lease.lost or epochs.get(self._number or 0) != self._lease.epoch:
            for number in itertools.count(1):
                if number not in epochs and (lease := await self._acquired(home, number)) is not None:
                    self._lease, self._number, self._held = lease, number, frozenset({*epochs, number})
                    break
            epochs = await self._epochs(home)  # others may have begun at the same time
        self._held = frozenset(epochs) | self._held & {self._number}

    async def _epochs(self, home: Member) -> dict[int, int]:
        """Return the epoch of each number that is held, in one query."""
        leases = (await home.connection.storage(_CALL)).leases
        epochs: dict[int, int] = {}
        after = self._prefix
        while True:
            page = [each for each in await leases.browse(after, _PAGE) if each.name.startswith(self._prefix)]
            epochs |= {int(each.name.removeprefix(self._prefix)): each.epoch for each in page if each.state == "held"}
            if len(page) < _PAGE:
                return epochs
            after = page[-1].name

    async def _acquired(self, home: Member, number: int) -> Lease | None:
        return await home.app.leases.acquire(f"{self._prefix}{number}", _TTL)

    def _failed(self, error: Exception) -> None:
        if not self._failures:
            what = "keeps its share" if self._number is not None else "has none yet"
            why = f"no answer within {_DEADLINE:g} s" if isinstance(error, TimeoutError) else described(error)
            _logger.warning("the home of the fleet cannot be used, and this worker %s: %s", what, why)
        self._failures += 1
        if self._number is None and time.monotonic() - self._begun >= _TTL.total_seconds():
            self._is_all = True

    def _recovered(self) -> None:
        if self._failures:
            _logger.info("the home of the fleet can be used again")
        self._failures = 0


def _prefix(app: str, chosen: Chosen, served: Sequence[str]) -> str:
    """Return the beginning of the names of the leases of workers that divide the same databases for the same groups.

    Releases with other groups divide on their own, so that during a deploy both serve all databases.
    """
    databases = chosen if chosen is None or isinstance(chosen, str) else sorted(chosen)
    digest = hashlib.blake2b(json.dumps([app, databases, sorted(served)]).encode(), digest_size=4).hexdigest()
    return f"mainspring.fleet:{app.replace('/', '-')[:_SHOWN]}:{digest}:"


def _score(number: int, database: str) -> bytes:
    return hashlib.blake2b(f"{number}:{database}".encode(), digest_size=8).digest()
