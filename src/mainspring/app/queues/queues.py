"""Makes queues: what is behind ``app.queue`` and ``app.sync.queue``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainspring.app.catalogue import Catalogue
from mainspring.app.config import Options
from mainspring.app.consumers import Consumers
from mainspring.app.door import Door
from mainspring.app.queues.custody import Custody
from mainspring.app.queues.room import Room
from mainspring.app.queues.terms import QueueOptions, Terms
from mainspring.app.transactions import Transactions
from mainspring.model.errors import Conflict
from mainspring.telemetry.measures import Meters
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker


class Queues:
    """Makes the queues behind one door."""

    def __init__(
        self,
        door: Door,
        transactions: Transactions,
        consumers: Consumers,
        catalogue: Catalogue,
        options: Options,
        clock: Clock,
        workers: Sequence[Worker],
        meters: Meters,
    ) -> None:
        self._meters = meters
        self._door = door
        self._transactions = transactions
        self._consumers = consumers
        self._catalogue = catalogue
        self._options = options
        self._clock = clock
        self._workers = workers

    def make(self, group: str, topics: tuple[Any, ...], type: Any, options: QueueOptions) -> Custody[Any]:
        """What is behind ``app.queue(group, *topics, …)``; raises what is wrong with it."""
        terms = Terms(group, topics, self._catalogue, self._options, type, options)
        owner = next((each for each in self._consumers if each.group == terms.group), None)
        if owner is not None:
            raise Conflict(
                f"group {terms.group!r} belongs to the consumer {owner.name}: give the queue another name, since each "
                "of the two would get half of its messages"
            )
        self._consumers.reserved.take(terms)
        if terms.pending_limit is not None:
            self._consumers.backlogs.note(terms.group, terms.topics, terms.pending_limit)
        return Custody(terms, self._room)

    @functools.cached_property
    def _room(self) -> Room:
        options = self._options
        return Room(
            self._door,
            self._transactions,
            self._consumers.reserved,
            options.name,
            options.idle_poll,
            self._clock,
            self._workers,
            self._meters.hire(),
        )
