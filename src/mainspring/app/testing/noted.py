"""Scripts and timetables that note what is published."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.app.testing.book import Book
from mainspring.app.transactions import Planning, Posting
from mainspring.model.join import Join
from mainspring.model.message import Cancelled, Draft, Published, Receipt, Settled
from mainspring.model.schedule import Decide, Due, Look, Move, Note, Occurrence, Rewrite, Schedule, Timesheet
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Keyed, Timetable
from mainspring.storage.script import Script
from mainspring.storage.sql import Now


class NotedTimetable:
    """``Timetable`` that notes every occurrence in the book."""

    def __init__(self, timetable: Timetable, book: Book) -> None:
        self._timetable = timetable
        self._book = book

    async def look(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> Look:
        """See ``Timetable.look``."""
        drafts: list[Draft] = []

        def noted(due: Due, now: datetime) -> Move | None:
            move = decide(due, now)
            if move is not None:
                drafts.extend(each.draft for each in move.occurrences)
            return move

        look = await self._timetable.look(app, noted, limit, leave)
        # Nobody else is there to be faster: what was decided was stored, unless its id is another message's.
        drafts += look.continuations
        known = {each.draft.id: each.topic for each in look.conflicts}
        conflicts = {place: known[each.id] for place, each in enumerate(drafts) if each.id in known}
        self._book.note_sent(drafts, Published(frozenset(each.id for each in drafts).difference(known), conflicts))
        return look

    async def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Published:
        """See ``Timetable.enter``."""
        published = await self._timetable.enter(occurrences, note)
        self._book.note_sent([each.draft for each in occurrences], published)
        return published

    async def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> list[Schedule | None]:
        """See ``Timetable.rewrite``."""
        return await self._timetable.rewrite(names, how, note, waits=waits)

    async def read(self, names: Collection[str] | None = None, app: str | None = None) -> Timesheet:
        """See ``Timetable.read``."""
        return await self._timetable.read(names, app)

    async def declared(self, app: str, names: Collection[str], every: timedelta) -> None:
        """See ``Timetable.declared``."""
        await self._timetable.declared(app, names, every)

    async def retire(self, app: str, silent: timedelta) -> list[str]:
        """See ``Timetable.retire``."""
        return await self._timetable.retire(app, silent)

    async def freeze(self, app: str, by: str, reason: str) -> None:
        """See ``Timetable.freeze``."""
        await self._timetable.freeze(app, by, reason)

    async def thaw(self, app: str, by: str) -> bool:
        """See ``Timetable.thaw``."""
        return await self._timetable.thaw(app, by)


class NotedPlanning:
    """``Planning`` that notes what is published."""

    def __init__(self, scripts: Planning, book: Book) -> None:
        self._scripts = scripts
        self._book = book

    def rewrite(self, names: Sequence[str], how: Rewrite, note: Note | None, now: Now) -> Script[list[Schedule | None]]:
        """See ``Planning.rewrite``."""
        return self._scripts.rewrite(names, how, note, now)

    def enter(self, occurrences: Sequence[Occurrence], note: Note, now: Now) -> Script[Published]:
        """See ``Planning.enter``."""
        published = yield from self._scripts.enter(occurrences, note, now)
        self._book.note_sent([each.draft for each in occurrences], published)
        return published

    def read(self, names: Collection[str] | None, app: str | None, now: Now) -> Script[Timesheet]:
        """See ``Planning.read``."""
        return self._scripts.read(names, app, now)


class NotedScripts:
    """``Posting`` that notes what was published."""

    def __init__(self, scripts: Posting, book: Book) -> None:
        self._scripts = scripts
        self._book = book

    def publish(self, drafts: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Posting.publish``."""
        published = yield from self._scripts.publish(drafts, now)
        self._book.note_sent(drafts, published)
        return published

    def publish_unique(self, draft: Draft, likeness: Likeness, now: Now) -> Script[Receipt]:
        """See ``Posting.publish_unique``."""
        receipt = yield from self._scripts.publish_unique(draft, likeness, now)
        self._book.note_unique(draft, receipt)
        return receipt

    def join(self, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
        """See ``Posting.join``."""
        published = yield from self._scripts.join(join, members, now)
        self._book.note_sent(members, published)
        return published

    def pending(self, limits: Mapping[str, int], now: Now) -> Script[Mapping[str, int]]:
        """See ``Posting.pending``."""
        return self._scripts.pending(limits, now)

    def cancel(self, which: UUID | Keyed, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Posting.cancel``."""
        return self._scripts.cancel(which, reason, now)

    def settle(self, settlements: Sequence[Settlement], owner: str, now: Now) -> Script[Settled]:
        """See ``Posting.settle``."""
        return self._scripts.settle(settlements, owner, now)
