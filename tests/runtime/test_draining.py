"""A worker that an operator drains: it claims no more, finishes what it has, and stays."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.model.retention import Retention
from mainspring.model.views import Beat, Orders, WorkerView
from mainspring.runtime.handler import Run
from tests.runtime.stage import MILLISECOND, Stage


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers beat often: it is by its beat that one hears of it."""
    monkeypatch.setattr("mainspring.runtime.janitor._ROUND", 0.05)


async def test_a_draining_worker_finishes_what_it_has_and_claims_no_more(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()

    async def handle(_: Delivery, __: Run) -> None:
        await gate.wait()

    first = await stage.publish(2)
    caplog.set_level(logging.INFO, "mainspring.worker")
    async with stage.worker(stage.handler(handle, concurrency=2)) as worker:
        await stage.until(lambda: len(stage.calls) == 2)
        view = await _seen(stage)
        await stage.storage.controls.drain(view.name, "ann", "deploy")
        await stage.until(lambda: not worker.serves("work"))
        later = await stage.publish(2)
        gate.set()
        await stage.until(lambda: _in_state(stage, "ready", 2))

        # It has had hands free, a bell and another beat: what came later is still there.
        worker.wake()
        await _beats_again(stage)

        assert {each.message_id for each in stage.calls} == set(first)
        assert {each.message_id for each in await stage.browse("ready")} == set(later)
        assert worker.ready
        assert (await _seen(stage)).drained_by == "ann"

        await stage.storage.controls.resume_worker(view.name, "bob")
        await stage.until(lambda: len(stage.calls) == 4)
        await stage.until(stage.empty)
    assert [each.message for each in caplog.records if "operator" in each.message] == [
        "draining: an operator asked this worker to stop claiming; it finishes 2 in hand",
        "resumed: an operator asked this worker to claim again",
    ]


async def test_a_draining_worker_reaps_nothing_either(stage: Stage) -> None:
    async def handle(_: Delivery, __: Run) -> None:
        return None

    # Who claims for so short a time looks often for what others died with.
    async with stage.worker(stage.handler(handle), claim_time=100 * MILLISECOND) as worker:
        await stage.until(lambda: worker.ready)
        view = await _seen(stage)
        await stage.storage.controls.drain(view.name, "ann", "")
        await stage.until(lambda: not worker.serves("work"))
        await stage.publish(1)
        await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "who has died", timedelta())
        turns = worker.progress()["fetcher"].turns

        def has_looked() -> bool:
            worker.wake()
            return worker.progress()["fetcher"].turns > turns + 20

        await stage.until(has_looked)

        assert stage.calls == []
        assert len(await stage.browse("lapsed")) == 1


async def test_a_draining_worker_stops_in_good_order(stage: Stage) -> None:
    async def handle(_: Delivery, __: Run) -> None:
        return None

    async with stage.worker(stage.handler(handle)) as worker:
        view = await _seen(stage)
        await stage.storage.controls.drain(view.name, "ann", "")
        await stage.until(lambda: not worker.serves("work"))

    assert (await stage.storage.ledger.roster()).workers == ()


async def test_a_worker_says_at_once_that_it_has_heard(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Beat] = []
    heard = asyncio.Event()
    beat = stage.storage.upkeep.beat

    async def noted(report: Beat) -> Orders:
        told.append(report)
        if report.draining:
            heard.set()
        return await beat(report)

    monkeypatch.setattr(stage.storage.upkeep, "beat", noted)
    async with stage.worker(stage.handler(lambda *_: None), app="shop", name="node"):
        await stage.until(lambda: bool(told))
        # No other round comes: it is the answer to the order that says so.
        monkeypatch.setattr("mainspring.runtime.janitor._ROUND", 600.0)
        view = await _seen(stage)
        await stage.storage.controls.drain(view.name, "ann", "")
        asked = (await _seen(stage)).condition
        await stage.until(heard.is_set)
        await stage.until(lambda: _is(stage, "drained"))

    assert (view.name, asked) == ("shop/node", "drain asked")
    first = next(number for number, each in enumerate(told) if each.draining)
    assert [each.number for each in told] == list(range(1, len(told) + 1))
    assert {each.start_id for each in told} == {told[0].start_id}
    assert told[first - 1].number == told[first].number - 1


async def test_a_ring_is_enough_for_a_worker_to_hear_of_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.runtime.janitor._ROUND", 600.0)
    async with stage.worker(stage.handler(lambda *_: None)):
        view = await _seen(stage)
        await stage.storage.controls.drain(view.name, "ann", "")
        await stage.storage.doorbell.ring()
        await stage.until(lambda: _is(stage, "drained"))

        await stage.storage.controls.resume_worker(view.name, "ann")
        await stage.storage.doorbell.ring()
        await stage.until(lambda: _is(stage, "active"))


async def test_a_worker_that_was_frozen_stays_drained_and_one_that_starts_anew_is_not(stage: Stage) -> None:
    handler = stage.handler(lambda *_: None)
    async with stage.worker(handler, name="node") as worker:
        view = await _seen(stage)
        await stage.storage.controls.drain(view.name, "ann", "")
        await stage.until(lambda: _is(stage, "drained"))
        # It is heard of for the first time again after two days, when the roster has forgotten it.
        await stage.storage.upkeep.prune(Retention(workers=timedelta()), 10)
        await stage.until(lambda: _is(stage, "drained"))
        thawed = worker.serves("work")
        async with stage.worker(handler, name="node") as anew:
            await stage.until(lambda: _is(stage, "active"))
            assert anew.serves("work")

    assert not thawed


async def _is(stage: Stage, condition: str) -> bool:
    return [each.condition for each in (await stage.storage.ledger.roster()).workers] == [condition]


async def _seen(stage: Stage) -> WorkerView:
    """The worker, as soon as it has reported itself."""

    async def there() -> bool:
        return bool((await stage.storage.ledger.roster()).workers)

    await stage.until(there)
    (view,) = (await stage.storage.ledger.roster()).workers
    return view


async def _beats_again(stage: Stage) -> None:
    before = (await _seen(stage)).beat_at

    async def later() -> bool:
        return (await _seen(stage)).beat_at > before

    await stage.until(later)


async def _in_state(stage: Stage, state: str, count: int) -> bool:
    return len(await stage.browse(state)) == count and not await stage.browse("running")
