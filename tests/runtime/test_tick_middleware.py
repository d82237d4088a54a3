"""The middleware of publishing around a tick: it is told whether the occurrences were stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Draft
from mainspring.model.schedule import Decide, Due, ScheduleAdvance, ScheduleTick
from mainspring.runtime.schedules.declarations import Scheduling
from tests.runtime.scheduling import HOUR, Node, Scene


class BreaksOff:
    """A timetable whose transaction fails after a schedule was decided, as long as ``is_broken``."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.is_broken = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def tick(self, app: str, decide: Decide, *args: Any) -> ScheduleTick:
        def decided(due: Due, now: datetime) -> ScheduleAdvance | None:
            advance = decide(due, now)
            if self.is_broken:
                raise StorageUnavailable("the connection broke")
            return advance

        found: ScheduleTick = await self._inner.tick(app, decided, *args)
        return found


async def test_a_tick_that_fails_leaves_the_middleware_with_its_error() -> None:
    scene, told = Scene(), list[BaseException | None]()
    await scene.prepare()
    await scene.put()

    @contextmanager
    def around(drafts: Sequence[Draft]) -> Iterator[Sequence[Draft]]:
        try:
            yield drafts
        except StorageUnavailable as error:
            told.append(error)
            raise
        told.append(None)

    storage = scene.storage.sibling()
    timetable = BreaksOff(storage.timetable)
    storage.timetable = timetable
    node = Node(storage, scene.clock, Scheduling("app", around=around), HOUR)

    with pytest.raises(StorageUnavailable):
        await node.turn()
    assert [str(each) for each in told] == ["the connection broke"]
    assert await scene.due_times() == []

    timetable.is_broken = False
    await node.turn()
    assert told[1:] == [None]
    assert len(await scene.due_times()) == 1
