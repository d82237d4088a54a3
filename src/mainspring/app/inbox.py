"""``app.inbox``: messages of others, each processed once however often it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from mainspring.app.admitting import Asked, Callers, Said, Unsaid, read_error
from mainspring.app.background import in_loop
from mainspring.app.blocking import Face, blocking
from mainspring.app.door import Door
from mainspring.app.transactions import Transactions
from mainspring.app.unheard import Unheard
from mainspring.model.errors import MainspringError
from mainspring.model.inbox import Admission, InboxFilter, InboxStatus, InboxView
from mainspring.storage.script import Script
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Mismatched
from mainspring.timing.duration import Duration

_logger = logging.getLogger("mainspring.inbox")

_UNHEARD = "whoever asked was cancelled before it was told"

Error = str | BaseException
# Named here, since inside the class ``list`` is its own verb.
Views = list[InboxView]


class Inbox:
    """Which messages of others have come, by receiving group [the app's name], source and the id the sender gave.

    With ``tx`` a call joins that transaction: it counts if and when that commits.
    """

    def __init__(self, door: Door, transactions: Transactions, app: str, bus: Bus) -> None:
        self.callers: Callers = Callers(app)
        self._door = door
        self._transactions = transactions
        self._bus = bus
        self._unsaid = Unsaid()
        self._unheard = Unheard(door)

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
        """Let a message in: true for exactly one of any number of callers at once.

        With ``tx`` it is done when that commits. Without, somebody is at it until ``done``, ``failed`` or ``dead`` is
        called; should its process die, it is let in again after ``retry_after`` [never]. Another ``hash`` than the
        first time is a mismatch: reported, and not let in.
        """
        asked = self.callers.asked(message_id, source, hash, group, retry_after)
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
        """``admit`` around a block: at its end the message is done, or failed where something was raised.

        With ``tx`` the transaction's own end decides, and the block adds nothing.
        """
        admission = await self.admit(message_id, source, hash, tx=tx, group=group, retry_after=retry_after)
        if tx is not None or not admission:
            yield admission
            return
        done = self.begin(admission)
        try:
            yield admission
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                await self.give_up(done, error)
            raise
        await self.finish(done)

    async def done(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Say that it is done: an admission, or a message by its keys and ``attempt``.

        False: it is no longer this caller's, because it was let in again or released since.
        """
        return await self.mark(self.callers.said(which, source, "done", None, attempt, group), tx, "done")

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
        """Say that it failed, so that it is let in when it comes again. False: it is no longer this caller's."""
        return await self.mark(self.callers.said(which, source, "seen", error, attempt, group), tx, "failed")

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
        """Give it up: it is never let in again, unless it is released. False: it is no longer this caller's."""
        return await self.mark(self.callers.said(which, source, "dead", error, attempt, group), tx, "dead")

    # --- operating -----------------------------------------------------------------------------------------

    async def get(self, message_id: str | UUID, source: str, *, group: str | None = None) -> InboxView | None:
        """One message; None when it has not come, or was forgotten."""
        key = self.callers.key(message_id, source, group)
        storage = await self._door.storage("app.inbox.get()")
        wanted = InboxFilter(key.group, key.source, key.message_id, limit=1)
        return next(iter(await storage.inbox.browse(wanted)), None)

    async def list(
        self,
        status: InboxStatus | None = None,
        *,
        group: str | None = None,
        source: str | None = None,
        message_id: str | UUID | None = None,
        stuck: bool | Duration = False,
        before: datetime | None = None,
        limit: int = 50,
    ) -> Views:
        """The messages of this namespace, the latest change first; ``before`` is when the last of the page before did.

        ``stuck`` are those that somebody has been at for longer than an hour, or than the time given.
        """
        wanted = self.callers.wanted(status, group, source, message_id, before, limit, stuck=stuck)
        storage = await self._door.storage("app.inbox.list()")
        return await storage.inbox.browse(wanted)

    async def release(self, message_id: str | UUID, source: str, *, group: str | None = None, by: str = "app") -> bool:
        """Have it let in when it comes again, though somebody is at it or it was given up. Audited with ``by``.

        False: there is no such message, or it is neither.
        """
        key = self.callers.key(message_id, source, group)
        return await (await self._door.storage("app.inbox.release()")).inbox.release(key, by)

    # --- around a block ------------------------------------------------------------------------------------

    def begin(self, admission: Admission) -> Said:
        """A block begins; what is to be said at its end, unless it is said before."""
        done = self.callers.said(admission, None, "done", None, None, None)
        self._unsaid.begin(done)
        return done

    async def finish(self, done: Said) -> None:
        """The block has ended."""
        if self._unsaid.is_joined(done):
            self._unsaid.heard(done)
        elif done in self._unsaid:
            self._complain(done, heard=await self.mark(done))

    async def give_up(self, done: Said, error: BaseException) -> None:
        """The block has failed, and that goes on whatever happens here."""
        if done not in self._unsaid:
            return
        failed = replace(done, fate="seen", error=read_error(error))
        # What was said in a transaction that was committed all the same stays, and is nobody's concern.
        joined = self._unsaid.is_joined(done)
        try:
            self._complain(failed, heard=await self.mark(failed) or joined)
        except MainspringError as unheard:
            _logger.warning("that %s failed could not be noted: %s", _name(done), unheard)

    async def mark(self, said: Said, tx: object = None, call: str = "once") -> bool:
        """Say what became of it."""
        if tx is not None:
            heard = await self._transactions.run(tx, self._marking(said), f"inbox.{call}")
            self._unsaid.joined(said)
            return heard
        storage = await self._door.storage(f"app.inbox.{call}()")
        self._unsaid.heard(said)  # also if no answer comes: it may have been written
        return await storage.inbox.mark(said.key, said.attempt, said.fate, said.error, said.admitted_at)

    # -------------------------------------------------------------------------------------------------------

    async def _admitted(self, asked: Asked) -> Admission:
        inbox = (await self._door.storage("app.inbox.admit()")).inbox

        async def give_back(unheard: Admission) -> None:
            if unheard:
                await inbox.mark(unheard.key, unheard.attempts, "seen", _UNHEARD, unheard.admitted_at)

        return await self._unheard.ask(inbox.admit(asked.key, asked.hash, "processing", asked.retry_after), give_back)

    def _admitting(self, asked: Asked) -> Script[Admission]:
        return self._transactions.rooms.inbox.admit.script(asked.key, asked.hash, "done", asked.retry_after)

    def _marking(self, said: Said) -> Script[bool]:
        told = (said.key, said.attempt, said.fate, said.error, said.admitted_at)
        return self._transactions.rooms.inbox.mark.script(*told)

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
            asyncio.run(self._telling(event))  # whoever blocks has no loop for hooks that are async

    async def _telling(self, event: Mismatched) -> None:
        self._bus.emit(event)
        await self._bus.settled()

    def _complain(self, said: Said, *, heard: bool) -> None:
        if not heard:
            _logger.warning(
                "%s was admitted again, or released, before attempt %d had ended: it may have been processed twice",
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
        """``admit`` around a block: at its end the message is done, or failed where something was raised."""
        inbox = self._target
        admission = self.admit(message_id, source, hash, tx=tx, group=group, retry_after=retry_after)
        if tx is not None or not admission:
            yield admission
            return
        done = inbox.begin(admission)
        try:
            yield admission
        except BaseException as error:
            failure = error  # the name of an except clause is gone at its end
            self._wait_for(lambda: inbox.give_up(done, failure), "once(…)")
            raise
        self._wait_for(lambda: inbox.finish(done), "once(…)")
