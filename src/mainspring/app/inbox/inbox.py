"""``app.inbox``: external messages, each processed once however often it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from mainspring.app.blocking import Face, blocking, in_loop
from mainspring.app.connection import Connection, ReturnOnCancel
from mainspring.app.inbox.admission import Asked, Callers, InboxPlace, Said, Unsaid, read_error
from mainspring.app.page import Instant, Name, Page, Paging, listing
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import MainspringError
from mainspring.model.inbox import Admission, InboxFilter, InboxStatus, InboxView
from mainspring.storage.script import Script
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Mismatched
from mainspring.timing.duration import Duration

_logger = logging.getLogger("mainspring.inbox")

_UNHEARD = "the caller was cancelled during admit"

Error = str | BaseException
# Defined here: inside the class ``list`` is a method.
Views = Page[InboxView]

_PAGES: Paging[InboxView, InboxPlace] = Paging(
    "app.inbox.list()",
    lambda each: (each.changed_at, each.group, each.source, each.message_id),
    tuple[Instant, Name, Name, Name],
)


class Inbox:
    """External messages received, by receiving group [the app's name], source and the sender's id.

    With ``tx`` a call enlists in that transaction: it takes effect on commit.
    """

    def __init__(self, connection: Connection, transactions: Transactions, app: str, bus: Bus) -> None:
        self._callers = Callers(app)
        self._connection = connection
        self._transactions = transactions
        self._bus = bus
        self._unsaid = Unsaid()
        self._unheard = ReturnOnCancel(connection)

    async def admit(
        self,
        message_id: str | UUID,
        source: str,
        hash: str | bytes | None = None,
        *,
        tx: Any = None,
        group: str | None = None,
        retry_after: Duration | None = None,
    ) -> Admission:
        """Admit a message: true for exactly one of any number of concurrent callers.

        With ``tx`` it is done when that commits. Without, it is processing until ``done``, ``failed`` or ``dead`` is
        called; if the process dies, it is admitted again after ``retry_after`` [never]. Another ``hash`` than
        the first one is a mismatch: reported, not admitted.
        """
        asked = self._callers.asked(message_id, source, hash, group, retry_after)
        if tx is None:
            admission = await self._admitted(asked)
        else:
            admission = await self._transactions.run(tx, self._admitting(asked), "inbox.admit")
        return self._answer(admission)

    @asynccontextmanager
    async def once(
        self,
        message_id: str | UUID,
        source: str,
        hash: str | bytes | None = None,
        *,
        tx: Any = None,
        group: str | None = None,
        retry_after: Duration | None = None,
    ) -> AsyncIterator[Admission]:
        """Run ``admit`` around a block: at its end the message is done, or failed if it raised.

        With ``tx`` the end of the transaction decides, and the block adds nothing.
        """
        admission = await self.admit(message_id, source, hash, tx=tx, group=group, retry_after=retry_after)
        if tx is not None or not admission:
            yield admission
            return
        done = self._begin(admission)
        try:
            yield admission
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                await self._give_up(done, error)
            raise
        await self._finish(done)

    async def done(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Mark it as done: an admission, or a message by its keys and ``attempt``.

        False: it is no longer this caller's, because it was admitted again or released.
        """
        return await self._mark(self._callers.said(which, source, "done", None, attempt, group), tx, "done")

    async def failed(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        error: Error = "",
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Mark it as failed, so that it is admitted when sent again. False: it is no longer this caller's."""
        return await self._mark(self._callers.said(which, source, "seen", error, attempt, group), tx, "failed")

    async def dead(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        error: Error = "",
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Mark it as dead: it is not admitted again unless released. False: it is no longer this caller's."""
        return await self._mark(self._callers.said(which, source, "dead", error, attempt, group), tx, "dead")

    # --- operating -----------------------------------------------------------------------------------------

    async def get(self, message_id: str | UUID, source: str, *, group: str | None = None) -> InboxView | None:
        """Return one message; None if unknown, or pruned."""
        key = self._callers.key(message_id, source, group)
        storage = await self._connection.storage("app.inbox.get()")
        wanted = InboxFilter(key.group, key.source, key.message_id, limit=1)
        return next(iter(await storage.inbox.browse(wanted)), None)

    @listing
    async def list(
        self,
        status: InboxStatus | None = None,
        *,
        group: str | None = None,
        source: str | None = None,
        message_id: str | UUID | None = None,
        stuck: bool | Duration = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Views:
        """Return the messages, latest change first.

        ``stuck`` are those in processing for longer than an hour, or than the given time.
        """
        after = _PAGES.start(cursor, limit)
        wanted = self._callers.wanted(status, group, source, message_id, after, limit + 1, stuck=stuck)
        storage = await self._connection.storage("app.inbox.list()")
        return _PAGES.page(await storage.inbox.browse(wanted), limit)

    async def release(self, message_id: str | UUID, source: str, *, group: str | None = None, by: str = "app") -> bool:
        """Admit it when it is sent again, although it is processing or dead. Audited with ``by``.

        False: there is no such message, or it is neither.
        """
        key = self._callers.key(message_id, source, group)
        return await (await self._connection.storage("app.inbox.release()")).inbox.release(key, by)

    # --- around a block ------------------------------------------------------------------------------------

    def _begin(self, admission: Admission) -> Said:
        """Begin a block; return the outcome to report at its end, if none was."""
        done = self._callers.said(admission, None, "done", None, None, None)
        self._unsaid.begin(done)
        return done

    async def _finish(self, done: Said) -> None:
        """End the block."""
        if self._unsaid.is_joined(done):
            self._unsaid.heard(done)
        elif done in self._unsaid:
            self._complain(done, heard=await self._mark(done))

    async def _give_up(self, done: Said, error: BaseException) -> None:
        """Fail the block; its error propagates in any case."""
        if done not in self._unsaid:
            return
        failed = replace(done, fate="seen", error=read_error(error))
        # An outcome reported in a transaction that committed nevertheless stays, without a warning.
        joined = self._unsaid.is_joined(done)
        try:
            self._complain(failed, heard=await self._mark(failed) or joined)
        except MainspringError as unheard:
            _logger.warning("the failure of %s was not stored: %s", _name(done), unheard)

    async def _mark(self, said: Said, tx: object = None, call: str = "once") -> bool:
        """Store the outcome."""
        if tx is not None:
            heard = await self._transactions.run(tx, self._marking(said), f"inbox.{call}")
            self._unsaid.joined(said)
            return heard
        storage = await self._connection.storage(f"app.inbox.{call}()")
        self._unsaid.heard(said)  # also without a result: it may be written
        return await storage.inbox.mark(said.key, said.attempt, said.fate, said.error, said.admitted_at)

    # -------------------------------------------------------------------------------------------------------

    async def _admitted(self, asked: Asked) -> Admission:
        inbox = (await self._connection.storage("app.inbox.admit()")).inbox

        async def give_back(unheard: Admission) -> None:
            if unheard:
                await inbox.mark(unheard.key, unheard.attempts, "seen", _UNHEARD, unheard.admitted_at)

        return await self._unheard.ask(inbox.admit(asked.key, asked.hash, "processing", asked.retry_after), give_back)

    def _admitting(self, asked: Asked) -> Script[Admission]:
        return self._transactions.operations.inbox.admit.script(asked.key, asked.hash, "done", asked.retry_after)

    def _marking(self, said: Said) -> Script[bool]:
        outcome = (said.key, said.attempt, said.fate, said.error, said.admitted_at)
        return self._transactions.operations.inbox.mark.script(*outcome)

    def _answer(self, admission: Admission) -> Admission:
        if admission.first_mismatch:
            _logger.warning(
                "%s of %s came with another hash than the first time, %s: it is not admitted",
                admission.message_id,
                admission.source,
                admission.first_seen_at.isoformat(timespec="seconds"),
            )
            self._tell(Mismatched(*admission.key, admission.first_seen_at))
        return admission

    def _tell(self, event: Mismatched) -> None:
        if not self._bus.wants(Mismatched):
            return
        if in_loop():
            self._bus.emit(event)
        else:
            asyncio.run(self._telling(event))  # a blocking caller has no loop for async hooks

    async def _telling(self, event: Mismatched) -> None:
        self._bus.emit(event)
        await self._bus.settled()

    def _complain(self, said: Said, *, heard: bool) -> None:
        if not heard:
            _logger.warning(
                "%s was admitted again, or released, before attempt %d ended: it may have been processed twice",
                _name(said),
                said.attempt,
            )


def _name(said: Said) -> str:
    return f"{said.key.message_id} of {said.key.source}"


class SyncInbox(Face[Inbox]):
    """``app.sync.inbox``: as ``app.inbox``, without await."""

    admit: Final = blocking(Inbox.admit)
    done: Final = blocking(Inbox.done)
    failed: Final = blocking(Inbox.failed)
    dead: Final = blocking(Inbox.dead)
    get: Final = blocking(Inbox.get)
    list: Final = blocking(Inbox.list)
    release: Final = blocking(Inbox.release)

    @contextmanager
    def once(
        self,
        message_id: str | UUID,
        source: str,
        hash: str | bytes | None = None,
        *,
        tx: Any = None,
        group: str | None = None,
        retry_after: Duration | None = None,
    ) -> Iterator[Admission]:
        """Run ``admit`` around a block: at its end the message is done, or failed if it raised."""
        inbox = self._target
        admission = self.admit(message_id, source, hash, tx=tx, group=group, retry_after=retry_after)
        if tx is not None or not admission:
            yield admission
            return
        done = inbox._begin(admission)  # noqa: SLF001 - of the same module
        try:
            yield admission
        except BaseException as error:
            failure = error  # an except clause deletes its name at the end
            self._wait_for(lambda: inbox._give_up(done, failure), "once(…)")  # noqa: SLF001
            raise
        self._wait_for(lambda: inbox._finish(done), "once(…)")  # noqa: SLF001
