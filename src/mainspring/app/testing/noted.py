"""A timetable that notes what is published."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, cast

from mainspring.app.testing.book import Book
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Decide, Due, Note, Occurrence, ScheduleAdvance, ScheduleTick
from mainspring.storage.contract import Timetable


def noted(timetable: Timetable, book: Book) -> Timetable:
    """The timetable, which notes every occurrence in the book."""
    return cast("Timetable", _NotedTimetable(timetable, book))


class _NotedTimetable:
    def __init__(self, timetable: Timetable, book: Book) -> None:
        self._timetable = timetable
        self._book = book

    async def look(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> ScheduleTick:
        """See ``Timetable.look``."""
        drafts: list[Draft] = []

        def listed(due: Due, now: datetime) -> ScheduleAdvance | None:
            move = decide(due, now)
            if move is not None:
                drafts.extend(each.draft for each in move.occurrences)
            return move

        look = await self._timetable.look(app, listed, limit, leave)
        # There is no other process to be faster: what was decided was stored, unless its id is another message's.
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

    def __getattr__(self, name: str) -> Any:
        """Nothing else publishes: it is the timetable's own."""
        return getattr(self._timetable, name)
