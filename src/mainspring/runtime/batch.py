"""A batch: several deliveries passed to one call of their handler, each judged separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainspring.model.errors import ClaimLost, Unreadable
from mainspring.model.text import described, plain
from mainspring.model.verdict import Bury, Cancel, Done, Retry, Snooze
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.own_context import is_stopped
from mainspring.runtime.verdicts import refuse_unawaited

_OUTCOMES = (Done, Snooze, Cancel, Retry, Bury)
_ACCEPTED = "None, Done(…), Snooze(…), Cancel(…), Retry(…), Bury(…) or an exception"
_MOST_SHOWN = 100

Answer = tuple[Run, object]
"""A message's run and what its handler returned for it: an outcome, or the exception it failed with."""


class BatchRolledBack(ClaimLost):
    """Raised when a lost claim rolled back the transaction of the whole batch: no message in it is at fault."""


class Batch(Run):
    """One call of a batch consumer: a run that contains ``runs``, each with its own claim, attempt and verdict.

    ``taken`` are the runs whose messages could be decoded, in the order in which the handler gets them; ``unread``
    holds the errors of the others. The call is asked to stop when all of its messages are.
    """

    __slots__ = ("runs", "taken", "unread")

    def __init__(self, runs: Sequence[Run], handler: Handler) -> None:
        super().__init__(runs[0].delivery, handler, held_until=float("inf"), owner=runs[0].owner)
        self.runs: Sequence[Run] = runs
        self.taken: Sequence[Run] = runs
        self.unread: dict[Run, Exception] = {}
        self.started: float | None = runs[0].started

    def read(self, decode: Callable[[bytes, str], Any]) -> list[Any]:
        """Decode the messages. One that cannot be decoded is left out, and fails no other (invariant 10)."""
        messages: list[Any] = []
        taken: list[Run] = []
        self.unread = {}
        for run in self.runs:
            try:
                messages.append(decode(run.delivery.payload, run.delivery.content_type))
            except Exception as error:  # noqa: BLE001 - a user's codec or upcaster may raise anything
                self.unread[run] = error
            except BaseException as error:  # a codec may panic, too
                if is_stopped(error):
                    raise
                self.unread[run] = Unreadable(f"the payload could not be read: {described(error)}")
            else:
                taken.append(run)
        self.taken = taken
        return messages

    def limit(self, deadline: float) -> None:
        """Set the deadline of the whole batch."""
        self.deadline: float | None = deadline
        for run in self.runs:
            run.deadline = deadline

    def lend(self, handle: object, since: float | None) -> None:
        """Record the transaction that the batch runs in, and since when it is open; None when it is closed."""
        super().lend(handle, since)
        for run in self.runs:
            # Only the first has the time: the warning about long transactions is logged once per batch.
            run.lend(handle, since if run is self.runs[0] else None)

    def report(self, progress: object) -> None:
        """Record the progress of the whole batch."""
        super().report(progress)
        for run in self.runs:
            run.progress = self.progress

    def ask_to_stop(self, reason: str) -> None:
        """Ask the handler to stop the whole batch."""
        super().ask_to_stop(reason)
        for run in self.runs:
            run.ask_to_stop(reason)

    def cancel(self) -> None:
        """Cancel the task that the batch runs in."""
        super().cancel()
        for run in self.runs:
            run.cancels = self.cancels

    def answered(self, result: object) -> list[Answer]:
        """Map the handler's result to each message; raises TypeError for an invalid result."""
        return [*self.unread.items(), *zip(self.taken, outcomes(result, len(self.taken)), strict=True)]

    def failed(self, error: BaseException) -> list[Answer]:
        """Map the handler's error to each message that it had."""
        return [(run, self.unread.get(run, error)) for run in self.runs]


def outcomes(result: object, count: int) -> Sequence[object]:
    """Return an outcome for each of ``count`` messages: the one returned for all, or those of a list."""
    if result is None or _is_outcome(result):
        return [result] * count
    if not isinstance(result, list | tuple):
        refuse_unawaited(result, "the handler of a batch")
        raise TypeError(
            f"the handler of a batch returned {_shown(result)}: return nothing when all is done, or a list with an "
            f"outcome per message: {_ACCEPTED}"
        )
    if len(result) != count:
        raise TypeError(
            f"the handler of a batch returned a list of {len(result)} for {count} messages: return an outcome for each "
            f"of them, in their order: {_ACCEPTED}"
        )
    for place, each in enumerate(result):
        if each is not None and not _is_outcome(each) and not isinstance(each, BaseException):
            refuse_unawaited(each, f"the handler of a batch, for message [{place}],")
            raise TypeError(f"the handler of a batch returned {_shown(each)} at [{place}]: an outcome is {_ACCEPTED}")
    return result


def _is_outcome(value: object) -> bool:
    # `return Cancel` is unambiguous; `return Snooze` lacks a delay, which is reported where the outcome is read.
    return isinstance(value, _OUTCOMES) or (isinstance(value, type) and value in _OUTCOMES)


def _shown(value: object) -> str:
    text = plain(value, repr)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
