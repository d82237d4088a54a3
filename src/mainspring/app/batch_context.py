"""What the handler of a batch may know about it: the context of each message, and what concerns all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mainspring.app.context import Context, Publishing
from mainspring.app.envelope import MISSING
from mainspring.runtime.batch import Batch
from mainspring.timing.duration import Duration


class BatchContext:
    """One call of a batch consumer, as its handler sees it. Made only for handlers that ask for it."""

    __slots__ = ("_app", "_batch", "_contexts", "_messages", "_whole")

    def __init__(self, app: Publishing, _: object, run: Batch, messages: Any = MISSING) -> None:
        self._app = app
        self._batch = run
        self._messages = messages
        self._contexts: Sequence[Context] | None = None
        self._whole = Context(app, run.delivery, run)

    def __repr__(self) -> str:
        """For people: how many messages, whose copies."""
        return f"<BatchContext of {len(self._batch.taken)} messages for {self.group}>"

    @property
    def contexts(self) -> Sequence[Context]:
        """The context of each message, in the order of the list: its id, attempt, key, headers, its own ``publish``."""
        if self._messages is MISSING:  # around the call: nothing is read yet, or is not for us
            return [Context(self._app, run.delivery, run) for run in self._batch.taken]
        if self._contexts is None:
            self._contexts = [
                Context(self._app, run.delivery, run, message)
                for run, message in zip(self._batch.taken, self._messages, strict=True)
            ]
        return self._contexts

    @property
    def unread(self) -> Sequence[tuple[Context, Exception]]:
        """The messages that are not in the list because they cannot be read, each with why; known once it is made."""
        return [(Context(self._app, run.delivery, run), why) for run, why in self._batch.unread.items()]

    @property
    def group(self) -> str:
        """The group whose copies these are."""
        return self._whole.group

    @property
    def tx(self) -> Any:
        """The transaction of a transactional consumer, one for all messages: see ``Context.tx``."""
        return self._whole.tx

    @property
    def remaining(self) -> timedelta | None:
        """What is left until the time limit of the batch, zero once it has passed; None without one."""
        return self._whole.remaining

    @property
    def deadline(self) -> datetime | None:
        """When the time limit of the batch ends by this host's clock; None without one."""
        return self._whole.deadline

    @property
    def cancelled(self) -> bool:
        """Whether all of it should stop: out of time, shutting down, or every message cancelled or lost."""
        return self._whole.cancelled

    def wait_cancelled(self, timeout: Duration | None = None) -> bool:
        """Sleep in a plain function until all of it should stop, at most ``timeout``. True: stop."""
        return self._whole.wait_cancelled(timeout)

    def progress(self, text: object) -> None:
        """Say of every message in it how far it is: see ``Context.progress``."""
        self._whole.progress(text)
