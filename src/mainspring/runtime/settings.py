"""The settings of a worker, and its default name."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field
from datetime import timedelta

from mainspring.model.retention import Retention


def owner_name() -> str:
    """Return a unique name for this worker: host, process and a random part."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker; the defaults are the documented ones."""

    app: str = "app"
    name: str = field(default_factory=owner_name)
    claim_time: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=25)
    idle_poll: timedelta = timedelta(seconds=5)
    concurrency: int | None = None
    """How many deliveries may wait or run in it at once, over all consumers; None: as many as its consumers take."""
    code: frozenset[str] = frozenset()
    """Every group of the app's code, served by this worker or not."""
    retention: Retention = field(default_factory=Retention)
    tended: bool = False
    """Whether another declares its groups and schedules, and has done so: its own housekeeping begins a round later."""
    deaths: int = 3
    """How many processes a message may kill before it is buried undecoded."""
