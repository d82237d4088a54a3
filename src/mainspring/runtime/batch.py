"""A batch: several deliveries that one call of their handler is given, each judged by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainspring.model.errors import ClaimLost, Unreadable
from mainspring.model.verdict import Cancel, Done, Snooze
from mainspring.model.wording import described, plain
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.judgement import refuse_unawaited
from mainspring.runtime.own_context import is_stopped

_OUTCOMES = (Done, Snooze, Cancel)
_ACCEPTED = "None, Done(…), Snooze(…), Cancel(…) or an exception"
_MOST_SHOWN = 100

Answer = tuple[Run, object]
"""What a handler has said of one of its messages: its outcome, or the exception by which it failed."""


class Undone(ClaimLost):
    """A claim was lost, and with it the transaction of its whole batch: the fault of no message in it."""


class Batch(Run):
    """One call of a batch consumer: a run of ``runs``, each with its own claim, attempt and verdict.

    ``taken`` are those whose messages could be read, in the order in which the handler has them, and ``unread`` says
    why the others could not. The call as a whole is told to stop when all of them are.
    """

    __slots__ = ("runs", "taken", "unread")

    def __init__(self, runs: Sequence[Run], handler: Handler) -> None:
        super().__init__(runs[0].delivery, handler, held_until=float("inf"), owner=runs[0].owner)
        self.runs: Sequence[Run] = runs
        self.taken: Sequence[Run] = runs
        self.unread: dict[Run, Exception] = {}
        self.started: float | None = runs[0].started

    def read(self, decode: Callable[[bytes, str], Any]) -> list[Any]:
        """The messages. One that cannot be read is left out, and fails no other (invariant 10)."""
        messages: list[Any] = []
        taken: list[Run] = []
        self.unread = {}
        for run in self.runs:
            try:
                messages.append(decode(run.delivery.payload, run.delivery.content_type))
            except Exception as error:  # noqa: BLE001 - a codec or an upcaster of the user's may raise anything
                self.unread[run] = error
            except BaseException as error:  # a panic of a codec too
                if is_stopped(error):
                    raise
                self.unread[run] = Unreadable(f"the payload could not be read: {described(error)}")
            else:
                taken.append(run)
        self.taken = taken
        return messages

    def limit(self, deadline: float) -> None:
        """All of it has to end by then."""
        self.deadline: float | None = deadline
        for run in self.runs:
            run.deadline = deadline

    def lend(self, handle: object, since: float | None) -> None:
        """All of it is in this transaction, open since then; None: that is closed."""
        super().lend(handle, since)
        for run in self.runs:
            # Known of one of them only: whoever warns of long transactions need not do so for every message in it.
            run.lend(handle, since if run is self.runs[0] else None)

    def report(self, progress: object) -> None:
        """Say how far all of it is."""
        super().report(progress)
        for run in self.runs:
            run.progress = self.progress

    def ask_to_stop(self, reason: str) -> None:
        """Tell the handler to stop with all of it."""
        super().ask_to_stop(reason)
        for run in self.runs:
            run.ask_to_stop(reason)

    def cancel(self) -> None:
        """Cancel the task that all of it runs in."""
        super().cancel()
        for run in self.runs:
            run.cancels = self.cancels

    def answered(self, result: object) -> list[Answer]:
        """What the handler's result says of each message; raises TypeError for one that says nothing clear."""
        return [*self.unread.items(), *zip(self.taken, outcomes(result, len(self.taken)), strict=True)]

    def failed(self, error: BaseException) -> list[Answer]:
        """The handler failed, and so did each message that it had."""
        return [(run, self.unread.get(run, error)) for run in self.runs]


def outcomes(result: object, count: int) -> Sequence[object]:
    """An outcome for each of ``count`` messages: the one that was returned for all, or those in a list."""
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
    # `return Cancel` can only mean one thing, and what `return Snooze` lacks is said where it is read.
    return isinstance(value, _OUTCOMES) or (isinstance(value, type) and value in _OUTCOMES)


def _shown(value: object) -> str:
    text = plain(value, repr)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
