"""The operator's desk for blocking callers: the same calls, answered when they return."""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar
from uuid import UUID

from mainspring.app.background import Work
from mainspring.app.desk import DeadLetters, Deliveries, Groups, GroupViews, Messages, Progress, Runs
from mainspring.app.envelope import MISSING
from mainspring.app.post import REASON
from mainspring.model.message import Cancelled
from mainspring.model.views import MessageView, State

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
        state: State | Literal["live"] = "live",
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

    def runs(self, group: str | None = None, *, before: int | None = None, limit: int = 50) -> Runs:
        """The kept runs, newest first; ``before`` is the id of the last row of the page before."""
        return self._run(lambda: self._messages.runs(group, before=before, limit=limit), "messages.runs()")

    def cancel(self, message_id: UUID | str, *, reason: str = REASON) -> Cancelled:
        """Cancel every delivery of one message."""
        return self._run(lambda: self._messages.cancel(message_id, reason=reason), "messages.cancel(…)")


class SyncDeadLetters:
    """``app.sync.dead``: as ``app.dead``, without await."""

    def __init__(self, dead: DeadLetters, run: Running) -> None:
        self._dead = dead
        self._run = run

    def list(
        self,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Dead letters, newest first; ``error`` is text that the error must contain."""
        return self._run(
            lambda: self._dead.list(group=group, topic=topic, error=error, before=before, limit=limit), "dead.list()"
        )

    def show(self, message_id: UUID | str) -> MessageView | None:
        """The message with every error that was recorded; None when it has no dead letter."""
        return self._run(lambda: self._dead.show(message_id), "dead.show(…)")

    def revive(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        everything: bool = False,
        payload: object = MISSING,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Give the dead letters meant a fresh life, and return how many. ``payload`` replaces that of one of them."""
        return self._run(
            lambda: self._dead.revive(
                message_id,
                group=group,
                topic=topic,
                error=error,
                everything=everything,
                payload=payload,
                by=by,
                progress=progress,
            ),
            "dead.revive(…)",
        )

    def discard(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        everything: bool = False,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Remove the dead letters meant for good, and return how many."""
        return self._run(
            lambda: self._dead.discard(
                message_id, group=group, topic=topic, error=error, everything=everything, by=by, progress=progress
            ),
            "dead.discard(…)",
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
