"""Two services with a broker between them, both killed −9 over and over: every message has its effect, once."""

import asyncio
import contextlib
import random
import time
from pathlib import Path

import pytest

from tests.faults.places import KINDS, Place, shared_place
from tests.faults.relaying import IN_HAND
from tests.faults.report import Report
from tests.faults.services import Found, declare, services
from tests.faults.waiting import TooLateError

PROCESSES = 2
MESSAGES = 300


class Trouble:
    """Kills relays and intakes in turn while messages are published."""

    def __init__(self, folder: Path, url: str, schema: str, seed: int) -> None:
        self._folder = folder
        self._url = url
        self._schema = schema
        self._chance = random.Random(seed)
        self.revived = 0

    async def run(self, at: Place, kills: int, count: int, *, bug: bool = False) -> Found:
        await declare(at.source, at.witness)
        async with services(self._folder, self._url, self._schema, at, processes=PROCESSES, bug=bug) as running:
            for number in range(kills):
                await running.publish(range(number * count // kills, (number + 1) * count // kills))
                await asyncio.sleep(self._chance.uniform(0, 0.3))
                killed = running.intakes if number % 2 else running.relays
                await asyncio.to_thread(killed.kill, self._chance.randrange(PROCESSES))
            since = time.monotonic()
            if bug:
                with contextlib.suppress(TooLateError):
                    await running.effective(range(count), patience=10)
            else:
                self.revived = await running.revived(range(count))
            return await running.found(await running.drained(), since=since, bound=kills // 2 * IN_HAND)


@pytest.fixture
def trouble(tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int) -> Trouble:
    return Trouble(tmp_path, postgres_url, postgres_schema, seed)


@pytest.mark.parametrize("kind", KINDS)
async def test_relay_and_intake_are_killed_and_every_message_has_one_effect(
    kind: str, trouble: Trouble, report: Report, large: bool
) -> None:
    kills, count = (200, 10 * MESSAGES) if large else (20, MESSAGES)

    async with shared_place(kind) as at:
        found = await trouble.run(at, kills, count)

    report(
        f"brokers, relay and intake killed −9, {at.kind}", f"kills={kills}", found.line(), f"revived={trouble.revived}"
    )
    assert found.flaws == []
    assert found.sent == count


async def test_what_counts_as_sent_before_its_confirm_or_is_acknowledged_before_it_is_stored_is_lost(
    trouble: Trouble, report: Report
) -> None:
    async with shared_place("redis") as at:
        found = await trouble.run(at, 20, 200, bug=True)

    report("teeth: sent before the confirm, acknowledged before the commit", found.line(), "(must be lost>0)")
    # Which of the two has lost it is luck: a kill may find the relays with nothing on its way.
    assert found.lost
