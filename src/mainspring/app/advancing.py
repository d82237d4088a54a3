"""What advances the cursor of a slice when its handler has succeeded."""

from __future__ import annotations

from mainspring.app.context import Context
from mainspring.app.door import Door
from mainspring.app.middleware.chain import Middleware, Next
from mainspring.app.transactions import Transactions
from mainspring.model.fanout import slice_of
from mainspring.model.message import Delivery
from mainspring.model.verdict import Done
from mainspring.runtime import judgement
from mainspring.runtime.executor import STOP_LOST, STOP_TIMEOUT
from mainspring.storage.script import Script

_FAILED = (STOP_LOST, STOP_TIMEOUT)
"""Why a run that was told to stop, and returned all the same, has not succeeded."""


class Advancing(Middleware):
    """Advances cursors: in the handler's transaction where there is one, else in a statement before the settle.

    Where that statement fails the attempt has failed. What is done twice is done once: a cursor only goes on.
    """

    def __init__(self, door: Door, transactions: Transactions) -> None:
        self._door = door
        self._transactions = transactions

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        result = await call_next()
        run = ctx._run  # noqa: SLF001 - no handler needs to know whether it is settled already
        if run.settled is not None or run.stop_reason in _FAILED or not isinstance(judgement.of_result(result), Done):
            return result
        if (which := slice_of(run.delivery)) is not None:
            storage = await self._door.storage("a slice of a fan-out")
            await storage.fanouts.advance(*which)
        return result

    def script(self, delivery: Delivery) -> Script[bool]:
        """The same in the transaction of the handler, which is about to be settled."""
        which = slice_of(delivery)
        if which is None:
            return False
        return (yield from self._transactions.rooms.fanouts.advance.script(*which))
