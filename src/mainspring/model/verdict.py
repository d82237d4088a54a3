"""Verdicts: the outcomes of deliveries. A handler's result is one of them, or becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from mainspring.model.message import Claim, Keep

FailureKind = Literal["error", "timeout", "unreadable", "poison", "rejected"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed, as text that is safe to store."""

    kind: FailureKind
    error: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The handler succeeded; ``output`` is kept with its history."""

    output: str | None = None


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """The handler failed; deliver again after ``delay``. A handler may write ``Retry("5m", "the bank is closed")``."""

    delay: timedelta
    failure: Failure

    def __init__(self, delay: timedelta | str | None = None, failure: Failure | str = "it returned Retry") -> None:
        """Take a delay as text from a handler, or None for that of the retry policy: judging it replaces both."""
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "failure", failure if isinstance(failure, Failure) else Failure("error", failure))


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now: deliver again after ``delay``, without counting an attempt. A handler may write ``Snooze("5m")``."""

    delay: timedelta | str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """No failure: release the delivery at once, without counting an attempt."""

    delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True, init=False)
class Bury:
    """Give up: keep the delivery as a dead letter. A handler may write ``Bury("there is no such order")``."""

    failure: Failure

    def __init__(self, failure: Failure | str = "it returned Bury") -> None:
        """Take the failure, or its error as text."""
        object.__setattr__(self, "failure", failure if isinstance(failure, Failure) else Failure("error", failure))


@dataclass(frozen=True, slots=True)
class Cancel:
    """It is not needed any more; the reason is kept."""

    reason: str | None = None


Verdict = Done | Retry | Snooze | Release | Bury | Cancel

DONE = Done()
"""The plain success, built once."""


class Settlement(NamedTuple):
    """A verdict on a claim, ready to be written."""

    claim: Claim
    verdict: Verdict
    keep: Keep = "failures"
    took: timedelta = timedelta()
    """How long the run took, by the worker's monotonic clock."""
    member: bool = False
    """Whether the delivery may be a member of a join: if omitted, its end is not counted."""
    replaces: bool = False
    """Whether its dead letter replaces those of earlier occurrences of its schedule in its group, with its payload."""
