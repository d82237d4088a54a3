"""Measures: what workers count is added up by span, read by time or by group, and pruned when its time is over."""

import asyncio
from datetime import datetime, timedelta

import pytest

from mainspring.model.measures import SPANS, Measure, Sums, slot
from mainspring.model.retention import Pruned, Retention
from mainspring.model.views import Beat
from mainspring.storage.contract import Storage
from tests.contract.acting import DAY, HOUR, MINUTE, NOON, SECOND, siblings, turn

LONG = 7 * DAY


def beat(*measures: Measure, worker: str = "node-1") -> Beat:
    return Beat(worker, "shop", "host-1", 4242, ("mailer",), 0, "poll", measures=measures)


async def by_time(
    storage: Storage, span: int = 10, group: str = "", back: timedelta = LONG
) -> list[tuple[object, ...]]:
    return list((await storage.measures.read(span, back, group)).rows)


async def test_where_nothing_was_counted_there_is_nothing_but_the_time(storage: Storage) -> None:
    assert await storage.measures.read(10, HOUR, "") == Sums(NOON, ())
    assert await storage.measures.rates(MINUTE) == Sums(NOON, ())


@pytest.mark.memory
async def test_a_count_is_found_in_both_spans(storage: Storage) -> None:
    turn(storage, 617 * SECOND)
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5), Measure("mailer", "run", 24, 2)))

    assert await by_time(storage, 10) == [
        (NOON + 610 * SECOND, "done", 0, 5),
        (NOON + 610 * SECOND, "run", 24, 2),
    ]
    assert await by_time(storage, 600) == [
        (NOON + 600 * SECOND, "done", 0, 5),
        (NOON + 600 * SECOND, "run", 24, 2),
    ]


async def test_counts_of_one_span_are_added_up_and_of_the_next_are_apart(storage: Storage) -> None:
    one = beat(Measure("mailer", "done", 0, 5), Measure("mailer", "wait", 3, 1))
    await storage.upkeep.beat(one)
    turn(storage, 9 * SECOND)
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 7), worker="node-2"))
    turn(storage, 10 * SECOND)
    await storage.upkeep.beat(one)

    assert await by_time(storage) == [
        (NOON, "done", 0, 12),
        (NOON, "wait", 3, 1),
        (NOON + 10 * SECOND, "done", 0, 5),
        (NOON + 10 * SECOND, "wait", 3, 1),
    ]
    assert await by_time(storage, 600) == [(NOON, "done", 0, 17), (NOON, "wait", 3, 2)]


async def test_groups_are_read_together_or_one_alone(storage: Storage) -> None:
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5), Measure("audit", "done", 0, 1)))

    assert await by_time(storage) == [(NOON, "done", 0, 6)]
    assert await by_time(storage, group="audit") == [(NOON, "done", 0, 1)]
    assert await by_time(storage, group="nobody") == []


@pytest.mark.psycopg
async def test_what_all_groups_make_together_is_no_group(storage: Storage) -> None:
    names = ("audit", "mailer", "mailer-2", "te%t")
    await storage.upkeep.beat(beat(*(Measure(name, "done", 0, 10**number) for number, name in enumerate(names))))

    assert await by_time(storage) == [(NOON, "done", 0, 1_111)]
    assert await by_time(storage, group="mailer") == [(NOON, "done", 0, 10)]
    assert (await storage.measures.rates(MINUTE)).rows == tuple(
        (name, "done", 0, 10**number) for number, name in enumerate(names)
    )


async def test_a_window_ends_with_the_present_span(storage: Storage) -> None:
    for seconds in (0, 10, 20, 30):
        turn(storage, seconds * SECOND)
        await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 1)))
    turn(storage, 39 * SECOND)

    assert [at for at, *_ in await by_time(storage, back=20 * SECOND)] == [
        NOON + seconds * SECOND for seconds in (10, 20, 30)
    ]
    assert (await storage.measures.read(10, 20 * SECOND, "")).now == NOON + 39 * SECOND
    assert (await storage.measures.rates(10 * SECOND)).rows == (("mailer", "done", 0, 2),)


async def test_rates_are_by_group_over_the_shortest_spans(storage: Storage) -> None:
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5), Measure("audit", "run", 7, 2)))
    turn(storage, 10 * SECOND)
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 1), Measure("mailer", "dead", 0, 1)))

    assert (await storage.measures.rates(MINUTE)).rows == (
        ("audit", "run", 7, 2),
        ("mailer", "dead", 0, 1),
        ("mailer", "done", 0, 6),
    )


async def test_a_beat_with_nothing_to_tell_counts_nothing(storage: Storage) -> None:
    await storage.upkeep.beat(beat())

    assert await by_time(storage) == []
    assert [worker.name for worker in (await storage.ledger.roster()).workers] == ["node-1"]


async def test_counts_may_be_large(storage: Storage) -> None:
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 2**40)))
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 2**40)))

    assert await by_time(storage) == [(NOON, "done", 0, 2**41)]


async def test_what_a_worker_has_counted_stays_when_it_leaves(storage: Storage) -> None:
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5)))

    await storage.upkeep.deregister("node-1")

    assert await by_time(storage) == [(NOON, "done", 0, 5)]


@pytest.mark.parametrize(("span", "kept"), [(10, 2 * HOUR), (600, 8 * DAY)])
async def test_each_span_is_kept_for_its_own_time(storage: Storage, span: int, kept: timedelta) -> None:
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5)))
    assert SPANS[span] == kept

    turn(storage, kept)
    await storage.upkeep.prune(Retention(), 100)
    in_time = await by_time(storage, span, back=30 * DAY)
    turn(storage, kept + timedelta(microseconds=1))
    pruned = await storage.upkeep.prune(Retention(), 100)

    assert in_time == [(NOON, "done", 0, 5)]
    # The group's, and that of all groups.
    assert pruned.measures == 2
    assert await by_time(storage, span, back=30 * DAY) == []


async def test_measures_go_in_bounded_batches_the_oldest_first(storage: Storage) -> None:
    for seconds in (0, 10, 20):
        turn(storage, seconds * SECOND)
        await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 1)))

    turn(storage, 3 * HOUR)
    first = await storage.upkeep.prune(Retention(), 4)
    left = [await by_time(storage, group=group, back=DAY) for group in ("", "mailer")]
    second = await storage.upkeep.prune(Retention(), 4)

    assert (first, second) == (Pruned(measures=4), Pruned(measures=2))
    assert (first.total, left) == (4, [[(NOON + 20 * SECOND, "done", 0, 1)]] * 2)


@pytest.mark.parametrize("later", [0 * SECOND, 30 * SECOND, 20 * MINUTE, HOUR])
async def test_tidying_changes_no_count(storage: Storage, later: timedelta) -> None:
    for number in range(100):
        await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 1), worker=f"node-{number}"))

    turn(storage, later)
    await storage.upkeep.prune(Retention(), 7)
    await storage.upkeep.beat(beat(Measure("mailer", "dead", 0, 1)))
    turn(storage, 2 * later)
    await storage.upkeep.prune(Retention(), 1_000)

    for span in SPANS:
        rows = (await storage.measures.read(span, DAY, "mailer")).rows
        assert [(at, what, bin, count) for at, what, bin, count in rows if what == "done"] == [(NOON, "done", 0, 100)]
        assert [count for _, what, _, count in rows if what == "dead"] == [1]
    assert (await storage.measures.rates(DAY)).rows == (("mailer", "dead", 0, 1), ("mailer", "done", 0, 100))


async def test_pruning_a_topic_leaves_measures_alone(storage: Storage) -> None:
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5)))

    turn(storage, 9 * DAY)
    pruned = await storage.upkeep.prune(Retention(), 100, "orders.#")

    assert pruned == Pruned()
    assert await by_time(storage, back=30 * DAY) == [(NOON, "done", 0, 5)]


async def test_many_workers_add_to_the_same_rows_at_once(storage: Storage) -> None:
    groups = [f"group-{number}" for number in range(5)]
    told = [Measure(group, what, bin, 1) for group in groups for what in ("run", "wait") for bin in range(10)]

    async def work(door: Storage, number: int) -> None:
        # Each names them in an order of its own.
        mine = told[number:] + told[:number]
        for _ in range(5):
            await door.upkeep.beat(beat(*mine, worker=f"node-{number}"))

    async with siblings(storage, 4) as doors:
        await asyncio.gather(*(work(door, number) for number, door in enumerate(doors)))

    found = (await storage.measures.rates(MINUTE)).rows
    assert found == tuple(
        sorted((group, what, bin, 20) for group in groups for what in ("run", "wait") for bin in range(10))
    )


async def test_the_span_is_that_of_the_databases_clock(storage: Storage) -> None:
    storage.now = None
    await storage.upkeep.beat(beat(Measure("mailer", "done", 0, 5)))
    now = (await storage.measures.read(10, MINUTE, "")).now

    ((at, *rest),) = await by_time(storage, back=MINUTE)

    assert rest == ["done", 0, 5]
    assert isinstance(at, datetime)
    assert at == slot(at, 10)
    assert now - MINUTE <= at <= now
