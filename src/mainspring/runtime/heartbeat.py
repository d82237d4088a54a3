"""The beats by which a worker reports itself, and the operators' orders in the replies."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable

from mainspring.model.views import Beat, Orders
from mainspring.model.worker import Declarer, seat
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.fetchers import Fetchers
from mainspring.runtime.settings import WorkerSettings
from mainspring.storage.contract import Doorbell
from mainspring.telemetry.measures import Meter

_logger = logging.getLogger("mainspring.worker")


class Heartbeat:
    """Creates the numbered beats of one start of a worker, and stores whether it drains.

    Another start under the same name begins undrained; a worker that only missed beats stays drained.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        start_id: str,
        groups: Iterable[str],
        in_hand: ClaimsInHand,
        doorbell: Doorbell,
        meter: Meter,
        pauses: Callable[[], Iterable[str]],
        fetchers: Fetchers,
    ) -> None:
        self.draining: bool = False
        """Whether an operator has asked this worker to stop claiming."""
        self._settings = settings
        self._groups = tuple(groups)
        self._in_hand = in_hand
        self._doorbell = doorbell
        self._meter = meter
        self._pauses = pauses
        self._fetchers = fetchers
        self._start_id = start_id
        self._number = 0

    @property
    def declarer(self) -> Declarer:
        """The identity under which this start of the worker declares."""
        return Declarer(seat(self._settings.app, self._settings.name), self._start_id)

    def beat(self) -> Beat:
        """Create a beat with the current state and the new counts of the meter."""
        self._number += 1
        runs, measures = self._meter.take()
        return Beat(
            seat(self._settings.app, self._settings.name),
            self._settings.app,
            socket.gethostname(),
            os.getpid(),
            self._groups,
            len(self._in_hand),
            self._doorbell.mode,
            runs,
            tuple(self._pauses()),
            measures,
            self._start_id,
            self._number,
            self.draining,
        )

    def obey(self, orders: Orders) -> bool:
        """Carry out the operators' orders. Returns True if something changed, which the next beat has to report."""
        if orders.drain == self.draining:
            return False
        self.draining = orders.drain
        self._fetchers.drain(drains=orders.drain)
        if orders.drain:
            _logger.warning(
                "draining: an operator asked this worker to stop claiming; it finishes %d in hand", len(self._in_hand)
            )
        else:
            _logger.info("resumed: an operator asked this worker to claim again")
        return True
