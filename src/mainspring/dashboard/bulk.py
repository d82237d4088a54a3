"""Bulk actions: one action on everything that a search finds, in the background of the server, with progress."""

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
"""Does the work. Its arguments report how many are done, and return whether to stop."""

MOST_RUNNING = 4
KEPT = 50
"""How many are remembered, including running ones."""


@dataclass(slots=True, eq=False)
class Bulk:
    """One bulk action."""

    id: UUID
    action: Action
    filter: Any
    """The search, as requested."""
    by: str
    started_at: datetime
    total: int | None = None
    """The total, if known."""
    state: BulkState = "running"
    done: int = 0
    ended_at: datetime | None = None
    error: str | None = None
    stopping: bool = False
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class Bulks:
    """The bulk actions of this process. Only the latest are remembered, and all end with the server."""

    def __init__(self) -> None:
        self._bulks: dict[UUID, Bulk] = {}

    def __iter__(self) -> Any:
        """Iterate, newest first."""
        return iter(sorted(self._bulks.values(), key=lambda each: each.started_at, reverse=True))

    def get(self, id: UUID) -> Bulk:
        """Return the one of this id. Raises Problem if it is unknown here."""
        found = self._bulks.get(id)
        if found is None:
            raise Problem(404, "not_found", "no such bulk action here: another process runs it, or it has ended")
        return found

    def start(self, action: Action, filter: Any, by: str, work: Work, total: int | None = None) -> Bulk:
        """Start it in the background. Raises Problem if too many are running."""
        if sum(each.state == "running" for each in self._bulks.values()) >= MOST_RUNNING:
            raise Problem(409, "busy", f"{MOST_RUNNING} bulk actions are running: wait for one, or stop one")
        bulk = Bulk(uuid4(), action, filter, by, datetime.now(UTC), total)
        self._bulks[bulk.id] = bulk
        self._forget()
        bulk.task = asyncio.create_task(_run(bulk, work), name=f"mainspring-dashboard-{action}")
        return bulk

    def stop(self, id: UUID) -> Bulk:
        """Stop it after its current batch. Completed batches stay."""
        bulk = self.get(id)
        bulk.stopping = bulk.state == "running"
        return bulk

    async def aclose(self) -> None:
        """Stop all of them, and wait until they have ended."""
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
    except Exception as error:  # noqa: BLE001 - any error is shown with the action
        bulk.state, bulk.error = "failed", problem_of(error).message
    finally:
        bulk.ended_at = datetime.now(UTC)
