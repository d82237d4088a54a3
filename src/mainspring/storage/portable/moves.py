"""The record of moves in the home of a fleet, and the fence of a database whose content moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from mainspring.model.errors import Misuse
from mainspring.model.move import Fence, Move, Step
from mainspring.storage.migrations import migrations, objects
from mainspring.storage.operation import operation
from mainspring.storage.portable.dialect import SqlOperations
from mainspring.storage.script import Row, Script

_STAYS = frozenset(("migration", "move", "fence", "bell", "clock", "lease_epoch"))
"""Tables that are about the database itself: they have no fence, and are not copied."""

_read_counts = msgspec.json.Decoder(dict[str, int]).decode
_write_counts = msgspec.json.Encoder().encode


class SqlMoves(SqlOperations):
    """``Moves``, on which dialects agree."""

    @operation("read")
    def browse(self) -> Script[list[Move]]:
        rows = yield self._sql("move_browse")
        return [self._view(Move, (*row[:-1], _read_counts(row[-1]))) for row in rows]

    @operation("read")
    def fence(self) -> Script[Fence | None]:
        return read_fence((yield self._sql("fence_read")))

    @operation("write")
    def begin(self, name: str, target: str, origin: str, place: str, epoch: int) -> Script[int]:
        at = yield from self._turn_clock()
        id: int = (yield self._sql("move_begin", name, target, origin, place, epoch, at))[0][0]
        return id

    @operation("write")
    def note(self, move: Move, epoch: int, step: Step, counts: Mapping[str, int]) -> Script[bool]:
        at = yield from self._turn_clock()
        return bool((yield self._sql("move_note", move.id, epoch, step, _write_counts(counts).decode(), at)))

    @operation("write")
    def forget(self, move: Move, epoch: int) -> Script[None]:
        yield self._sql("move_forget", move.id, epoch)


@cache
def tables(package: str) -> tuple[str, ...]:
    """Return the tables whose rows move with a database, those of every migration that does not say otherwise."""
    made = objects(migrations(package)).items()
    return tuple(sorted(name for (kind, name), texts in made if kind == "table" and texts and name not in _STAYS))


def read_fence(rows: Sequence[Row]) -> Fence | None:
    """Read the row of ``fence_read``, if there is one."""
    for name, target, epoch, is_over in rows:
        return Fence(name, target, epoch, bool(is_over))
    return None


def refuse_other(fence: Fence, there: Fence | None) -> None:
    """Raise Misuse if a database has the fence of another move, or of a later mover."""
    if there is not None and ((there.name, there.target) != (fence.name, fence.target) or there.epoch > fence.epoch):
        raise Misuse(
            f"this database belongs to the move of {there.name!r} to {there.target!r}, which "
            f"{'is over' if there.is_over else 'is under way'}: finish or undo that one, or name another database"
        )
