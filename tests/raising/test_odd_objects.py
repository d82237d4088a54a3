"""Errors and verdicts that are objects of the user's own, and do as they like when they are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mainspring import Done, Mainspring
from mainspring.model.text import described
from tests.raising.explosives import TEXT
from tests.runtime.stage import Stage


class NoTraceback(Exception):
    @property
    def __traceback__(self) -> NoReturn:  # type: ignore[override]
        raise asyncio.CancelledError(TEXT)


class NoClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise KeyError(TEXT)


class CancellingClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise asyncio.CancelledError(TEXT)


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            raise ValueError(TEXT)
        return super().__getattribute__(name)


class NoName(Exception, metaclass=Nameless):
    pass


class Fickle(Done):
    """Answers once, and then otherwise."""

    asked = 0

    @property
    def output(self) -> Any:
        Fickle.asked += 1
        if Fickle.asked == 1:
            return None
        raise ValueError(TEXT)


async def over(app: Mainspring, count: int) -> list[str]:
    """How the runs of so many messages ended, when nothing is in hand any more."""
    async with app.worker() as worker:
        for place in range(count):
            await app.publish("work", place)
        async with asyncio.timeout(60):
            while len(runs := await app.messages.runs()) < count or worker.in_hand:
                await asyncio.sleep(0.01)
    return sorted(run.status for run in runs)


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("kind", [NoTraceback, NoClass, CancellingClass, NoName], ids=range(4))
async def test_an_error_that_cannot_be_looked_at_is_a_failure_like_any_other(
    kind: Callable[[str], BaseException], threaded: bool
) -> None:
    app = Mainspring("memory://", name="work", keep="all")

    def work(place: int) -> None:
        if place == 0:
            raise kind(TEXT)

    async def work_on_loop(place: int) -> None:
        work(place)

    app.consumer("work", group="work", retry="none", concurrency=1)(work if threaded else work_on_loop)

    assert await over(app, 2) == ["dead", "done"]


def test_no_metaclass_keeps_an_error_from_being_described() -> None:
    assert described(NoName(TEXT)) == f"NoName: {TEXT}"


async def test_a_verdict_that_answers_otherwise_later_is_written_as_it_was_read(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/work.db", name="work", keep="all")
    Fickle.asked = 0

    @app.consumer("work", group="work")
    async def work(place: int) -> Done:
        return object.__new__(Fickle) if place == 0 else Done("fine")

    assert await over(app, 4) == ["done"] * 4


async def test_a_verdict_that_cannot_be_written_stops_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = stage.storage.mailbox.settle
    ids = await stage.publish(5)

    async def picky(settlements: Any, *rest: Any) -> Any:
        bad = next(call.claim for call in stage.calls if call.message_id == ids[0])
        if any(each.claim == bad for each in settlements):
            raise ValueError(TEXT)
        return await settle(settlements, *rest)

    async def only_one() -> bool:
        return len(await stage.browse("live")) == 1

    monkeypatch.setattr(stage.storage.mailbox, "settle", picky)
    async with stage.worker(stage.handler(lambda *_: None)) as worker:
        await stage.until(lambda: len(stage.calls) == 5)
        await stage.until(only_one)
        await stage.until(lambda: worker.in_hand == 0)
        await stage.until(lambda: worker.progress()["settler"].failures == 0)
