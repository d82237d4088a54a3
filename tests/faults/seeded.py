"""Bugs put in on purpose, in a worker process: checkers that do not report them have no teeth."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from mainspring.model.message import Claim, Settled
from mainspring.model.verdict import Settlement
from mainspring.runtime.settler import Settler
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
    write = Settler._write_first

    async def unfenced(settler: Settler, count: int) -> None:
        settler._mailbox = _Unfenced(settler._mailbox, plan)
        await write(settler, count)

    Settler._write_first = unfenced  # type: ignore[method-assign]


class _Unfenced:
    def __init__(self, mailbox: Any, plan: Plan) -> None:
        self._mailbox = mailbox._mailbox if isinstance(mailbox, _Unfenced) else mailbox
        self._tables = tables_of(plan.url, plan.schema)

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        epochs = self._tables.epochs()
        moved = [
            settlement._replace(claim=Claim(settlement.claim.id, epochs.get(settlement.claim.id, settlement.claim.epoch)))
            for settlement in settlements
        ]
        settled: Settled = await self._mailbox.settle(moved)
        return settled
