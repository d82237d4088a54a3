"""What a handler's transaction is to settle: the verdict on its message, or on each message of its batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta

from mainspring.app.storages import Rooms
from mainspring.model.errors import ClaimLost
from mainspring.model.interrupts import is_interrupt
from mainspring.model.verdict import Settlement, Verdict
from mainspring.runtime import judgement
from mainspring.runtime.batch import Batch, Undone
from mainspring.runtime.executor import STOP_LOST, STOP_TIMEOUT
from mainspring.runtime.handler import Run
from mainspring.storage.script import Script

_NEVER_COMMITTED = (STOP_LOST, STOP_TIMEOUT)
"""Why a run that was told to stop, and returned all the same, is undone. One that was only asked to may finish."""


def parts(run: Run) -> Sequence[Run]:
    """The runs that are settled by themselves: those of a batch, or this one."""
    return run.runs if isinstance(run, Batch) else (run,)


def settlements(run: Run, result: object) -> dict[Run, Settlement]:
    """The verdicts to be committed with it; raises where there must be no commit."""
    took = timedelta(seconds=time.monotonic() - (run.started or 0.0))
    if not isinstance(run, Batch):
        if run.stop_reason in _NEVER_COMMITTED:
            raise ClaimLost(f"the transaction of message {run.delivery.message_id} is undone: {run.stop_reason}")
        return {run: run.handler.settlement(run.delivery, judgement.of_result(result), took)}
    for each in run.runs:
        if each.stop_reason in _NEVER_COMMITTED:
            # What was written for this one cannot be told from what was written for its neighbours.
            raise Undone(f"message {each.delivery.message_id}: {each.stop_reason}, so its batch is undone")
    return {
        each: each.handler.settlement(each.delivery, _verdict(each, answer, took), took)
        for each, answer in run.answered(result)
    }


def pinning(rooms: Rooms, run: Run) -> Script[None]:
    """``pin`` for each of them, in the order in which rows are locked."""
    for claim in sorted(each.delivery.claim for each in parts(run)):
        yield from rooms.mailbox.pin.script(claim, run.owner)


def concluding(rooms: Rooms, settled: Iterable[Settlement], owner: str) -> Script[bool]:
    """``conclude`` for all of them: False where one claim is no longer ours."""
    return rooms.mailbox.conclude.script(sorted(settled, key=lambda each: each.claim), owner)


def _verdict(run: Run, answer: object, took: timedelta) -> Verdict:
    """The verdict on one message of a batch. What fails is settled with the rest: returning commits, raising undoes."""
    if isinstance(answer, asyncio.CancelledError):
        answer = judgement.uncalled_for(answer)
    if not isinstance(answer, BaseException):
        try:
            return judgement.of_result(answer)
        except BaseException as error:  # an outcome that cannot be read fails its own message only
            if is_interrupt(error):
                raise
            answer = error
    return judgement.of_error(answer, run.delivery, run.handler.retry, took)
