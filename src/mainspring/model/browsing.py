"""What is asked of the ledger and what it answers: filters, pages, causes of death, chains of messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from mainspring.model.views import DeliveryView, State

SCAN = 20_000
"""How many rows a page looks at where nobody says otherwise: a small part of a second, whatever is asked for."""

CAUSES_SCAN = 50_000
"""How many rows are looked at to tell causes of death and count them, where nobody says otherwise."""

GOES_ON = "goes on"
"""What a line of the audit says of something that has not ended, or whose end nobody could tell."""

WEIGHT = 8 * 1024 * 1024
"""How many bytes of payloads are searched for one page where nobody says otherwise."""

Sought = State | Literal["live", "retrying"]
"""What can be asked for: what a delivery is, or more than one of that."""
ALIVE: tuple[Sought, ...] = ("live", "scheduled", "ready", "running", "lapsed", "retrying")

Picked = tuple[tuple[UUID, str], ...]
"""Deliveries by name: message and group. The group of what is parked is empty."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which deliveries to list. Every field given must match.

    ``live`` is scheduled, ready, running and lapsed together. ``retrying`` are those of them that have failed and wait
    for their next attempt, due or not: scheduled or ready by themselves.

    Newest first; ``before`` is where the page before ended. ``done`` and ``cancelled`` are answered from the kept
    runs, whose ids stand in for ``seq`` there.
    """

    state: Sought = "live"
    group: str | None = None
    topic: str | None = None
    key: str | None = None
    error: str | None = None
    """Text that the error must contain; only what is dead, done or cancelled has one."""
    before: int | None = None
    limit: int = 50
    text: str | None = None
    """Text that the payload must contain. Bytes are compared, those of ASCII letters in either case."""
    since: datetime | None = None
    """Published then or later."""
    until: datetime | None = None
    """Published before then."""
    held_by: str | None = None
    """The worker that has it; only what is running or lapsed has one."""
    fingerprint: str | None = None
    """The cause of death; only what is dead has one."""
    scan: int = SCAN
    """At most so many rows are looked at for one page."""
    weight: int = WEIGHT
    """Of payloads at most so many bytes are searched for one page, or a single one that is larger."""

    @property
    def is_impossible(self) -> bool:
        """Whether nothing in this state can match, so that nobody needs to look."""
        alive = self.state in ALIVE
        return bool(
            (self.held_by is not None and self.state not in ("live", "running", "lapsed"))
            or (self.fingerprint is not None and self.state != "dead")
            or (self.error and (alive or self.state == "parked"))
            or (self.group and self.state == "parked")
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the deliveries that a filter means, newest first.

    No page looks at more rows than its filter's ``scan``. So it may be short, or even empty, and yet not the last one:
    that is the one whose ``before`` is None.
    """

    rows: tuple[DeliveryView, ...] = ()
    before: int | None = None
    """Where the next page begins; None: all has been looked at."""
    scanned: int = 0
    """How many rows were looked at."""


@dataclass(frozen=True, slots=True)
class DeadSelection:
    """Which dead letters an operator means; every field given must match, none given means all."""

    message_id: UUID | None = None
    group: str | None = None
    topic: str | None = None
    error: str | None = None
    """Text that the error must contain."""
    fingerprint: str | None = None
    """The cause of death."""
    picked: Picked | None = None
    """These and no others."""

    @property
    def described(self) -> str:
        """In words, for the audit."""
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
    """A line of the audit that tells of something done batch by batch, and is brought up to date with each of them."""

    id: int
    words: str
    """What has become of each."""
    done: int = 0
    """How many there are so far."""

    def after(self, batch: int) -> Line:
        """The same line when so many more are done."""
        return replace(self, done=self.done + batch)

    @property
    def told(self) -> str:
        """What it says while it goes on. Who is killed says no more: it stays at what was committed last."""
        return f"{self.done} {self.words}; {GOES_ON}"


By = str | Line
"""Whose doing it is: the line in the audit is a new one of theirs, or one that is there and is brought up to date."""


def spelled(picked: Picked) -> str:
    """Deliveries that were picked, in words, for the audit."""
    if len(picked) != 1:
        return f"{len(picked)} picked"
    ((message_id, group),) = picked
    return f"message {message_id}, group {group}" if group else f"message {message_id}"


@dataclass(frozen=True, slots=True)
class CauseView:
    """Dead letters of one group that died of the same."""

    group: str
    fingerprint: str
    """Empty for those that were buried before causes were told apart."""
    kind: str
    error: str
    """That of the newest of them."""
    count: int
    """From the newest on, as far as they were counted."""
    first_at: datetime
    """When the first of those counted was buried."""
    last_at: datetime
    """When the last of them was."""
    more: bool = False
    """Whether the counting stopped there, so that there may be more of them."""


@dataclass(frozen=True, slots=True)
class Causes:
    """What dead letters died of, the most frequent first."""

    rows: tuple[CauseView, ...] = ()
    more: bool = False
    """Whether there are other causes, less frequent or not looked at."""


@dataclass(frozen=True, slots=True)
class Link:
    """A message in a chain of them."""

    id: UUID
    topic: str
    key: str | None
    causation_id: UUID | None
    published_at: datetime
    state: State | None
    """The state that most needs looking at, of all its deliveries; None: nothing is left of them."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What a message came of, and what came of it."""

    causes: tuple[Link, ...] = ()
    """Oldest first, up to the one that caused it."""
    caused: tuple[Link, ...] = ()
    """Nearest first."""
    more: bool = False
    """Whether there is more than was asked for."""


def stands(*, is_held: bool, is_due: bool) -> State:
    """Where a delivery that has not ended stands. Held, it is due when its claim lapses."""
    if is_held:
        return "lapsed" if is_due else "running"
    return "ready" if is_due else "scheduled"
