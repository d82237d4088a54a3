"""Middleware that advances the cursor of a slice after its success."""

from __future__ import annotations

from mainspring.app.connection import Connection
from mainspring.app.consume.context import Context
from mainspring.app.consume.middleware import Middleware, Next
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.fanout import slice_of
from mainspring.model.message import Delivery
from mainspring.model.verdict import Done
from mainspring.runtime import verdicts
from mainspring.runtime.executor import STOP_LOST, STOP_TIMEOUT
from mainspring.storage.script import Script

_FAILED = (STOP_LOST, STOP_TIMEOUT)
"""Stop reasons of a run that has failed even if it returned."""


class CursorAdvance(Middleware):
    """The advance of cursors: in the handler's transaction if any, else in a statement before the settle.

    If that statement fails, so does the attempt. A repeat is harmless: a cursor only moves forward.
    """

    def __init__(self, connection: Connection, transactions: Transactions) -> None:
        self._connection = connection
        self._transactions = transactions

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        result = await call_next()
        run = ctx._run  # noqa: SLF001 - no handler needs to know whether it is settled already
        if run.settled is not None or run.stop_reason in _FAILED or not isinstance(verdicts.of_result(result), Done):
            return result
        if (which := slice_of(run.delivery)) is not None:
            storage = await self._connection.storage("a slice of a fan-out")
            await storage.fanouts.advance(*which)
        return result

    def script(self, delivery: Delivery) -> Script[bool]:
        """Advance it in the handler's transaction, which is about to be settled."""
        which = slice_of(delivery)
        if which is None:
            return False
        return (yield from self._transactions.operations.fanouts.advance.script(*which))
