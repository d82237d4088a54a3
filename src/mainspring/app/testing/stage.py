"""Everything that stands behind a test while it runs, on memory or in a transaction of the test's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mainspring.app.background import at_once
from mainspring.app.catalogue import Catalogue
from mainspring.app.config import Options
from mainspring.app.consumers import Consumers
from mainspring.app.door import Door, StandIn
from mainspring.app.post import Post
from mainspring.app.storages import hand_turned
from mainspring.app.testing import savepoints
from mainspring.app.testing.attempts import Savepoint
from mainspring.app.testing.batch_attempts import BatchAttempts
from mainspring.app.testing.book import Book
from mainspring.app.testing.course import Course
from mainspring.app.testing.fuses import Fuses
from mainspring.app.testing.joined import JoinedGateway, JoinedStorage, NotedTransactions, OnConnection
from mainspring.app.testing.noted import noted
from mainspring.app.testing.occurrences import Occurrences
from mainspring.app.testing.own import Own
from mainspring.app.testing.stand_in import Beside, InMemory
from mainspring.app.testing.values import Sent
from mainspring.app.transactions import Joins, Transactions
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.timing.clock import HandClock, ReplaceableClock

if TYPE_CHECKING:
    from mainspring.app.recurring import Recurrences


@dataclass(frozen=True, slots=True)
class House:
    """The parts of an app that a test puts others in the place of, or looks into."""

    doors: tuple[Door, Door]
    clock: ReplaceableClock
    transactions: Transactions
    consumers: Consumers
    catalogue: Catalogue
    post: Post
    bus: Bus
    options: Options
    recurrences: Callable[[], Recurrences | None]
    """The schedules of its code; None while nobody has asked for any."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a test stands on."""

    storage: Storage
    stand_in: StandIn
    joins: Joins
    begin: Callable[[], Awaitable[object]]
    """Makes sure that the tables are there."""
    savepoint: Savepoint = nullcontext
    blocking: bool = True
    """Whether nothing but a handler ever waits."""
    here: bool = False
    """Whether plain functions belong in the test's own thread."""
    tx: object = None
    """The test's own transaction, which transactional consumers are lent; None on memory."""
    own: Own | None = None
    """Tells what is the test's own; None where all is."""


class Stage:
    """One test's ground, book and course, and the way onto it and off again."""

    def __init__(self, house: House, clock: HandClock, book: Book, ground: Ground, limit: int) -> None:
        self.book: Book = book
        self.clock: HandClock = clock
        self.ground: Ground = ground
        self.attempts: BatchAttempts = BatchAttempts(
            ground.storage, book, clock, house.bus, ground.savepoint, ground.tx, ground.own
        )
        occurrences = Occurrences(
            ground.storage.timetable,
            clock,
            house.recurrences,
            house.options.name,
            house.options.version,
        )
        self.attempts.ending = occurrences.meanwhile
        self.course: Course = Course(
            ground.storage,
            self.attempts,
            book,
            clock,
            house.consumers,
            house.post,
            house.options.name,
            house.options.retention,
            Fuses(clock, house.bus),
            occurrences,
            limit,
            ground.own,
        )
        self.ready: Callable[[], Awaitable[None]] = self.prepare
        """Prepares, unless that was done."""
        self._house = house
        self._begun = False
        self._undo: list[Callable[[], object]] = []

    def enter(self) -> None:
        """Put all this in the place of the database, for the whole app."""
        house, undo = self._house, self._undo
        for door in house.doors:
            undo.append(partial(door.replace, door.replace(self.ground.stand_in)))
        undo.append(partial(house.transactions.replace, house.transactions.replace(self.ground.joins)))
        undo.append(partial(house.clock.replace, house.clock.replace(self.clock)))

    def leave(self) -> None:
        """Put back what was there before."""
        while self._undo:
            self._undo.pop()()

    async def prepare(self) -> None:
        """Be ready for the next message: tables there, consumers known, whenever they were registered."""
        if not self._begun:
            await self.ground.begin()
            self._begun = True
        await self.course.prepare()

    async def look(self) -> None:
        """Bring the book up to date with what is stored."""
        await self.book.verify(self.ground.storage)
        await self.book.look(self.ground.storage, self.course.consumers, self.ground.own)

    async def changed(self) -> None:
        """Look again, now that somebody has written; the course of time looks at its end."""
        if not self.course.running:
            await self.look()

    def glance(self) -> Book:
        """The book, up to date. What has to be waited for was looked at when it changed."""
        if self.ground.blocking:
            at_once(self.look)
        return self.book

    def sent(self) -> list[Sent]:
        """What was published and not undone."""
        return self.glance().sent if self.book.undoable else self.book.sent


def in_memory(house: House, clock: HandClock, limit: int) -> Stage:
    """A stage on memory, whatever the app's database is."""
    book = Book(house.catalogue, clock)
    storage = hand_turned(clock)
    stand_in = InMemory(storage, book)
    beside = Beside(stand_in, storage.rooms, storage.gateway, book)
    ground = Ground(storage, stand_in, beside, storage.schema.migrate)
    storage.timetable = noted(storage.timetable, book)
    stage = Stage(house, clock, book, ground, limit)
    stand_in.ready = stage.prepare
    return stage


def in_transaction(house: House, clock: HandClock, limit: int, tx: object, *, committed: bool) -> Stage:
    """A stage on the caller's connection, all of it in the transaction that the caller rolls back.

    What others have committed is left alone, unless ``committed`` says otherwise.
    """
    book = Book(house.catalogue, clock, undoable=True)
    transactions = house.transactions
    kind, handle = transactions.recognised(tx)
    gateway = JoinedGateway(transactions, kind, handle)
    storage = JoinedStorage(transactions.joined, gateway, clock)
    storage.timetable = noted(storage.timetable, book)
    own = None if committed else Own(storage.rooms)

    async def begin() -> None:
        if transactions.engine == "sqlite":
            await savepoints.begin(gateway)
        await storage.schema.migrate()
        if own is not None:
            await own.begin()

    ground = Ground(
        storage,
        OnConnection(storage, gateway, book, blocking=kind.blocking),
        NotedTransactions(transactions, gateway, storage, book),
        begin,
        savepoints.Savepoints(kind, handle, gateway),
        blocking=kind.blocking,
        here=kind.blocking,
        tx=handle,
        own=own,
    )
    stage = Stage(house, clock, book, ground, limit)
    gateway.prepare, stage.ready = stage.prepare, gateway.ready
    if not kind.blocking:
        gateway.changed = stage.changed
    return stage
