"""The operator's desk for blocking callers: the same calls, answered when they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from mainspring.app.background import Work
from mainspring.app.bulk import Action, Progress
from mainspring.app.desk import Groups, GroupViews, Messages, Runs
from mainspring.app.envelope import MISSING, PriorityName
from mainspring.app.paging import Deliveries, Standing
from mainspring.app.picking import Picks
from mainspring.app.post import REASON
from mainspring.app.workforce import Workers, WorkerViews
from mainspring.model.browsing import Chain, Filter, Page
from mainspring.model.message import Cancelled, Priority, Receipt
from mainspring.model.views import MessageView
from mainspring.timing.duration import Duration

T = TypeVar("T")


class Running(Protocol):
    """What awaits for a blocking caller."""

    def __call__(self, work: Work[T], call: str, /) -> T:
        """Await the work and return its answer."""
        ...


class SyncMessages:
    """``app.sync.messages``: as ``app.messages``, without await."""

    def __init__(self, messages: Messages, run: Running) -> None:
        self._messages = messages
        self._run = run

    def list(
        self,
        state: Standing = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Deliveries, newest first; ``before`` is the ``seq`` of the last row of the page before."""
        return self._run(
            lambda: self._messages.list(state, group=group, topic=topic, key=key, before=before, limit=limit),
            "messages.list()",
        )

    def show(self, message_id: UUID | str) -> MessageView | None:
        """One message with its deliveries and kept runs; None when there is no such message."""
        return self._run(lambda: self._messages.show(message_id), "messages.show(…)")

    def search(
        self,
        state: Standing = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        text: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        held_by: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Page:
        """Deliveries that match, newest first; a page may be short. See ``Messages.search``."""
        return self._run(
            lambda: self._messages.search(
                state,
                group=group,
                topic=topic,
                key=key,
                text=text,
                error=error,
                fingerprint=fingerprint,
                since=since,
                until=until,
                held_by=held_by,
                before=before,
                limit=limit,
            ),
            "messages.search()",
        )

    def apply(
        self,
        action: Action,
        filter: Filter,
        *,
        by: str = "app",
        reason: str = REASON,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Do this to everything that a search would find, and return to how many. See ``Messages.apply``."""
        return self._run(
            lambda: self._messages.apply(action, filter, by=by, reason=reason, progress=progress, stop=stop),
            "messages.apply(…)",
        )

    def chain(self, message_id: UUID | str, *, limit: int = 50) -> Chain:
        """What a message came of, and what came of it; empty where it is unknown."""
        return self._run(lambda: self._messages.chain(message_id, limit=limit), "messages.chain(…)")

    def failures(self, *, limit: int = 50) -> Runs:
        """The latest kept runs that failed, for good or not, the last to end first."""
        return self._run(lambda: self._messages.failures(limit=limit), "messages.failures()")

    def runs(self, group: str | None = None, *, before: int | None = None, limit: int = 50) -> Runs:
        """The kept runs, newest first; ``before`` is the id of the last row of the page before."""
        return self._run(lambda: self._messages.runs(group, before=before, limit=limit), "messages.runs()")

    def cancel(self, message_id: UUID | str, *, reason: str = REASON) -> Cancelled:
        """Cancel every delivery of one message."""
        return self._run(lambda: self._messages.cancel(message_id, reason=reason), "messages.cancel(…)")

    def withdraw(self, picks: Picks, *, by: str = "app", reason: str = REASON) -> Cancelled:
        """Cancel these deliveries, each named by its message's id and its group. Audited with ``by``."""
        return self._run(lambda: self._messages.withdraw(picks, by=by, reason=reason), "messages.withdraw(…)")

    def hasten(self, picks: Picks, *, by: str = "app") -> int:
        """Let those of these deliveries that are scheduled be due now, and return how many. Audited with ``by``."""
        return self._run(lambda: self._messages.hasten(picks, by=by), "messages.hasten(…)")

    def issue(
        self,
        topic: str,
        payload: object = MISSING,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        priority: Priority | PriorityName | int | None = None,
        delay: Duration | None = None,
        group: str | None = None,
        copy_of: UUID | str | None = None,
        by: str = "app",
    ) -> Receipt:
        """Publish by hand, to all who subscribe or to one group. See ``Messages.issue``."""
        return self._run(
            lambda: self._messages.issue(
                topic,
                payload,
                key=key,
                headers=headers,
                priority=priority,
                delay=delay,
                group=group,
                copy_of=copy_of,
                by=by,
            ),
            "messages.issue(…)",
        )


class SyncGroups:
    """``app.sync.groups``: as ``app.groups``, without await."""

    def __init__(self, groups: Groups, run: Running) -> None:
        self._groups = groups
        self._run = run

    def list(self) -> GroupViews:
        """Every declared group of this namespace, whichever app declared it."""
        return self._run(self._groups.list, "groups.list()")

    def pause(self, group: str, *, by: str = "app", reason: str = "") -> None:
        """Stop handing out its deliveries, until someone resumes it: restarts and deploys do not."""
        self._run(lambda: self._groups.pause(group, by=by, reason=reason), "groups.pause(…)")

    def resume(self, group: str, *, by: str = "app") -> None:
        """Hand out its deliveries again."""
        self._run(lambda: self._groups.resume(group, by=by), "groups.resume(…)")

    def retire(self, group: str, *, by: str = "app", progress: Progress | None = None) -> int:
        """Remove the group with its undone deliveries, and return how many those were; its dead letters stay."""
        return self._run(lambda: self._groups.retire(group, by=by, progress=progress), "groups.retire(…)")


class SyncWorkers:
    """``app.sync.workers``: as ``app.workers``, without await."""

    def __init__(self, workers: Workers, run: Running) -> None:
        self._workers = workers
        self._run = run

    def list(self) -> WorkerViews:
        """Every worker of this namespace as it last reported itself, whichever app it serves."""
        return self._run(self._workers.list, "workers.list()")

    def drain(self, name: str, *, by: str = "app", reason: str = "") -> None:
        """Have a worker finish what it has and claim no more. See ``Workers.drain``."""
        self._run(lambda: self._workers.drain(name, by=by, reason=reason), "workers.drain(…)")

    def resume(self, name: str, *, by: str = "app") -> None:
        """Let a worker claim again."""
        self._run(lambda: self._workers.resume(name, by=by), "workers.resume(…)")
