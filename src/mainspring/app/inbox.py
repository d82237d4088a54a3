"""``app.inbox``: external messages, each processed once however often it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, cast, get_args
from uuid import UUID

from mainspring.app.blocking import Face, blocking, in_loop
from mainspring.app.connection import Connection, ReturnOnCancel
from mainspring.app.names import check_group, check_name
from mainspring.app.options import choice, length, whole
from mainspring.app.page import Instant, Name, Page, Paging, listing
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption, MainspringError
from mainspring.model.inbox import Admission, InboxFilter, InboxKey, InboxStatus, InboxView, MarkStatus
from mainspring.model.text import LONGEST, described
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Mismatched
from mainspring.timing.duration import Duration

_logger = logging.getLogger("mainspring.inbox")

_CALLER_CANCELLED = "the caller was cancelled during admit"
_HASH_LIMIT = 128
_SECOND = timedelta(seconds=1)
_STUCK_AFTER = timedelta(hours=1)
"""A message that is in processing for longer is stuck."""
_MOST_ATTEMPTS = 2**31 - 1

Error = str | BaseException
# Defined here: inside the class ``list`` is a method.
Views = Page[InboxView]

_PAGES: Paging[InboxView, tuple[datetime, str, str, str]] = Paging(
    "app.inbox.list()",
    lambda each: (each.changed_at, each.group, each.source, each.message_id),
    tuple[Instant, Name, Name, Name],
)


class Outcome(NamedTuple):
    """The outcome that a caller reports: the arguments of the storage's ``mark``."""

    key: InboxKey
    attempt: int
    status: MarkStatus
    error: str | None
    admitted_at: datetime | None = None
    """When it was admitted, if the caller passed the admission."""

    def __str__(self) -> str:
        """Return the message, for logs."""
        return f"{self.key.message_id} of {self.key.source}"


class Inbox:
    """External messages received, by receiving group [the app's name], source and the sender's id.

    With ``tx`` a call enlists in that transaction: it takes effect on commit.
    """

    def __init__(self, connection: Connection, transactions: Transactions, app: str, bus: Bus) -> None:
        self._app = app
        self._connection = connection
        self._transactions = transactions
        self._bus = bus
        self._blocks: dict[tuple[InboxKey, int], bool] = {}
        """The messages and attempts of running ``once`` blocks whose outcome is not reported yet; True if it was in a
        caller's transaction, which may not have been committed."""
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
        patience = None if retry_after is None else length(retry_after, "retry_after", least=_SECOND)
        key, first_hash = self._key(message_id, source, group), _read_hash(hash)
        if tx is None:
            admission = await self._admit(key, first_hash, patience)
        else:
            script = self._transactions.operations.inbox.admit.script(key, first_hash, "done", patience)
            admission = await self._transactions.run(tx, script, "inbox.admit")
        if admission.first_mismatch:
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
        return await self._mark(self._outcome(which, source, "done", None, attempt, group), tx, "done")

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
        return await self._mark(self._outcome(which, source, "seen", error, attempt, group), tx, "failed")

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
        return await self._mark(self._outcome(which, source, "dead", error, attempt, group), tx, "dead")

    # --- operating -----------------------------------------------------------------------------------------

    async def get(self, message_id: str | UUID, source: str, *, group: str | None = None) -> InboxView | None:
        """Return one message; None if unknown, or pruned."""
        key = self._key(message_id, source, group)
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
        before, *past = _PAGES.start(cursor, limit) or (None,)
        wanted = InboxFilter(
            None if group is None else check_group(group),
            None if source is None else check_name(source, "source"),
            None if message_id is None else _read_message_id(message_id),
            None if status is None else cast("InboxStatus", choice(status, get_args(InboxStatus), "status")),
            None if stuck is False else _STUCK_AFTER if stuck is True else length(stuck, "stuck"),
            before,
            limit + 1,
            InboxKey(*past) if past else None,
        )
        storage = await self._connection.storage("app.inbox.list()")
        return _PAGES.page(await storage.inbox.browse(wanted), limit)

    async def release(self, message_id: str | UUID, source: str, *, group: str | None = None, by: str = "app") -> bool:
        """Admit it when it is sent again, although it is processing or dead. Audited with ``by``.

        False: there is no such message, or it is neither.
        """
        key = self._key(message_id, source, group)
        return await (await self._connection.storage("app.inbox.release()")).inbox.release(key, by)

    # --- around a block ------------------------------------------------------------------------------------

    def _begin(self, admission: Admission) -> Outcome:
        """Begin a block; return the outcome to report at its end, if none was."""
        done = self._outcome(admission, None, "done", None, None, None)
        self._blocks[done.key, done.attempt] = False
        return done

    async def _finish(self, done: Outcome) -> None:
        """End the block."""
        enlisted = self._blocks.get((done.key, done.attempt))
        if enlisted:  # the transaction decides
            del self._blocks[done.key, done.attempt]
        elif enlisted is not None:
            _warn_unless_ours(done, ours=await self._mark(done))

    async def _give_up(self, done: Outcome, error: BaseException) -> None:
        """Fail the block; its error propagates in any case."""
        enlisted = self._blocks.get((done.key, done.attempt))
        if enlisted is None:
            return
        failed = done._replace(status="seen", error=_read_error(error))
        try:
            # An outcome reported in a transaction that committed nevertheless stays, without a warning.
            _warn_unless_ours(failed, ours=await self._mark(failed) or enlisted)
        except MainspringError as problem:
            _logger.warning("the failure of %s was not stored: %s", done, problem)

    # -------------------------------------------------------------------------------------------------------

    async def _admit(self, key: InboxKey, hash: bytes | None, retry_after: timedelta | None) -> Admission:
        inbox = (await self._connection.storage("app.inbox.admit()")).inbox

        async def give_back(admission: Admission) -> None:
            if admission:
                await inbox.mark(admission.key, admission.attempts, "seen", _CALLER_CANCELLED, admission.admitted_at)

        return await self._return_on_cancel.run(inbox.admit(key, hash, "processing", retry_after), give_back)

    async def _mark(self, outcome: Outcome, tx: object = None, call: str = "once") -> bool:
        """Store the outcome."""
        block = (outcome.key, outcome.attempt)
        if tx is not None:
            script = self._transactions.operations.inbox.mark.script(*outcome)
            ours = await self._transactions.run(tx, script, f"inbox.{call}")
            if block in self._blocks:
                self._blocks[block] = True
            return ours
        storage = await self._connection.storage(f"app.inbox.{call}()")
        self._blocks.pop(block, None)  # also without a result: it may be written
        return await storage.inbox.mark(*outcome)

    def _key(self, message_id: object, source: object, group: str | None) -> InboxKey:
        chosen = self._app if group is None else check_group(group)
        return InboxKey(chosen, check_name(source, "source"), _read_message_id(message_id))

    def _outcome(
        self, which: object, source: object, status: MarkStatus, error: object, attempt: int | None, group: str | None
    ) -> Outcome:
        """Return the outcome of a message: by its admission, or by its keys and attempt number."""
        text = None if error is None else _read_error(error)
        if isinstance(which, Admission):
            if source is not None or attempt is not None or group is not None:
                raise BadOption("the admission identifies the message: leave out source=, attempt= and group=")
            _check_admitted(which, status)
            return Outcome(which.key, which.attempts, status, text, which.admitted_at)
        if source is None or attempt is None:
            raise BadOption(
                "which attempt is it? Pass the admission itself, or message_id, source and "
                "attempt=admission.attempts: it protects a later admission"
            )
        number = whole(attempt, "attempt", least=1, most=_MOST_ATTEMPTS)
        return Outcome(self._key(which, source, group), number, status, text)

    def _report_mismatch(self, admission: Admission) -> None:
        _logger.warning(
            "%s of %s came with another hash than the first time, %s: it is not admitted",
            admission.message_id,
            admission.source,
            admission.first_seen_at.isoformat(timespec="seconds"),
        )
        if self._bus.wants(Mismatched):
            event = Mismatched(*admission.key, admission.first_seen_at)
            if in_loop():
                self._bus.emit(event)
            else:
                asyncio.run(self._emit_and_settle(event))  # a blocking caller has no loop for async hooks

    async def _emit_and_settle(self, event: Mismatched) -> None:
        self._bus.emit(event)
        await self._bus.settled()


def _warn_unless_ours(outcome: Outcome, *, ours: bool) -> None:
    if not ours:
        _logger.warning(
            "%s was admitted again, or released, before attempt %d ended: it may have been processed twice",
            outcome,
            outcome.attempt,
        )


def _read_message_id(value: object) -> str:
    """Return the sender's message id as text."""
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise BadOption(f"message_id={value!r} must be text or a UUID, not {type(value).__qualname__}")
    return check_name(value, "message_id")


def _read_hash(value: object) -> bytes | None:
    """Return the hash as bytes."""
    if value is None:
        return None
    if not isinstance(value, str | bytes):
        raise BadOption(
            f"hash={value!r} must be text or bytes, as in hashlib.sha256(body).hexdigest(), "
            f"not {type(value).__qualname__}"
        )
    read = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    if not 1 <= len(read) <= _HASH_LIMIT:
        raise BadOption(f"hash must be 1 to {_HASH_LIMIT} bytes, not {len(read)}: pass the hash, not the content")
    return read


def _read_error(value: object) -> str:
    """Return the error as text, truncated for storage."""
    if isinstance(value, BaseException):
        return described(value)
    if not isinstance(value, str):
        raise BadOption(f"error={value!r} must be text or an exception, not {type(value).__qualname__}")
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def _check_admitted(admission: Admission, status: MarkStatus) -> None:
    if not admission.admitted:
        raise BadOption(
            f"{admission.message_id!r} was not admitted, so this caller cannot report its outcome: "
            "write `if admission:` before it"
        )
    if admission.status == "done" and status != "done":
        raise BadOption(f"{admission.message_id!r} was admitted in a transaction: roll that back instead")


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
