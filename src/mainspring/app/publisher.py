"""Storing drafts outside any caller's transaction: together, again after an outage, each answered for itself."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from mainspring.app.counted import Count, uncounted
from mainspring.app.receipts import receipts
from mainspring.model.errors import SchemaMissing, SchemaTooNew, StorageError, StorageUnavailable
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt
from mainspring.model.unique import UniqueKey
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

T = TypeVar("T")

BATCH = 500
"""The most drafts in one statement: beyond it the time per draft no longer falls."""
PATIENCE = 10.0
"""Seconds for which an unreachable database is tried again before the caller is told."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

_logger = logging.getLogger("mainspring.publisher")


class Waiting(NamedTuple):
    """A caller of ``publish`` and what it wants stored."""

    draft: Draft
    fresh: bool
    answer: asyncio.Future[Receipt]
    until: float


class Publisher:
    """Gathers the publishes of one turn of the loop into one statement.

    While a batch is on its way the next one gathers: under load the batches grow by themselves, and a lone publish
    waits for nothing. Ids make every repetition safe (invariant 1), so an outage is waited out for a while.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        wake: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        published: Count = uncounted,
    ) -> None:
        self._published = published
        self._storage = storage
        self._clock = clock
        self._wake = wake
        self._sleep = sleep
        self._queue: deque[Waiting] = deque()
        self._flushing: asyncio.Task[None] | None = None

    async def publish(self, draft: Draft, *, fresh: bool) -> Receipt:
        """Store one draft; ``fresh`` says that its id was made here, so that nobody else can have stored it."""
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._queue.append(Waiting(draft, fresh, answer, self._clock.monotonic() + PATIENCE))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush(), name="mainspring-publish")
        return await answer

    async def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Receipt:
        """Store one draft unless an earlier one counts: by itself, since others of its kind wait for its end.

        Its id was made here: sent again after an outage it is found, and not taken for another.
        """
        until = self._clock.monotonic() + PATIENCE
        receipt = await self._tried(lambda: self._storage.mailbox.publish_unique(draft, likeness), 1, until)
        if receipt.id == draft.id:
            self._published([draft])
            self._wake()
        return receipt

    async def publish_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """Store many drafts, batch after batch; their ids were made here."""
        receipts: list[Receipt] = []
        for start in range(0, len(drafts), BATCH):
            batch = drafts[start : start + BATCH]
            await self._store(batch, self._clock.monotonic() + PATIENCE)
            self._published(batch)
            receipts += [Receipt(draft.id, "stored") for draft in batch]
        return receipts

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """Store a join with its members, as one; sent again after an outage it changes nothing."""
        until = self._clock.monotonic() + PATIENCE
        published = await self._persist(lambda: self._storage.mailbox.join(join, members), len(members), until)
        self._published(each for each in members if each.id in published.stored)
        return published

    async def close(self) -> None:
        """Let what is on its way finish."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _flush(self) -> None:
        batch: list[Waiting] = []
        try:
            while self._queue:
                batch = self._next_batch()
                if batch:
                    await self._answer(batch)
        finally:
            self._flushing = None
            for waiting in (*batch, *self._queue):
                waiting.answer.cancel()  # which does nothing to those that have their answer
            self._queue.clear()

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        while self._queue and len(batch) < BATCH:
            waiting = self._queue.popleft()
            if not waiting.answer.done():  # its caller has been cancelled: it is not stored at all
                batch.append(waiting)
        return batch

    async def _answer(self, batch: list[Waiting]) -> None:
        try:
            drafts = [each.draft for each in batch]
            published = await self._store(drafts, batch[0].until)
        except StorageUnavailable as error:
            self._refuse(batch, error)
            self._refuse_expired(error)
        except (SchemaMissing, SchemaTooNew) as error:
            self._refuse(batch, error)
        except StorageError as error:
            await self._answer_singly(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, no caller is left waiting
            self._refuse(batch, error)
        else:
            new: list[Draft] = []
            for each, receipt in zip(batch, receipts(drafts, published), strict=True):
                # An id made here that "was there already" was put there by our own lost attempt.
                if each.fresh and receipt.status == "duplicate":
                    receipt = Receipt(receipt.id, "stored")  # noqa: PLW2901
                if receipt.status == "stored":
                    new.append(each.draft)
                if not each.answer.done():
                    each.answer.set_result(receipt)
            self._published(new)

    async def _answer_singly(self, batch: list[Waiting], error: StorageError) -> None:
        if len(batch) == 1:
            self._refuse(batch, error)
            return
        # One of them is at fault, and the neighbours it happened to travel with are not.
        for each in batch:
            await self._answer([each])

    async def _store(self, drafts: Sequence[Draft], until: float) -> Published:
        return await self._persist(lambda: self._storage.mailbox.publish(drafts), len(drafts), until)

    async def _persist(self, store: Callable[[], Awaitable[Published]], count: int, until: float) -> Published:
        published = await self._tried(store, count, until)
        if published.stored:
            self._wake()
        return published

    async def _tried(self, store: Callable[[], Awaitable[T]], count: int, until: float) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await store()
            except StorageUnavailable as error:
                if self._clock.monotonic() + pause >= until:
                    raise
                _logger.debug("publishing %d messages is tried again: %s", count, error)
                await self._sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE)
            except (SchemaMissing, SchemaTooNew):
                raise
            except StorageError:
                # A missing table says so in the database's own words; the check says what to do about it.
                await self._storage.schema.check()
                raise

    def _refuse(self, batch: Sequence[Waiting], error: Exception) -> None:
        for each in batch:
            if not each.answer.done():
                each.answer.set_exception(error)

    def _refuse_expired(self, error: StorageUnavailable) -> None:
        # They have waited as long as the batch before them: one deadline, not one after another.
        now = self._clock.monotonic()
        while self._queue and self._queue[0].until <= now + _LONGEST_PAUSE:
            self._refuse([self._queue.popleft()], error)
