"""Bugs put in on purpose, in a worker process: checkers that do not report them have no teeth."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

from mainspring.model.message import Claim, Settled
from mainspring.model.verdict import Settlement
from mainspring.runtime.settler import Settler
from mainspring.storage.contract import Mailbox
from tests.faults.plan import Plan
from tests.faults.tables import tables_of

_LATER = 0.5
_tasks: set[asyncio.Task[None]] = set()


def later(effect: Coroutine[Any, Any, None]) -> None:
    """Acknowledge before the effect: the handler returns, and what it should have done comes after."""

    async def run() -> None:
        await asyncio.sleep(_LATER)
        await effect

    task = asyncio.create_task(run())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def remove_the_fence(plan: Plan) -> None:
    """Settle under whatever epoch the row has now, as a statement without `AND epoch = …` would."""
    build = Settler.__init__

    def unfenced(settler: Settler, mailbox: Any, *others: Any) -> None:
        build(settler, cast("Mailbox", _Unfenced(mailbox, plan)), *others)

    Settler.__init__ = unfenced  # type: ignore[method-assign, assignment]


class _Unfenced:
    def __init__(self, mailbox: Mailbox, plan: Plan) -> None:
        self._mailbox = mailbox
        self._tables = tables_of(plan.url, plan.schema)

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        epochs = self._tables.epochs()
        return await self._mailbox.settle([_moved(settlement, epochs) for settlement in settlements])


def _moved(settlement: Settlement, epochs: dict[int, int]) -> Settlement:
    id, epoch = settlement.claim
    return settlement._replace(claim=Claim(id, epochs.get(id, epoch)))
