"""Bulk actions: what is done to everything that a search finds, while the server runs, with progress to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID, uuid4

from mainspring.dashboard.answers import Problem, problem_of

Action = Literal["revive", "discard", "cancel", "run_now"]
BulkState = Literal["running", "done", "stopped", "failed"]
Work: TypeAlias = Callable[[Callable[[int], object], Callable[[], bool]], Awaitable[int]]
"""Does it all. It is given whom to tell how many are done, and whom to ask whether it is to stop."""

MOST_RUNNING = 4
KEPT = 50
"""How many are remembered, those that run included."""


@dataclass(slots=True, eq=False)
class Bulk:
    """One bulk action."""

    id: UUID
    action: Action
    filter: Any
    """The search, as it was asked."""
    by: str
    started_at: datetime
    total: int | None = None
    """How many there were to do, where that was known."""
    state: BulkState = "running"
    done: int = 0
    ended_at: datetime | None = None
    error: str | None = None
    stopping: bool = False
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class Bulks:
    """The bulk actions of this process. Only the last ones are remembered, and all end with the server."""

    def __init__(self) -> None:
        self._bulks: dict[UUID, Bulk] = {}

    def __iter__(self) -> Any:
        """Newest first."""
        return iter(sorted(self._bulks.values(), key=lambda each: each.started_at, reverse=True))

    def get(self, id: UUID) -> Bulk:
        """The one of this id. Raises Problem where it is not known here."""
        found = self._bulks.get(id)
        if found is None:
            raise Problem(404, "not_found", "there is no such bulk action here: another process has it, or it is over")
        return found

    def start(self, action: Action, filter: Any, by: str, work: Work, total: int | None = None) -> Bulk:
        """Begin, and go on while the server runs. Raises Problem while too many go on already."""
        if sum(each.state == "running" for each in self._bulks.values()) >= MOST_RUNNING:
            raise Problem(409, "busy", f"{MOST_RUNNING} bulk actions go on already: wait for one, or stop one")
        bulk = Bulk(uuid4(), action, filter, by, datetime.now(UTC), total)
        self._bulks[bulk.id] = bulk
        self._forget()
        bulk.task = asyncio.create_task(_run(bulk, work), name=f"mainspring-dashboard-{action}")
        return bulk

    def stop(self, id: UUID) -> Bulk:
        """Let it end after the batch it is at. What it has done stays done."""
        bulk = self.get(id)
        bulk.stopping = bulk.state == "running"
        return bulk

    async def aclose(self) -> None:
        """Stop all of them, and wait until they have."""
        running = [each.task for each in self._bulks.values() if each.task is not None and not each.task.done()]
        for each in self._bulks.values():
            each.stopping = True
        if running:
            await asyncio.wait(running)

    def _forget(self) -> None:
        over = [each for each in self._bulks.values() if each.state != "running"]
        for each in over[: max(len(self._bulks) - KEPT, 0)]:
            del self._bulks[each.id]


async def _run(bulk: Bulk, work: Work) -> None:
    def told(done: int) -> None:
        bulk.done = done

    try:
        bulk.done = await work(told, lambda: bulk.stopping)
        bulk.state = "stopped" if bulk.stopping else "done"
    except Exception as error:  # noqa: BLE001 - whatever stopped it is told to who looks
        bulk.state, bulk.error = "failed", problem_of(error).message
    finally:
        bulk.ended_at = datetime.now(UTC)
