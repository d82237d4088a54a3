"""Declares a worker's groups, again and again."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.standing import SILENT_AFTER, Declarer, Standing
from mainspring.model.views import Declaration
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.service import Service
from mainspring.storage.contract import Upkeep
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.worker")
_ROUND = 5.0


class Subscribing(Service):
    """Declares the groups of a worker when it starts, and every few seconds after (invariant 26).

    That keeps other workers from removing its subscriptions. Missing ones are restored and logged, and those that no
    worker declares any more are removed. A group that an operator has retired stays retired.
    """

    def __init__(
        self, upkeep: Upkeep, declarations: Sequence[Declaration], by: Declarer, log: RateLimitedLog, clock: Clock
    ) -> None:
        super().__init__("subscribing", log, clock)
        self.retired: tuple[str, ...] = ()
        """The groups that were retired although this worker has a consumer for them."""
        self._upkeep = upkeep
        self._declarations = declarations
        self._by = by
        self._missed: dict[str, tuple[tuple[str, ...], float]] = {}

    async def declare(self) -> None:
        """Declare the groups. Raises Conflict if one belongs to another app."""
        _log_removed(await self._upkeep.declare(self._declarations, self._by))

    async def turn(self) -> float:
        """Declare them again."""
        by = Declarer(self._by.worker, self._by.start_id, again=True)
        standing = await self._upkeep.declare(self._declarations, by)
        missing: dict[str, tuple[str, ...]] = {}
        for group, pattern in standing.added:
            missing[group] = (*missing.get(group, ()), pattern)
        for group, patterns in missing.items():
            self._missed[group] = patterns, self._clock.monotonic()
            _logger.warning(
                "%s: its subscription to %s was missing and is restored; messages published in between did not reach "
                "the group: make sure that every worker of the app runs this release of Mainspring",
                group,
                ", ".join(patterns),
            )
        _log_removed(standing)
        for group in sorted(set(standing.retired) - set(self.retired)):
            _logger.warning(
                "%s was retired although this worker has a consumer for it, and receives no more messages: remove "
                "the consumer, or restart the worker to declare the group",
                group,
            )
        self.retired = standing.retired
        return _ROUND * random.uniform(0.8, 1.0)

    def missed(self) -> dict[str, tuple[tuple[str, ...], timedelta]]:
        """Return the subscriptions that were missing recently, by group, and how long ago they were restored."""
        now = self._clock.monotonic()
        ages = {group: (patterns, timedelta(seconds=now - at)) for group, (patterns, at) in self._missed.items()}
        return {group: each for group, each in ages.items() if each[1] < SILENT_AFTER}


def _log_removed(standing: Standing) -> None:
    for group, pattern in standing.removed:
        _logger.info("%s: no worker declares its subscription to %s any more, so it is removed", group, pattern)
