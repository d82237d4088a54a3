"""Storage of drafts outside a caller's transaction: batched, retried after an outage, with receipts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from mainspring.model.errors import (
    DatabaseMoved,
    NotGranted,
    SchemaMissing,
    SchemaTooNew,
    StorageError,
    StorageUnavailable,
)
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt, UniqueKey
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

Count = Callable[[Iterable[Draft]], None]
"""Counts messages that were stored."""


class Counts(Protocol):
    """Anything that counts stored messages."""

    published: Count


def uncounted(_drafts: Iterable[Draft]) -> None:
    """Count nothing."""


_logger = logging.getLogger("mainspring.batcher")


def receipts(drafts: Sequence[Draft], published: Published) -> list[Receipt]:
    """Return the receipt of each draft; log each that is not stored because its id is another message's."""
    for each in published.conflicting(drafts):
        _logger.warning("%s; derive the message_id from all that identifies the message, its topic too", each)
    return [Receipt(each.id, status) for each, status in zip(drafts, published.statuses(drafts), strict=True)]


T = TypeVar("T")

BATCH = 500
"""The most drafts in one statement: beyond it the time per draft no longer falls."""
PATIENCE = 10.0
"""Seconds of retries on an unreachable database before the call raises."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class Waiting(NamedTuple):
    """A pending ``publish`` and its draft."""

    draft: Draft
    fresh: bool
    answer: asyncio.Future[Receipt]
    until: float


class PublishBatcher:
    """The publishes of one turn of the loop, stored in one statement.

    While a batch is being written the next one fills: batches grow under load, and a lone publish does not wait. Ids
    make a retry safe (invariant 1), so an outage is retried for a while.
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
        """Store one draft; ``fresh``: its id was made here, so no other publisher has stored it."""
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._queue.append(Waiting(draft, fresh, answer, self._clock.monotonic() + PATIENCE))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush(), name="mainspring-publish")
        return await answer

    async def publish_unique(self, draft: Draft, unique_key: UniqueKey) -> Receipt:
        """Store one draft unless an earlier one counts; alone, since others with its unique key wait for it.

        Its id was made here: a retry after an outage finds it and does not take it for another.
        """
        until = self._clock.monotonic() + PATIENCE
        receipt = await self._tried(lambda: self._storage.mailbox.publish_unique(draft, unique_key), 1, until)
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
        """Store a join and its members atomically; a retry after an outage changes nothing."""
        until = self._clock.monotonic() + PATIENCE
        published = await self._persist(lambda: self._storage.mailbox.join(join, members), len(members), until)
        self._published(each for each in members if each.id in published.stored)
        return published

    async def close(self) -> None:
        """Wait for pending writes."""
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
                waiting.answer.cancel()  # no effect on those that are resolved
            self._queue.clear()

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        while self._queue and len(batch) < BATCH:
            waiting = self._queue.popleft()
            if not waiting.answer.done():  # done: its caller was cancelled, so it is not stored
                batch.append(waiting)
        return batch

    async def _answer(self, batch: list[Waiting]) -> None:
        try:
            drafts = [each.draft for each in batch]
            published = await self._store(drafts, batch[0].until)
        except StorageUnavailable as error:
            self._refuse(batch, error)
            self._refuse_expired(error)
        except (SchemaMissing, SchemaTooNew, NotGranted) as error:
            self._refuse(batch, error)
        except StorageError as error:
            await self._answer_singly(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, no caller is left waiting
            self._refuse(batch, error)
        else:
            new: list[Draft] = []
            for each, receipt in zip(batch, receipts(drafts, published), strict=True):
                # A "duplicate" of an id made here was stored by our own lost attempt.
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
        # One draft is at fault: the others in its batch are stored.
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
                is_over = isinstance(error, DatabaseMoved) and error.is_over
                if is_over or self._clock.monotonic() + pause >= until:
                    raise
                _logger.debug("retrying the publish of %d messages: %s", count, error)
                await self._sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE)
            except (SchemaMissing, SchemaTooNew, NotGranted):
                raise
            except StorageError:
                # The database reports a missing table in its own words; the check reports what to do.
                await self._storage.schema.check()
                raise

    def _refuse(self, batch: Sequence[Waiting], error: Exception) -> None:
        for each in batch:
            if not each.answer.done():
                each.answer.set_exception(error)

    def _refuse_expired(self, error: StorageUnavailable) -> None:
        # They waited as long as the batch before them: one deadline for all.
        now = self._clock.monotonic()
        while self._queue and self._queue[0].until <= now + _LONGEST_PAUSE:
            self._refuse([self._queue.popleft()], error)
