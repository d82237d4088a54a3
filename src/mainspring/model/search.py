"""Queries of the ledger and their results: filters, pages, causes of death, chains of messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from mainspring.model.views import DeliveryView, Kind, State

SCAN = 20_000
"""The default number of rows scanned for a page: a small part of a second, for any filter."""

CAUSES_SCAN = 50_000
"""The default number of rows scanned to group and count causes of death."""

UNFINISHED = "goes on"
"""The audit's text for an action that has not ended, or whose end is unknown."""

WEIGHT = 8 * 1024 * 1024
"""The default number of payload bytes searched for one page."""

SearchState = State | Literal["live", "retrying"]
"""A state to search for, or a set of several."""
ALIVE: tuple[SearchState, ...] = ("live", "scheduled", "ready", "running", "lapsed", "retrying")

Picked = tuple[tuple[UUID, str], ...]
"""Deliveries by message and group. The group of a parked message is empty."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A search for deliveries. All given fields must match.

    ``live`` is scheduled, ready, running and lapsed together. ``retrying`` are those that have failed and wait for
    their next attempt, due or not: they are also scheduled or ready.

    Newest first; ``before`` is where the previous page ended. ``cancelled`` is read from the kept runs, whose ids
    replace ``seq`` there; ``done`` from the batches of what was handled, then from the kept runs that are in none.
    """

    state: SearchState = "live"
    group: str | None = None
    topic: str | None = None
    key: str | None = None
    error: str | None = None
    """Text that the error must contain; only dead, done and cancelled deliveries have one."""
    before: int | None = None
    limit: int = 50
    text: str | None = None
    """Text that the payload must contain. Bytes are compared, ASCII letters in either case."""
    since: datetime | None = None
    """Published at this time or later."""
    until: datetime | None = None
    """Published before this time."""
    held_by: str | None = None
    """The worker that holds it; only running and lapsed deliveries have one."""
    fingerprint: str | None = None
    """The cause of death; only dead letters have one."""
    scan: int = SCAN
    """The maximum of rows scanned for one page."""
    weight: int = WEIGHT
    """The maximum of payload bytes searched for one page, or a single payload that is larger."""
    correlation_id: str | None = None
    """The operation it belongs to. The message whose id that is belongs to it as well, if it has no other."""
    kind: Kind | None = None
    """Immediate, delayed or recurring."""
    previews: bool = False
    """Whether the beginnings of payloads are read, too."""

    @property
    def root(self) -> UUID | None:
        """The message that its correlation id is the id of; None if that is no id."""
        try:
            return None if self.correlation_id is None else UUID(self.correlation_id)
        except ValueError:
            return None

    @property
    def is_impossible(self) -> bool:
        """Whether nothing in this state can match, so that no query is needed."""
        alive = self.state in ALIVE
        return bool(
            (self.held_by is not None and self.state not in ("live", "running", "lapsed"))
            or (self.fingerprint is not None and self.state != "dead")
            or (self.error and (alive or self.state == "parked"))
            or (self.group and self.state == "parked")
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """Some of the deliveries that a filter matches, newest first.

    At most the filter's ``scan`` rows are scanned. So it may be short, or even empty, without being the last one: the
    last one has ``before`` None.
    """

    rows: tuple[DeliveryView, ...] = ()
    before: int | None = None
    """Where the next scan begins; None if everything was scanned."""
    scanned: int = 0
    """How many rows were scanned."""


@dataclass(frozen=True, slots=True)
class DeadSelection:
    """Dead letters selected by an operator; all given fields must match, none given means all."""

    message_id: UUID | None = None
    group: str | None = None
    topic: str | None = None
    error: str | None = None
    """Text that the error must contain."""
    fingerprint: str | None = None
    """The cause of death."""
    picked: Picked | None = None
    """Only these."""

    @property
    def described(self) -> str:
        """Describe it for the audit."""
        named = (
            ("message", self.message_id),
            ("group", self.group),
            ("topic", self.topic),
            ("error", self.error),
            ("cause", self.fingerprint),
        )
        words = [f"{name} {value}" for name, value in named if value is not None]
        if self.picked is not None:
            words.append(spelled(self.picked))
        return ", ".join(words) or "all dead letters"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the audit about an action in batches, updated with each of them."""

    id: int
    words: str
    """What was done to each, as in "revived"."""
    done: int = 0
    """How many are done so far."""

    def after(self, batch: int) -> Line:
        """Return the same line with so many more done."""
        return replace(self, done=self.done + batch)

    @property
    def detail(self) -> str:
        """Return its text while the action runs. If the process is killed, it stays at what was committed last."""
        return f"{self.done} {self.words}; {UNFINISHED}"


By = str | Line
"""The actor of a new line in the audit, or an existing line to be updated."""


def spelled(picked: Picked) -> str:
    """Describe picked deliveries for the audit."""
    if len(picked) != 1:
        return f"{len(picked)} picked"
    ((message_id, group),) = picked
    return f"message {message_id}, group {group}" if group else f"message {message_id}"


@dataclass(frozen=True, slots=True)
class CauseView:
    """Dead letters of one group with the same cause."""

    group: str
    fingerprint: str
    """Empty for those that were buried before fingerprints existed."""
    kind: str
    error: str
    """The error of the newest of them."""
    count: int
    """From the newest on, as far as they were counted."""
    first_at: datetime
    """When the first of those counted was buried."""
    last_at: datetime
    """When the last of them was buried."""
    more: bool = False
    """Whether counting stopped at its limit, so that there may be more."""


@dataclass(frozen=True, slots=True)
class Causes:
    """Causes of dead letters, the most frequent first."""

    rows: tuple[CauseView, ...] = ()
    more: bool = False
    """Whether there are other causes, less frequent or not scanned."""


@dataclass(frozen=True, slots=True)
class Link:
    """A message in a chain of them."""

    id: UUID
    topic: str
    key: str | None
    causation_id: UUID | None
    published_at: datetime
    state: State | None
    """The most urgent state of all its deliveries; None if none is left."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The messages that caused a message, and those it caused."""

    causes: tuple[Link, ...] = ()
    """Oldest first, up to its direct cause."""
    caused: tuple[Link, ...] = ()
    """Nearest first."""
    more: bool = False
    """Whether there are more than the limit."""
