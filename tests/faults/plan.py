"""What a worker process is told, and what a message asks of its handler."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.model.schedule import Misfire, Overlap

TOPIC = "work"
GROUP = "work"

NEVER_LAPSES = 60.0
"""Seconds of a claim for runs in which none is to lapse, on however busy a machine."""

Act = Literal["nap", "hold", "hang", "block", "exit", "crash"]
Bug = Literal[
    "unfenced",
    "early",
    "follower",
    "leader",
    "unlocked",
    "apart",
    "uncounted",
    "piecemeal",
    "unconfirmed",
    "standing",
    "unlimited",
]


@dataclass(frozen=True, slots=True)
class Job:
    """A message of the fault tests: its number, and what its handler does.

    ``nap`` waits; ``hold`` waits until its process was frozen, and in a later attempt until the gate is open; ``hang``
    waits for ever in its first attempt, and for the gate later; ``block`` blocks the event loop; ``exit`` and ``crash``
    end the process.
    """

    n: int
    act: Act = "nap"
    seconds: float = 0.0
    again: float | None = None
    """How long a nap takes in a later attempt; None: as long as the first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule of the fault tests. Unless it says otherwise, whatever was missed is made up for."""

    name: str
    rhythm: str
    timezone: str = "UTC"
    misfire: Misfire = "all"
    misfire_after: float = 600.0
    catch_up: int = 1000
    start: float | None = None
    end: float | None = None
    """The seconds of the epoch between which it is due; None: always."""
    group: str = "occur"
    overlap: Overlap = "allow"
    nap: float | None = None
    """How many seconds its handler takes; None: as long as the plan says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a worker process is set up."""

    url: str
    schema: str
    folder: str
    app: str = "faults"
    group: str = GROUP
    """The group of its plain messages: it belongs to one app."""
    version: int = 0
    schedules: tuple[Entry, ...] = ()
    """What its code declares."""
    joins: bool = False
    """Whether it has the consumers of joins."""
    limits: bool = False
    """Whether it has the consumers with limits."""
    bank: bool = False
    """Whether it has the bank's consumers."""
    shards: int = 0
    """How many shards its fan-out has; 0: it has none."""
    nap: float = 0.0
    """Seconds the handler of an occurrence takes in its first attempt."""
    silent: float | None = None
    """Seconds of silence after which a process keeps its schedules no more; None: as many as the library has."""
    concurrency: int = 10
    claim_time: float = 2.0
    grace: float = 5.0
    idle_poll: float = 0.5
    timeout: float = 300.0
    retry: str = "messages"
    skew: float = 0.0
    """Seconds by which the process's wall clock is wrong."""
    tidying: float = 0.0
    """Seconds a handler takes to clean up when it is told to stop."""
    bug: Bug | None = None
    """A bug to seed, so that the checkers can prove their teeth."""
    file_limit: int | None = None
    """The most bytes a file of this process may have: a disk that is full."""

    @property
    def effects(self) -> Path:
        return Path(self.folder) / "effects"

    @property
    def gate(self) -> Path:
        """A file whose presence lets held handlers go on."""
        return Path(self.folder) / "gate"

    @property
    def frozen(self) -> Path:
        """A file whose presence says that a process was frozen."""
        return Path(self.folder) / "frozen"

    @property
    def hold(self) -> Path:
        """A file whose presence keeps occurrences that begin in their first attempt."""
        return Path(self.folder) / "hold"

    def written(self) -> str:
        return msgspec.json.encode(self).decode()


def read_plan(text: str) -> Plan:
    return msgspec.json.decode(text, type=Plan)
