"""What a worker sees of its handlers' transactions: those held for long, and what they have settled."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import timedelta

import pytest

from mainspring.model.message import Delivery
from mainspring.model.verdict import DONE
from mainspring.runtime.handler import Run
from tests.runtime.stage import Stage


async def test_a_transaction_that_is_held_for_long_is_named_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if "held its transaction" in each.getMessage()]

    async def slow(_: Delivery, run: Run) -> None:
        run.tx_since = time.monotonic() - 6
        await stage.until(lambda: bool(said()))
        run.tx_since = None

    await stage.publish()
    async with stage.worker(stage.handler(slow)):
        await stage.until(stage.empty)

    (words,) = said()
    assert re.fullmatch(
        r"work: message \S+ has held its transaction open for \d+ s: do slow work before it, or without one", words
    )


async def test_what_a_handlers_transaction_has_settled_is_not_lost(stage: Stage) -> None:
    """The keeper finds no such claim any more, and what still stands around the handler must not be stopped for it."""
    reasons: list[str | None] = []

    async def settled(delivery: Delivery, run: Run) -> None:
        run.settled = run.handler.settlement(delivery, DONE, timedelta())
        await stage.storage.mailbox.settle([run.settled], run.owner)
        worker._lost(delivery.claim)  # as the keeper says
        await asyncio.sleep(0)
        reasons.append(run.stop_reason)

    await stage.publish()
    async with stage.worker(stage.handler(settled)) as worker:
        await stage.until(lambda: bool(reasons))

    assert reasons == [None]
