"""``app.inbox``: external messages, each processed once however often it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from uuid import UUID

from mainspring.app.blocking import Face, blocking, in_loop
from mainspring.app.connection import Connection, ReturnOnCancel
from mainspring.app.inbox.admission import AdmitRequest, InboxArguments, InboxPlace, OpenBlocks, Outcome, read_error
from mainspring.app.page import Instant, Name, Page, Paging, listing
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import MainspringError
from mainspring.model.inbox import Admission, InboxFilter, InboxStatus, InboxView
from mainspring.storage.script import Script
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Mismatched
from mainspring.timing.duration import Duration

_logger = logging.getLogger("mainspring.inbox")

_CALLER_CANCELLED = "the caller was cancelled during admit"

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
        self._arguments = InboxArguments(app)
        self._connection = connection
        self._transactions = transactions
        self._bus = bus
        self._blocks = OpenBlocks()
        self._return_on_cancel = ReturnOnCancel(connection)

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
        request = self._arguments.request(message_id, source, hash, group, retry_after)
        if tx is None:
            admission = await self._admitted(request)
        else:
            admission = await self._transactions.run(tx, self._admitting(request), "inbox.admit")
        self._report_mismatch(admission)
        return admission

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
        return await self._mark(self._arguments.outcome(which, source, "done", None, attempt, group), tx, "done")

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
        return await self._mark(self._arguments.outcome(which, source, "seen", error, attempt, group), tx, "failed")

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
        return await self._mark(self._arguments.outcome(which, source, "dead", error, attempt, group), tx, "dead")

    # --- operating -----------------------------------------------------------------------------------------

    async def get(self, message_id: str | UUID, source: str, *, group: str | None = None) -> InboxView | None:
        """Return one message; None if unknown, or pruned."""
        key = self._arguments.key(message_id, source, group)
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
        wanted = self._arguments.wanted(status, group, source, message_id, after, limit + 1, stuck=stuck)
        storage = await self._connection.storage("app.inbox.list()")
        return _PAGES.page(await storage.inbox.browse(wanted), limit)

    async def release(self, message_id: str | UUID, source: str, *, group: str | None = None, by: str = "app") -> bool:
        """Admit it when it is sent again, although it is processing or dead. Audited with ``by``.

        False: there is no such message, or it is neither.
        """
        key = self._arguments.key(message_id, source, group)
        return await (await self._connection.storage("app.inbox.release()")).inbox.release(key, by)

    # --- around a block ------------------------------------------------------------------------------------

    def _begin(self, admission: Admission) -> Outcome:
        """Begin a block; return the outcome to report at its end, if none was."""
        done = self._arguments.outcome(admission, None, "done", None, None, None)
        self._blocks.begin(done)
        return done

    async def _finish(self, done: Outcome) -> None:
        """End the block."""
        if self._blocks.is_enlisted(done):
            self._blocks.drop(done)
        elif done in self._blocks:
            self._warn_unless_ours(done, ours=await self._mark(done))

    async def _give_up(self, done: Outcome, error: BaseException) -> None:
        """Fail the block; its error propagates in any case."""
        if done not in self._blocks:
            return
        failed = done._replace(fate="seen", error=read_error(error))
        # An outcome reported in a transaction that committed nevertheless stays, without a warning.
        enlisted = self._blocks.is_enlisted(done)
        try:
            self._warn_unless_ours(failed, ours=await self._mark(failed) or enlisted)
        except MainspringError as problem:
            _logger.warning("the failure of %s was not stored: %s", _name(done), problem)

    async def _mark(self, outcome: Outcome, tx: object = None, call: str = "once") -> bool:
        """Store the outcome."""
        if tx is not None:
            script = self._transactions.operations.inbox.mark.script(*outcome)
            ours = await self._transactions.run(tx, script, f"inbox.{call}")
            self._blocks.enlisted(outcome)
            return ours
        storage = await self._connection.storage(f"app.inbox.{call}()")
        self._blocks.drop(outcome)  # also without a result: it may be written
        return await storage.inbox.mark(*outcome)

    # -------------------------------------------------------------------------------------------------------

    async def _admitted(self, request: AdmitRequest) -> Admission:
        inbox = (await self._connection.storage("app.inbox.admit()")).inbox

        async def give_back(admission: Admission) -> None:
            if admission:
                await inbox.mark(admission.key, admission.attempts, "seen", _CALLER_CANCELLED, admission.admitted_at)

        admitting = inbox.admit(request.key, request.hash, "processing", request.retry_after)
        return await self._return_on_cancel.run(admitting, give_back)

    def _admitting(self, request: AdmitRequest) -> Script[Admission]:
        return self._transactions.operations.inbox.admit.script(request.key, request.hash, "done", request.retry_after)

    def _report_mismatch(self, admission: Admission) -> None:
        if admission.first_mismatch:
            _logger.warning(
                "%s of %s came with another hash than the first time, %s: it is not admitted",
                admission.message_id,
                admission.source,
                admission.first_seen_at.isoformat(timespec="seconds"),
            )
            self._emit(Mismatched(*admission.key, admission.first_seen_at))

    def _emit(self, event: Mismatched) -> None:
        if not self._bus.wants(Mismatched):
            return
        if in_loop():
            self._bus.emit(event)
        else:
            asyncio.run(self._emit_and_settle(event))  # a blocking caller has no loop for async hooks

    async def _emit_and_settle(self, event: Mismatched) -> None:
        self._bus.emit(event)
        await self._bus.settled()

    def _warn_unless_ours(self, outcome: Outcome, *, ours: bool) -> None:
        if not ours:
            _logger.warning(
                "%s was admitted again, or released, before attempt %d ended: it may have been processed twice",
                _name(outcome),
                outcome.attempt,
            )


def _name(outcome: Outcome) -> str:
    return f"{outcome.key.message_id} of {outcome.key.source}"


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
