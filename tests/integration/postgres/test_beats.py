"""Beats of many workers at once: none waits for another's, none is counted twice, and nobody who stands still holds
the others up."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.measures import SPANS, Measure
from mainspring.model.message import Settled
from mainspring.model.retention import Retention
from mainspring.model.verdict import DONE, Settlement
from mainspring.model.views import Beat, GroupRuns
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.upkeep import PostgresUpkeep, slot_of
from tests.integration.postgres.acting import DRIVERS, Connection, blocked, claim, declare, publish

pytestmark = pytest.mark.parametrize("driver", DRIVERS)

MINUTE = timedelta(minutes=1)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

# A process with something locked, in the midst of a transaction of ours.
STOPPED = """
import asyncio, sys
from datetime import timedelta
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Opening
from mainspring.storage.script import Statement

url, schema, driver = sys.argv[1:]
storage = PostgresStorage(url, schema=schema, driver=driver, timeout=timedelta(seconds=2))

def held():
    yield Opening(f"SELECT name FROM {schema}.groups WHERE name = $1 FOR UPDATE", ("mail",))
    print("held", flush=True)
    sys.stdin.readline()
    yield Statement("SELECT 1", ())

asyncio.run(storage._gateway.run(held(), "write"))
"""


def beat(worker: str, number: int = 1) -> Beat:
    told = (Measure("mail", "done", 0, 5), Measure("mail", "run", 7, 5))
    where = (worker, "shop", "host", 1, ("mail",), 0, "poll", {"mail": GroupRuns(5, 0)})
    return Beat(*where, measures=told, start_id="start", number=number)


async def begun(connection: Connection, schema: str, beat: Beat) -> None:
    """Run a beat in a transaction that stays open, with all that it locks."""
    statement = next(PostgresUpkeep(Names(schema), Nowhere(), HandSet()).beat.script(beat))
    await connection.execute("BEGIN")
    await connection.fetch(statement.sql, *statement.args)


async def counted(storage: PostgresStorage) -> tuple[int, int]:
    (counts,) = (await storage.ledger.tally()).groups
    rows = (await storage.measures.read(10, timedelta(hours=1), "mail")).rows
    return counts.handled, sum(count for _, what, _, count in rows if what == "done")


def apart(worker: str) -> str:
    """Another worker that counts in another slot."""
    return next(name for number in range(99) if slot_of(name := f"node-{number}") != slot_of(worker))


async def test_a_beat_that_stands_still_holds_up_no_other(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await storage.upkeep.beat(beat("node"))  # the group is said to be served
    await begun(connection, postgres_schema, beat("node", 2))

    await storage.upkeep.beat(beat(apart("node")))
    await storage.upkeep.prune(Retention(), 100)

    assert await counted(storage) == (10, 10)
    await connection.execute("COMMIT")
    assert await counted(storage) == (15, 15)


async def test_who_has_to_wait_with_a_beat_claims_and_settles_meanwhile(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await storage.upkeep.beat(beat("node"))
    await begun(connection, postgres_schema, beat("node", 2))
    neighbour = next(name for number in range(9_999) if slot_of(name := f"node-{number}") == slot_of("node"))

    waiting = asyncio.create_task(storage.upkeep.beat(beat(neighbour)))
    await blocked(another)
    await publish(storage, 3)
    held = await claim(storage)
    settled = await storage.mailbox.settle([Settlement(each.claim, DONE) for each in held], "node")
    waited = not waiting.done()
    await connection.execute("COMMIT")
    await waiting

    assert (len(held), settled, waited) == (3, Settled(), True)
    assert await counted(storage) == (15, 15)


async def test_a_beat_whose_first_sending_is_still_on_its_way_is_counted_once(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await begun(connection, postgres_schema, beat("node"))
    again = asyncio.create_task(storage.upkeep.beat(beat("node")))
    await blocked(another)

    await connection.execute("COMMIT")

    assert not (await again).drain
    assert await counted(storage) == (5, 5)


async def test_an_order_is_heard_by_a_beat_that_is_sent_again(storage: PostgresStorage) -> None:
    await storage.upkeep.beat(beat("node"))
    await storage.controls.drain("node", "ann", "")

    assert (await storage.upkeep.beat(beat("node"))).drain


async def test_counts_are_whole_at_every_moment_while_they_are_moved_and_added_to(
    make: Callable[[], PostgresStorage],
) -> None:
    first, *others = storages = [make() for _ in range(4)]
    await first.schema.migrate()
    await declare(first)
    seen: list[int] = []

    async def work(storage: PostgresStorage, number: int) -> None:
        for each in range(1, 31):
            storage.now = NOON + each * timedelta(seconds=7)
            await storage.upkeep.beat(beat(f"node-{number}", each))
            if each % 5 == number:
                await storage.upkeep.prune(Retention(), 20)

    async def look() -> None:
        first.now = NOON + timedelta(hours=1)
        while len(seen) < 20 or seen[-1] < 3 * 30 * 5:
            seen.append((await counted(first))[1])

    async with asyncio.timeout(60):
        await asyncio.gather(look(), *(work(storage, number) for number, storage in enumerate(others)))
    await first.upkeep.prune(Retention(), 1_000)

    assert seen == sorted(seen)
    assert await counted(storages[0]) == (450, 450)


async def test_what_is_over_is_moved_out_of_its_slots_and_what_is_not_stays(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    storage.now = NOON
    for number in range(100):
        await storage.upkeep.beat(beat(f"node-{number}"))

    async def left() -> dict[int, int]:
        rows = await connection.fetch(f"SELECT span, count(*) FROM {postgres_schema}.measure_slot GROUP BY span")
        return {row["span"]: row["count"] for row in rows}

    slots = len({slot_of(f"node-{number}") for number in range(100)})
    full = await left()
    storage.now = NOON + 11 * timedelta(seconds=1)
    await storage.upkeep.prune(Retention(), 2_000)
    later = await left()
    storage.now = NOON + 11 * MINUTE
    await storage.upkeep.prune(Retention(), 2_000)

    # Two counts, of the group and of all groups together.
    assert full == dict.fromkeys(SPANS, 4 * slots)
    assert later == {600: 4 * slots}
    assert await left() == {}
    assert slots <= 64


async def test_a_beat_of_an_earlier_release_is_read_together_with_ours(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    storage.now = NOON
    await storage.upkeep.beat(beat("node"))
    await connection.execute(
        f"INSERT INTO {postgres_schema}.measure (span, at, group_name, what, bin, count) "
        "VALUES (10, $1, 'mail', 'done', 0, 7)",
        NOON,
    )

    before = (await storage.measures.read(10, MINUTE, "mail")).rows
    storage.now = NOON + 15 * timedelta(seconds=1)
    await storage.upkeep.prune(Retention(), 100)

    assert before == ((NOON, "done", 0, 12), (NOON, "run", 7, 5))
    assert (await storage.measures.read(10, MINUTE, "mail")).rows == before


async def test_a_worker_of_an_earlier_release_is_asked_to_drain_and_never_says_that_it_does(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    # Its statement knows neither starts nor drains.
    beats = f"""
        INSERT INTO {postgres_schema}.worker (name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped)
        VALUES ('old', 'shop', 'host', 1, ARRAY['mail'], 0, 'poll', now(), now(), '{{}}')
        ON CONFLICT (name) DO UPDATE SET in_hand = excluded.in_hand, beat_at = excluded.beat_at
    """
    await connection.execute(beats)
    await storage.controls.drain("old", "ann", "")
    await connection.execute(beats)

    (worker,) = (await storage.ledger.roster()).workers
    assert (worker.condition, worker.drained_by) == ("drain asked", "ann")


@pytest.mark.timeout(120)
async def test_a_process_that_is_stopped_within_a_transaction_lets_go_in_time(
    storage: PostgresStorage, postgres_url: str, postgres_schema: str, driver: str, connection: Connection
) -> None:
    await declare(storage)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STOPPED, postgres_url, postgres_schema, driver),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"held\n"
        os.kill(process.pid, signal.SIGSTOP)

        beaten = await storage.upkeep.beat(beat("node"))  # it passes over the group that is locked
        async with asyncio.timeout(60):
            await connection.execute(f"UPDATE {postgres_schema}.groups SET served_at = now() WHERE name = 'mail'")
    finally:
        process.kill()
        await process.wait()

    assert not beaten.drain


async def test_beats_that_come_in_a_wrong_order_count_for_the_latest(storage: PostgresStorage) -> None:
    await declare(storage)
    for number in (1, 2):
        await storage.upkeep.beat(beat("node", number))

    await storage.upkeep.beat(replace(beat("node", 1), in_hand=9))

    (worker,) = (await storage.ledger.roster()).workers
    assert worker.in_hand == 0
    assert await counted(storage) == (10, 10)
