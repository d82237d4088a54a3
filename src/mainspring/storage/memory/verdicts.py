"""What each verdict writes on a delivery that is held under its claim."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from mainspring.model.fingerprint import fingerprint
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Settlement, Snooze
from mainspring.storage.memory.rows import DeadRow, DeliveryRow
from mainspring.storage.memory.state import State

_ASKED = "cancelled while running"


def write(state: State, row: DeliveryRow, settlement: Settlement, now: datetime) -> bool:
    """Write one verdict on a delivery that is held under its claim. True: this delivery has ended."""
    verdict, keep, took = settlement.verdict, settlement.keep, settlement.took
    assert settlement.member or row.join_id is None, "who settles a member has to say so"
    match verdict:
        case Done(output):
            _succeed(state, row, settlement, output, now)
            return True
        case Cancel(reason):
            state.record(row, "cancelled", now, took=took, error=reason)
            state.end(row)
            return True
        case Bury(failure):
            state.record(
                row,
                "dead",
                now,
                took=took,
                kind=failure.kind,
                error=failure.error,
                traceback=failure.traceback,
            )
            state.end(row)
            state.bury(DeadRow(row, failure.kind, failure.error, now, fingerprint(failure.kind, failure.error)))
            return False
        case Retry(delay, failure):
            # Whatever is to be kept: should it end as a dead letter, it has every error.
            state.record(
                row,
                "failed",
                now,
                took=took,
                kind=failure.kind,
                error=failure.error,
                traceback=failure.traceback,
            )
            return _hand_back(state, row, now, delay, took)
        case Snooze(delay, reason):
            assert isinstance(delay, timedelta), "the executor reads text before it settles"
            if keep == "all" and not row.cancel_asked:
                state.record(row, "snoozed", now, took=took, output=reason)
            return _hand_back(state, row, now, delay, took, forgive=True)
        case Release(delay):
            return _hand_back(state, row, now, delay, took, forgive=True)
        case _:
            assert_never(verdict)


def _succeed(state: State, row: DeliveryRow, settlement: Settlement, output: str | None, now: datetime) -> None:
    if settlement.keep == "all":
        state.record(row, "done", now, took=settlement.took, output=output)
    elif settlement.keep == "none" and row.attempt > 1:
        for run in list(state.history.get(row.message_id, ())):
            if run.group == row.group and run.status in ("failed", "snoozed"):
                state.forget_run(run)
    state.end(row, done=True)


def _hand_back(
    state: State, row: DeliveryRow, now: datetime, delay: timedelta, took: timedelta, *, forgive: bool = False
) -> bool:
    """Let go of a delivery so that it is claimed again, unless somebody asked for its end."""
    if row.cancel_asked:
        state.record(row, "cancelled", now, took=took, error=_ASKED)
        state.end(row)
        return True
    state.move(row, now + delay, None)
    row.suspect = False
    if forgive:
        # epoch never goes back: it is the fence (invariant 2). Only the attempt count forgives.
        row.attempt = max(row.attempt - 1, 0)
    return False
