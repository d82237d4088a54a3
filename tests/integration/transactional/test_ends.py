"""How a transaction ends that somebody ends: its time is over, the worker stops, or what stands around it fails."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from mainspring import Context, Middleware, events
from mainspring.app.consume.middleware import Next
from mainspring.storage.sqlite.lender import Loan
from tests.integration.transactional.acting import consume, heard_by, nothing, until
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import WAYS, Way

BOTH = [way for way in WAYS if way.name in ("True, asyncpg", "True, plain function", "True, SQLite")]
ways = pytest.mark.parametrize("way", BOTH, ids=repr)


class FailsAfter(Middleware):
    async def handling(self, ctx: Context, call_next: Next) -> object:
        await call_next()
        raise RuntimeError("too late")


@ways
async def test_what_fails_after_the_commit_undoes_nothing(
    way: Way, given: Any, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    app = place.app(way)
    heard = heard_by(app)
    consume(app, way, given, middleware=[FailsAfter()])
    with caplog.at_level(logging.WARNING):
        async with app.worker():
            await app.publish("deposit", 1)
            await until(lambda: heard == [1])

    assert place.effects() == [1]
    assert place.rows("SELECT count(*) FROM {}run")[0][0] == 0
    assert any("was committed, but an error followed the commit: too late" in each.message for each in caplog.records)


@pytest.mark.parametrize("way", [each for each in BOTH if each.name == "True, SQLite"], ids=repr)
async def test_a_claim_that_ends_with_its_own_commit_is_not_lost(
    way: Way, given: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, completed = place.app(way), list[str]()
    heard = heard_by(app)
    consume(app, way, given)
    app.on(events.Completed, lambda event: completed.append(event.group))
    end = Loan.end

    async def told_before_it_knows(loan: Loan, how: Any) -> None:
        await end(loan, how)
        for run in worker._in_hand.runs():  # as the keeper does, which finds no claim any more
            worker._lost(run.delivery.claim)
        await asyncio.sleep(0)

    monkeypatch.setattr(Loan, "end", told_before_it_knows)
    async with app.worker() as worker:
        await app.publish("deposit", 1)
        await until(lambda: heard == [1])
        await until(lambda: "deposit" in completed)

    assert place.effects() == [1]


class RunsOut(Middleware):
    async def handling(self, ctx: Context, call_next: Next) -> object:
        result = await call_next()
        ctx._run.ask_to_stop("timeout")
        return result


@ways
async def test_who_was_committed_in_time_has_not_failed(
    way: Way, given: Any, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    app = place.app(way)
    heard, told = heard_by(app), list[str]()
    consume(app, way, given, middleware=[RunsOut()], keep="all")
    app.on(events.Completed, lambda event: told.append(event.group))
    with caplog.at_level(logging.INFO):
        async with app.worker():
            await app.publish("deposit", 1)
            await until(lambda: heard == [1] and "deposit" in told)

    assert [row[0] for row in place.rows("SELECT status FROM {}run WHERE group_name = 'deposit'")] == ["done"]
    assert not any("failed" in each.getMessage() for each in caplog.records)


@ways
async def test_who_runs_out_of_time_is_undone(way: Way, given: Any, place: Place) -> None:
    """A coroutine is cancelled; a thread can only be told, and what it returns too late is undone all the same."""
    app = place.app(way)
    heard = heard_by(app)
    if way.threaded:

        @app.consumer("deposit", transactional=given, timeout="200ms", retry="none")
        def deposit(n: int, ctx: Context) -> None:
            way.write(ctx.tx, n)
            ctx.sync.publish("deposited", n)
            assert ctx.wait_cancelled("60s")
    else:

        @app.consumer("deposit", group="deposit", transactional=given, timeout="200ms", retry="none")
        async def deposit_async(n: int, ctx: Context) -> None:
            await way.write(ctx.tx, n)
            await ctx.publish("deposited", n)
            await asyncio.Event().wait()

    async with app.worker():
        await app.publish("deposit", 1)
        await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)

    assert (place.effects(), heard) == ([], [])
    assert place.rows("SELECT kind FROM {}dead")[0][0] == "timeout"


@ways
async def test_who_is_within_its_grace_is_committed(way: Way, given: Any, place: Place) -> None:
    app = place.app(way)
    begun, stopping = threading.Event(), threading.Event()

    def wait(_n: int, _ctx: Context) -> object:
        begun.set()
        return stopping.wait(60) if way.threaded else None

    consume(app, way, given, wait if way.threaded else nothing, before=nothing if way.threaded else wait)
    worker = app.worker()
    async with worker as working:
        await app.publish("deposit", 1)
        await until(begun.is_set)
        stop = asyncio.create_task(working.stop())
        stopping.set()
        await stop

    assert place.effects() == [1]
    assert place.rows("SELECT count(*) FROM {}delivery WHERE group_name = 'deposit'")[0][0] == 0
