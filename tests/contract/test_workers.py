"""Workers: on the roster while they beat, and what they did is never uncounted."""

from dataclasses import replace

import pytest

from mainspring.model.measures import Measure
from mainspring.model.views import Beat, BrokerLink, GroupRuns
from mainspring.model.worker import Declarer
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, MINUTE, NOON, SECOND, counts, declare, turn


def beat(worker: str = "node-1", *groups: str, in_hand: int = 0, **runs: GroupRuns) -> Beat:
    return Beat(worker, "shop", "host-1", 4242, groups or ("mailer",), in_hand, "notify", runs)


@pytest.mark.memory
async def test_a_worker_that_beats_is_on_the_roster(storage: Storage) -> None:
    await storage.upkeep.beat(beat("node-1", "mailer", "analytics", in_hand=3))

    roster = await storage.ledger.roster()

    (worker,) = roster.workers
    assert roster.now == NOON
    assert (worker.name, worker.app, worker.host, worker.pid) == ("node-1", "shop", "host-1", 4242)
    assert worker.groups == ("mailer", "analytics")
    assert (worker.in_hand, worker.bell) == (3, "notify")
    assert worker.started_at == worker.beat_at == NOON


async def test_a_beat_renews_everything_but_the_start(storage: Storage) -> None:
    await storage.upkeep.beat(beat())

    turn(storage, MINUTE)
    await storage.upkeep.beat(Beat("node-1", "shop", "host-2", 1, ("other",), 9, "poll"))

    (worker,) = (await storage.ledger.roster()).workers
    assert (worker.host, worker.pid, worker.groups) == ("host-2", 1, ("other",))
    assert (worker.in_hand, worker.bell) == (9, "poll")
    assert (worker.started_at, worker.beat_at) == (NOON, NOON + MINUTE)


@pytest.mark.psycopg
async def test_the_roster_has_the_version_that_a_worker_has_declared(storage: Storage) -> None:
    await storage.upkeep.beat(beat("node-1"))
    await storage.upkeep.beat(beat("node-2"))
    await storage.timetable.declare("shop", 7, (), Declarer("node-2", "a" * 16))

    assert [each.version for each in (await storage.ledger.roster()).workers] == [None, 7]


async def test_the_roster_shows_whose_breakers_are_open(storage: Storage) -> None:
    await storage.upkeep.beat(Beat("node-1", "shop", "host", 1, ("mailer", "charge"), 0, "poll", {}, ("charge",)))
    opened = (await storage.ledger.roster()).workers[0].tripped
    await storage.upkeep.beat(Beat("node-1", "shop", "host", 1, ("mailer", "charge"), 0, "poll"))

    assert opened == ("charge",)
    assert (await storage.ledger.roster()).workers[0].tripped == ()


@pytest.mark.memory
@pytest.mark.psycopg
async def test_the_roster_shows_the_connections_to_brokers_that_a_worker_last_reported(storage: Storage) -> None:
    away = BrokerLink("away", "out", connected=False, error="no\x00 route \u2014 to host", down_for=31.5)
    read = BrokerLink("rabbitmq:billing", "in", connected=True, lag=7, counts={"received": 3, "stored": 2, "repeat": 1})

    await storage.upkeep.beat(replace(beat("node-1"), links=(away, read)))
    await storage.upkeep.beat(beat("node-2"))
    first, second = (await storage.ledger.roster()).workers
    await storage.upkeep.beat(beat("node-1"))

    assert first.links == (away, read)
    assert second.links == ()
    assert (await storage.ledger.roster()).workers[0].links == ()


async def test_what_workers_did_is_added_up_by_group(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")

    await storage.upkeep.beat(beat("node-1", mailer=GroupRuns(5, 1), analytics=GroupRuns(2, 0)))
    await storage.upkeep.beat(beat("node-1", mailer=GroupRuns(10, 0)))
    await storage.upkeep.beat(beat("node-2", mailer=GroupRuns(100, 7)))
    await storage.upkeep.beat(beat("node-2"))

    mailer, analytics = await counts(storage, "mailer"), await counts(storage, "analytics")
    assert (mailer.handled, mailer.failed) == (115, 8)
    assert (analytics.handled, analytics.failed) == (2, 0)


async def test_a_worker_that_says_farewell_is_gone_and_its_work_stays_counted(storage: Storage) -> None:
    await declare(storage, "mailer")
    await storage.upkeep.beat(beat("node-1", mailer=GroupRuns(5, 1)))
    await storage.upkeep.beat(beat("node-2", mailer=GroupRuns(3, 0)))

    await storage.upkeep.deregister("node-1")

    assert [worker.name for worker in (await storage.ledger.roster()).workers] == ["node-2"]
    assert ((await counts(storage)).handled, (await counts(storage)).failed) == (8, 1)


async def test_a_worker_may_come_back_under_its_name(storage: Storage) -> None:
    await declare(storage, "mailer")
    for _ in range(3):
        await storage.upkeep.beat(beat("node-1", mailer=GroupRuns(1, 1)))
        await storage.upkeep.deregister("node-1")

    turn(storage, HOUR)
    await storage.upkeep.beat(beat("node-1"))

    (worker,) = (await storage.ledger.roster()).workers
    assert worker.started_at == NOON + HOUR
    assert ((await counts(storage)).handled, (await counts(storage)).failed) == (3, 3)


async def test_a_beat_that_is_sent_again_is_counted_once(storage: Storage) -> None:
    await declare(storage, "mailer")
    told = replace(
        beat("node-1", mailer=GroupRuns(5, 1)),
        measures=(Measure("mailer", "done", 0, 5),),
        start_id="first",
        number=1,
    )

    for number in (1, 1, 2, 2, 1):
        await storage.upkeep.beat(replace(told, number=number))

    assert ((await counts(storage)).handled, (await counts(storage)).failed) == (10, 2)
    assert (await storage.measures.read(10, MINUTE, "mailer")).rows == ((NOON, "done", 0, 10),)


async def test_a_beat_that_is_sent_again_serves_no_group(storage: Storage) -> None:
    await declare(storage, "mailer")
    told = replace(beat("node-1"), groups=("mailer",), start_id="first", number=1)
    await storage.upkeep.beat(told)

    turn(storage, HOUR)
    await storage.upkeep.beat(told)

    (group,) = (await storage.ledger.roster()).groups
    assert group.served_at == NOON


async def test_the_beats_of_every_start_are_counted(storage: Storage) -> None:
    await declare(storage, "mailer")
    told = replace(beat("node-1", mailer=GroupRuns(5, 1)), number=1)

    for start_id in ("first", "second"):
        await storage.upkeep.beat(replace(told, start_id=start_id))

    assert ((await counts(storage)).handled, (await counts(storage)).failed) == (10, 2)


async def test_an_unknown_worker_may_say_farewell(storage: Storage) -> None:
    await storage.upkeep.deregister("nobody")

    assert (await storage.ledger.roster()).workers == ()


async def test_a_beat_says_that_its_groups_are_served_at_most_once_a_minute(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")

    served = []
    for after in (0, 50, 70, 100, 140):
        turn(storage, after * SECOND)
        await storage.upkeep.beat(beat("node-1", "mailer"))
        groups = {group.name: group.served_at for group in (await storage.ledger.roster()).groups}
        assert groups["analytics"] is None
        assert groups["mailer"] is not None
        served.append((groups["mailer"] - NOON).total_seconds())

    assert served == [0, 0, 70, 70, 140]


async def test_a_worker_of_a_group_nobody_declared_may_beat(storage: Storage) -> None:
    await storage.upkeep.beat(beat("node-1", "unknown", unknown=GroupRuns(1, 0)))

    assert (await storage.ledger.roster()).groups == ()
    assert (await storage.ledger.tally()).groups == ()
