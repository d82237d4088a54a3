"""What a process died with is taken over: what proves harmless keeps nothing waiting, what may be deadly runs alone."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.handler import Batching, Handler, Program, Run
from mainspring.runtime.worker import Worker
from mainspring.timing.backoff import NO_RETRY
from tests.runtime.stage import CLAIM_TIME, Stage

NOW = timedelta()


@pytest.fixture(autouse=True)
def short_probation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.runtime.claims_in_hand.PROBATION", 0.02)


class Company:
    """A handler that lasts until it is let go, and notes with whom each message runs."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.beside: dict[int, set[int]] = {}
        self.let_go = asyncio.Event()

    async def __call__(self, delivery: Delivery, _: Run) -> None:
        self.running.add(delivery.id)
        for each in self.running:
            self.beside.setdefault(each, set()).update(self.running - {each})
        await self.let_go.wait()
        self.running.discard(delivery.id)


async def lapsed(stage: Stage, count: int, group: str = "work") -> list[Delivery]:
    """So many deliveries of a process that died."""
    await stage.declare(group)
    await stage.publish(count, topic=group)
    return await stage.storage.mailbox.claim([ClaimRequest(group, count, ALL_LEVELS)], "a process that died", NOW)


async def past_probation(stage: Stage, worker: Worker) -> None:
    """Until what runs has run for so long, and claims were looked for so often, that another would have been taken."""
    later = time.monotonic() + CLAIM_TIME.total_seconds() / 5
    await stage.until(lambda: time.monotonic() > later)
    turns = worker.progress()["fetcher"].turns

    def has_looked() -> bool:
        worker.wake()
        return worker.progress()["fetcher"].turns > turns + 20

    await stage.until(has_looked)


async def test_suspects_that_run_on_keep_no_other_waiting(stage: Stage) -> None:
    await lapsed(stage, 8)
    company = Company()

    async with stage.worker(stage.handler(company, concurrency=8)):
        await stage.until(lambda: len(company.running) == 8)
        company.let_go.set()
        await stage.until(stage.empty)

    assert [call.deaths for call in stage.calls] == [0] * 8


async def test_a_suspect_on_probation_is_the_only_one_of_its_group_and_no_other_group_waits_for_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.claims_in_hand.PROBATION", 3600.0)
    await lapsed(stage, 3)
    await lapsed(stage, 3, "other")
    company = Company()

    async with stage.worker(stage.handler(company), stage.handler(company, group="other")) as worker:
        await stage.until(lambda: len(company.running) == 2)
        turns = worker.progress()["fetcher"].turns
        await stage.until(lambda: worker.progress()["fetcher"].turns > turns + 2)
        groups = sorted(call.group for call in stage.calls)
        company.let_go.set()
        await stage.until(stage.empty)

    assert groups == ["other", "work"]


async def test_one_that_has_cost_a_process_runs_beside_no_other_suspect(stage: Stage) -> None:
    held = await lapsed(stage, 6)
    await lapsed(stage, 2, "other")
    accused = [await stage.storage.mailbox.reap(["work"], "another that died", NOW) for _ in range(2)]
    company, ids = Company(), {each.id for each in accused if each is not None}

    async with stage.worker(stage.handler(company), stage.handler(company, group="other")):
        async with asyncio.timeout(60):
            while len(stage.calls) < 8:
                before = len(stage.calls)
                await stage.until(lambda: len(company.running) > 0)
                if company.running.isdisjoint(ids):
                    # All who may run together do, before one of them ends.
                    await stage.until(lambda: len(company.running) == 6)
                company.let_go.set()

                def goes_on(before: int = before) -> bool:
                    return not company.running or len(stage.calls) > before

                await stage.until(goes_on)
                company.let_go.clear()
        company.let_go.set()
        await stage.until(stage.empty)

    assert len(ids) == 2
    assert ids < {each.id for each in held}
    assert all(not company.beside[each] for each in ids)
    assert {call.deaths for call in stage.calls if call.id in ids} == {1}
    assert {call.deaths for call in stage.calls if call.id not in ids} == {0}


async def test_no_suspect_is_taken_while_one_runs_that_has_cost_a_process(stage: Stage) -> None:
    await stage.declare("work", "other")
    await lapsed(stage, 1)
    await stage.storage.mailbox.reap(["work"], "another that died", NOW)
    company = Company()

    handlers = stage.handler(company), stage.handler(company, group="other")
    async with stage.worker(*handlers, claim_time=CLAIM_TIME) as worker:
        await stage.until(lambda: len(company.running) == 1)
        [accused] = company.running
        for group in ("work", "other"):
            await lapsed(stage, 1, group)
        await past_probation(stage, worker)
        company.let_go.set()
        await stage.until(stage.empty)

    assert [(call.id == accused, call.deaths) for call in stage.calls] == [(True, 1), (False, 0), (False, 0)]
    assert company.beside[accused] == set()


async def test_one_that_has_cost_a_process_is_not_taken_while_other_suspects_run(stage: Stage) -> None:
    await lapsed(stage, 3)
    accused = await stage.storage.mailbox.reap(["work"], "another that died", NOW)
    assert accused is not None
    company = Company()

    async with stage.worker(stage.handler(company), claim_time=CLAIM_TIME) as worker:
        await stage.until(lambda: len(company.running) == 2)
        await past_probation(stage, worker)
        company.let_go.set()
        await stage.until(stage.empty)

    assert [(call.id == accused.id, call.deaths) for call in stage.calls] == [(False, 0), (False, 0), (True, 1)]
    assert company.beside[accused.id] == set()


async def test_a_suspect_of_a_batch_consumer_that_waits_for_a_hand_is_not_proven(stage: Stage) -> None:
    await lapsed(stage, 3)
    let_go = asyncio.Event()

    async def handle(_: Delivery, __: Run) -> None:
        await let_go.wait()

    handler = stage.handler(handle, concurrency=1, batching=Batching(size=10, linger=0.0))
    async with stage.worker(handler) as worker:
        await stage.until(lambda: worker.in_hand == 2)
        turns = worker.progress()["fetcher"].turns
        await stage.until(lambda: worker.progress()["fetcher"].turns > turns + 2)
        in_hand = worker.in_hand
        let_go.set()
        await stage.until(stage.empty)

    assert in_hand == 2


async def test_a_suspect_in_a_process_of_its_own_keeps_none_waiting(stage: Stage) -> None:
    await lapsed(stage, 2)
    first = await stage.storage.mailbox.reap(["work"], "here", timedelta(minutes=1))
    assert first is not None
    program = Program("entry", "work", "module", "function", "module")
    apart, here = (Handler("work", lambda *_: None, NO_RETRY, program=each) for each in (program, None))
    in_hand, others = ClaimsInHand(), ClaimsInHand()

    in_hand.take(Run(first, apart, 0.0))
    others.take(Run(first, here, 0.0))

    assert in_hand.probation("work") == 0.0
    assert others.probation("work") > 0.0
