"""Moves a database of a fleet to another one, in steps that its home records: any process may go on with them."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mainspring.app.fleet.moves import place_of, read_moves
from mainspring.app.mainspring import Mainspring
from mainspring.app.storages import Address, open_storage
from mainspring.model.errors import LeaseHeld, LeaseLost, Misuse, StorageError, StorageUnavailable
from mainspring.model.move import OF_WORKERS, REROUTED, Fence, Move, Step
from mainspring.storage.contract import Storage

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet

T = TypeVar("T")
OnMove = Callable[[Mainspring, Mainspring], Awaitable[object] | object]
"""Copies the application's own tables from the first database to the second."""
MoveProgress = Callable[[Move, str], object]
"""Called with the move, and what was done just now."""

_TTL, _WAIT = "10s", "12s"
"""A mover that was killed holds its lease until it lapses, so the next one waits for that."""
_LOCKED_WITHIN = 60.0
_GLANCE = 0.1


class Mover:
    """Moves one database at a time, for one call.

    Everything it does may be done again: a later mover begins with the step that the home records, and from then on
    the fences and the record refuse the one before it, which may only have stood still (invariant 36).
    """

    def __init__(self, fleet: Fleet, call: str, progress: MoveProgress | None) -> None:
        self._fleet = fleet
        self._home = fleet._home(call)  # noqa: SLF001 - it works for the fleet
        self._member = fleet._member  # noqa: SLF001
        self._options = fleet._code.options  # noqa: SLF001
        self._progress = progress
        self._drain = 0.0
        self._epoch = 0
        self._move: Move
        self._record: Storage
        self._source: Storage
        self._target: Storage

    async def move(self, name: str, to: str, drain: float) -> Move:
        """Move it, or go on with its move."""
        self._drain = drain
        async with self._alone("fleet.move", name):
            begun = await self._begun(name)
            if begun is None:
                source, target = self._checked(name, to)
                async with self._opened(name, source, to, target):
                    await self._examine(name, to)
                    await self._begin(name, to, source, target)
                    await self._go_on()
                return self._move
            self._move = begun
            if begun.step == "undo":
                raise Misuse(f"the move of {name!r} is being undone: call fleet.undo_move({name!r}), which ends that")
            if begun.target != to:
                raise Misuse(
                    f"{name!r} moves to {begun.target!r} already, step {begun.step}: call fleet.move({name!r}, "
                    f"to={begun.target!r}) to go on, or fleet.undo_move({name!r})"
                )
            source, target = self._found(begun.origin, name), self._found(begun.place, to)
            async with self._opened(name, source, to, target, name if begun.step in REROUTED else None):
                # What was prepared may not hold any more, and nothing was copied yet.
                await self._note(begun, "prepare" if begun.step == "pause" else begun.step)
                self._say(f"goes on with step {begun.step}")
                await self._go_on()
            return self._move

    async def undo(self, name: str) -> Move:
        """Serve it where it was again, and empty the target."""
        async with self._alone("fleet.undo_move", name):
            begun = await self._begun(name)
            if begun is None:
                raise Misuse(f"no move of {name!r} is under way: see fleet.moves()")
            if begun.step in REROUTED:
                raise Misuse(
                    f"{name!r} is served in {begun.target!r} already, which may have accepted writes since, so nothing "
                    f"goes back: call fleet.move({name!r}, to={begun.target!r}), which finishes the rest"
                )
            self._move = begun
            source, target = self._found(begun.origin, name), self._found(begun.place, begun.target)
            async with self._opened(name, source, begun.target, target, begun.target):
                await self._note(begun, "undo" if begun.step in ("copy", "verify") else begun.step)
                await self._undo()
            return self._move

    # --- before anything changes -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, call: str, name: str) -> AsyncIterator[None]:
        """Hold the lease of this name, whose epoch is the mover's."""
        lease = f"fleet.move:{name.replace('/', '.')[:180]}"
        try:
            async with self._home.app.leases.hold(lease, _TTL, wait=_WAIT) as held, self._home.connection:
                self._epoch = held.epoch
                self._record = (await self._home.connection.held(f"{call}()")).storage
                yield
            await self._fleet.refresh()
        except LeaseHeld as error:
            if error.name != lease:
                raise
            raise Misuse(
                f"{call}({name!r}): {error.holder or 'another mover'} is at it at this moment: fleet.moves() tells how "
                "far it is. Wait until it has ended"
            ) from error

    async def _begun(self, name: str) -> Move | None:
        return next((each for each in await read_moves(self._home) if each.name == name and not each.is_over), None)

    def _checked(self, name: str, to: str) -> tuple[Address, Address]:
        call = f"fleet.move({name!r}, to={to!r})"
        source, target, home = self._member(name).address, self._member(to).address, place_of(self._home.address)
        if place_of(source) == place_of(target):
            raise Misuse(f"{call}: that is the same database: name another one")
        for each, address in ((name, source), (to, target)):
            if place_of(address) == home:
                raise Misuse(
                    f"{call}: {each!r} is the home of the fleet, which keeps the record of moves: open the fleet with "
                    "another home=, in every process, and move then"
                )
        if source.engine != target.engine or source.engine == "memory":
            raise Misuse(
                f"{call}: {name!r} is on {source.engine}, and {to!r} on {target.engine}: a move copies from SQLite to "
                "SQLite, or from PostgreSQL to PostgreSQL"
            )
        return source, target

    def _found(self, place: str, name: str) -> Address:
        for each in self._fleet._databases.addresses.values():  # noqa: SLF001
            if place_of(each) == place:
                return each
        raise Misuse(
            f"`databases` of the fleet names no database any more that is {name!r} for a move that is under way: let "
            f"it name {place} until the move is over"
        )

    @asynccontextmanager
    async def _opened(
        self, name: str, source: Address, to: str, target: Address, spared: str | None = None
    ) -> AsyncIterator[None]:
        """Open both apart from the fleet, whose members change on the way; ``spared`` is one that may be away."""
        self._source, self._target = (open_storage(each, self._options)[0] for each in (source, target))
        try:
            for each, storage in ((name, self._source), (to, self._target)):
                try:
                    await storage.open()
                    await storage.ping()
                except StorageError as error:
                    error.args = (f"database {each!r}: {error}",)
                    if each != spared:
                        raise
                    self._say(str(error))
            yield
        finally:
            await asyncio.gather(self._source.close(), self._target.close())

    async def _examine(self, name: str, to: str) -> None:
        """Raise unless both can be used, and the target is empty; migrates it."""
        await self._source.schema.check()
        await self._target.schema.migrate()
        version, known = await self._source.schema.version(), await self._target.schema.version()
        if version != known:
            raise Misuse(
                f"the schema of {name!r} is at version {version}, and that of {to!r} at {known}: move with the release "
                "of the newer one, after `await fleet.migrate()`"
            )
        if await self._source.transfer.whereabouts() == await self._target.transfer.whereabouts():
            raise Misuse(f"{name!r} and {to!r} are one database under two addresses: name another one")
        await self._refuse_filled(to)

    async def _refuse_filled(self, to: str) -> None:
        filled = [each for each in await self._target.transfer.filled() if each not in OF_WORKERS]
        schedules = (await self._target.timetable.read()).schedules
        if any(each != "schedule" for each in filled) or any(each.origin != "code" for each in schedules):
            raise Misuse(
                f"{to!r} has content of its own, in {', '.join(filled)}, which a move would replace: name an empty "
                "database. One whose workers have let schedules fire is not empty: drop Mainspring's tables there, and "
                "move soon after it is named"
            )

    async def _begin(self, name: str, to: str, source: Address, target: Address) -> None:
        places = place_of(source) or "", place_of(target) or ""
        id = await self._record.moves.begin(name, to, *places, self._epoch)
        self._move = next(each for each in await self._record.moves.browse() if each.id == id)
        self._say("is prepared")

    # --- steps -----------------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        work: Mapping[Step, Callable[[], Awaitable[Step]]] = {
            "prepare": self._prepare,
            "pause": self._pause,
            "copy": self._copy,
            "verify": self._verify,
            "reroute": self._reroute,
            "resume": self._resume,
        }
        if self._move.step in ("copy", "verify"):
            # A mover before this one, which may only stand still, passes no more.
            await self._fence(self._source, self._move.name)
            await self._fence(self._target, self._move.target)
        while (step := work.get(self._move.step)) is not None:
            done = await step()
            await self._note(self._move, done)

    async def _prepare(self) -> Step:
        """Fence the target: no worker of it declares or fires anything while it is filled."""
        await self._target.schema.migrate()
        await self._fence(self._target, self._move.target)
        try:
            await self._refuse_filled(self._move.target)
        except Misuse:
            await self._undo()
            await self._record.moves.forget(self._move, self._epoch)
            raise
        return "pause"

    async def _pause(self) -> Step:
        """Let workers finish what they have in hand, for a while, and fence the source."""
        if await self._source.moves.fence() is None:
            await self._drained()
        await self._fence(self._source, self._move.name)
        return "copy"

    async def _drained(self) -> None:
        until = time.monotonic() + self._drain
        while True:
            for group in (await self._source.ledger.roster()).groups:
                if group.paused_at is None:
                    await self._source.controls.pause(group.name, self._mark, "the database moves")
            running = sum(each.running for each in (await self._source.ledger.tally()).groups)
            if not running or time.monotonic() >= until:
                break
            await asyncio.sleep(_GLANCE)
        self._say(f"is drained, {running} deliveries are in hand" if running else "is drained")

    async def _copy(self) -> Step:
        """Copy table by table. One that was begun by a mover before this one is begun again."""
        for table in self._source.transfer.tables:
            if table in self._move.counts:
                continue
            await self._clear(table)
            count, batch = 0, await self._source.transfer.read(table)
            while batch.rows:
                self._hold(await self._target.transfer.write(table, batch.rows, self._epoch))
                count += len(batch.rows)
                batch = await self._source.transfer.read(table, batch.last)
            await self._note(self._move, "copy", {**self._move.counts, table: count})
            if count:
                self._say(f"{count} rows of {table} are copied")
        self._hold(await self._target.transfer.set_marks(await self._source.transfer.marks(), self._epoch))
        if (on_move := self._fleet._on_move) is not None:  # noqa: SLF001
            answer = on_move(self._member(self._move.name).app, self._member(self._move.target).app)
            if inspect.isawaitable(answer):
                await answer
            self._say("on_move has returned")
        return "verify"

    async def _verify(self) -> Step:
        for table in self._source.transfer.tables:
            there, here = await self._source.transfer.sum(table), await self._target.transfer.sum(table)
            if there != here:
                counts = {each: count for each, count in self._move.counts.items() if each != table}
                await self._note(self._move, "copy", counts)
                raise StorageError(
                    f"{table} is not alike in {self._move.name!r} and {self._move.target!r}: {there.rows} rows and "
                    f"{here.rows}. Call fleet.move again, which copies it again, or fleet.undo_move"
                )
        self._say("is alike in both")
        return "reroute"

    async def _reroute(self) -> Step:
        """The record that this step has begun is what leads the name to the target; now all others are told."""
        await self._fleet.refresh()
        try:
            await self._source.transfer.raise_fence(replace(self._its_fence, is_over=True))
        except StorageError as error:  # its customer need not wait for the database that it has left
            self._say(f"{self._move.name} does not learn that its content has moved: {error}")
        return "resume"

    async def _resume(self) -> Step:
        if await self._target.moves.fence() is not None:
            await self._fence(self._target, self._move.target)  # takes it from a mover before this one
            await self._lift(self._target, self._move.target)
        await self._unpause(self._target)
        return "finished"

    async def _undo(self) -> None:
        copied = self._move.step == "undo"
        if await self._source.moves.fence() is not None:
            await self._fence(self._source, self._move.name)  # takes it from a mover before this one
            await self._lift(self._source, self._move.name)
        await self._unpause(self._source)
        self._say("is served where it was")
        try:
            await self._target.ping()
        except StorageError as error:
            raise StorageUnavailable(
                f"{self._move.name!r} is served where it was again, and {self._move.target!r} is not emptied yet: call "
                f"fleet.undo_move({self._move.name!r}) once it can be reached: {error}"
            ) from error
        await self._fence(self._target, self._move.target)
        for table in self._target.transfer.tables if copied else ():
            await self._clear(table)
        await self._lift(self._target, self._move.target)
        await self._note(self._move, "undone")

    # --- what steps share --------------------------------------------------------------------------------------

    @property
    def _mark(self) -> str:
        """Who has paused a group, for the audit, and to find it again."""
        return f"fleet.move to {self._move.target}"

    @property
    def _its_fence(self) -> Fence:
        return Fence(self._move.name, self._move.target, self._epoch)

    async def _fence(self, storage: Storage, name: str) -> None:
        await self._patiently(lambda: storage.transfer.raise_fence(self._its_fence), name, "fenced")

    async def _lift(self, storage: Storage, name: str) -> None:
        await self._patiently(lambda: storage.transfer.lift_fence(self._epoch), name, "free of its fence")

    async def _clear(self, table: str) -> None:
        cleared = partial(self._target.transfer.clear, table, self._epoch)
        self._hold(await self._patiently(cleared, self._move.target))

    async def _patiently(self, work: Callable[[], Awaitable[T]], name: str, becomes: str | None = None) -> T:
        """Do what needs locks, giving way to others while their transactions stay open."""
        pause, until = 0.25, time.monotonic() + _LOCKED_WITHIN
        while True:
            try:
                done = await work()
            except StorageUnavailable as error:
                if time.monotonic() >= until:
                    raise StorageUnavailable(
                        f"{name!r} could not be {becomes or 'emptied'} for {_LOCKED_WITHIN:g} s, as another session's "
                        "transaction that has used its tables stays open: `mainspring doctor` tells which. End it, and "
                        f"call fleet.move again, or fleet.undo_move: {error}"
                    ) from error
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, 5.0)
            else:
                if becomes is not None:
                    self._say(f"{name} is {becomes}")
                return done

    async def _unpause(self, storage: Storage) -> None:
        for group in (await storage.ledger.roster()).groups:
            if group.paused_by == self._mark:
                await storage.controls.resume(group.name, self._mark)

    async def _note(self, move: Move, step: Step, counts: Mapping[str, int] | None = None) -> None:
        counts = move.counts if counts is None else counts
        self._hold(await self._record.moves.note(move, self._epoch, step, counts))
        changed = move.step != step
        self._move = replace(move, step=step, counts=counts, epoch=self._epoch)
        if changed:
            self._say(f"step {step}")

    def _hold(self, held: bool) -> None:  # noqa: FBT001 - what an operation has returned
        if not held:
            raise LeaseLost(f"fleet.move:{self._move.name}", self._epoch, "a later mover has taken over")

    def _say(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._move, what)
