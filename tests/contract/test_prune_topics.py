"""Pruning by topic: each kind goes after the time that the most specific pattern gives it, or the general one."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from mainspring.model.message import Delivery
from mainspring.model.retention import Kind, Pruned, Retention
from mainspring.model.search import Filter
from mainspring.model.verdict import DONE, Bury, Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    NOON,
    NOW,
    SECOND,
    TICK,
    claim_one,
    draft,
    failure,
    publish,
    settle,
    statuses,
    turn,
)

Rules = Mapping[str, Mapping[Kind, timedelta | None]]
FOR_EVER = Retention(done=None, failures=None, dead=None, parked=None, audit=None, inbox=None)
AT_ONCE = Retention(done=NOW, failures=NOW, dead=NOW, parked=NOW, workers=NOW, audit=NOW)


def ruled(topics: Rules, **general: timedelta | None) -> Retention:
    """Everything for ever, but what is given here."""
    kept: dict[str, timedelta | None] = dict.fromkeys(("done", "failures", "dead", "parked", "audit", "inbox"))
    return Retention(**(kept | general), topics=topics)  # type: ignore[arg-type]


async def fill(storage: Storage, *topics: str) -> None:
    """Of each topic a run that went well, a failed one, a dead letter and a parked message."""
    for topic in topics:
        await settle(storage, await held(storage, topic), DONE, keep="all")
        await settle(storage, await held(storage, topic), Retry(NOW, failure()))
        await settle(storage, await claim_one(storage), DONE, keep="failures")
        await settle(storage, await held(storage, topic), Bury(failure()))
        await publish(storage, draft(topic))


async def held(storage: Storage, topic: str) -> Delivery:
    """A delivery of this topic, in hand."""
    await publish(storage, draft(topic, group="mailer"))
    return await claim_one(storage)


async def left(storage: Storage) -> dict[str, list[str]]:
    """The topics of which something is left, by kind."""
    runs = await storage.ledger.runs(None, None, 1000)
    dead = (await storage.ledger.browse(Filter(state="dead", limit=1000))).rows
    parked = (await storage.ledger.browse(Filter(state="parked", limit=1000))).rows
    return {
        "done": sorted(run.topic for run in runs if run.status == "done"),
        "failures": sorted(run.topic for run in runs if run.status == "failed"),
        "dead": sorted(each.topic for each in dead),
        "parked": sorted(each.topic for each in parked),
    }


async def test_each_kind_of_a_topic_has_its_own_time(storage: Storage) -> None:
    await fill(storage, "orders.paid", "users.added")
    kept = ruled({"orders.*": {"done": HOUR, "failures": 2 * HOUR, "dead": 3 * HOUR, "parked": 4 * HOUR}})

    seen = []
    for hours in (1, 2, 3, 4):
        turn(storage, hours * HOUR)
        in_time = await storage.upkeep.prune(kept, 100)
        turn(storage, hours * HOUR + TICK)
        over = await storage.upkeep.prune(kept, 100)
        seen.append([(each.runs, each.dead, each.parked) for each in (in_time, over)])

    assert seen == [
        [(0, 0, 0), (1, 0, 0)],
        [(0, 0, 0), (1, 0, 0)],
        [(0, 0, 0), (0, 1, 0)],
        [(1, 0, 0), (0, 0, 1)],  # the run of a dead letter is kept while that is
    ]
    assert await left(storage) == {kind: ["users.added"] for kind in ("done", "failures", "dead", "parked")}


@pytest.mark.psycopg
async def test_a_topic_may_be_kept_for_longer_than_all_others(storage: Storage) -> None:
    await fill(storage, "orders.paid", "users.added")
    rule: Mapping[Kind, timedelta | None] = {"done": 30 * DAY, "failures": None, "dead": None, "parked": 10 * DAY}
    kept = ruled({"orders.paid": rule}, done=DAY, failures=DAY, dead=DAY, parked=DAY)

    turn(storage, 2 * DAY)
    while (await storage.upkeep.prune(kept, 100)).total:
        pass
    after_two = await left(storage)
    turn(storage, 31 * DAY)
    while (await storage.upkeep.prune(kept, 100)).total:
        pass

    assert after_two == {kind: ["orders.paid"] for kind in ("done", "failures", "dead", "parked")}
    assert await left(storage) == {"done": [], "failures": ["orders.paid"], "dead": ["orders.paid"], "parked": []}


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        # A name before `*` before `#`, from the left, whatever the order they are written in.
        ({"orders.#": {"done": None}, "orders.*": {"done": HOUR}}, ["orders.paid"]),
        ({"*.paid": {"done": None}, "orders.*": {"done": HOUR}}, ["orders.paid"]),
        ({"#": {"done": HOUR}, "orders.paid": {"done": None}}, ["orders.eu.paid", "users"]),
        ({"orders.#": {"done": HOUR}}, ["orders.eu.paid", "orders.paid"]),
        ({"*": {"done": HOUR}}, ["users"]),
        # Kind by kind: what the most specific one leaves out, the next one says.
        ({"orders.paid": {"dead": HOUR}, "orders.*": {"done": HOUR}}, ["orders.paid"]),
        ({"nobody.*": {"done": HOUR}}, []),
    ],
)
async def test_the_most_specific_pattern_that_names_a_kind_counts(
    storage: Storage, rules: Rules, gone: list[str]
) -> None:
    topics = ["orders.eu.paid", "orders.paid", "users"]
    for topic in topics:
        await settle(storage, await held(storage, topic), DONE, keep="all")

    turn(storage, 2 * HOUR)
    pruned = await storage.upkeep.prune(ruled(rules), 100)

    assert pruned.runs == len(gone)
    assert (await left(storage))["done"] == [topic for topic in topics if topic not in gone]


async def test_a_pattern_reaches_no_topic_that_begins_otherwise(storage: Storage) -> None:
    for topic in ("orders.paid", "staging.orders.paid", "live.orders.paid"):
        await settle(storage, await held(storage, topic), DONE, keep="all")

    turn(storage, 2 * HOUR)
    await storage.upkeep.prune(ruled({"staging.orders.*": {"done": HOUR}, "staging.#": {"done": None}}), 100)

    assert (await left(storage))["done"] == ["live.orders.paid", "orders.paid"]


async def test_errors_of_what_is_not_over_are_kept_on_every_topic(storage: Storage) -> None:
    waiting = draft("orders.paid", group="mailer")
    await publish(storage, waiting)
    await settle(storage, await claim_one(storage), Retry(NOW, failure()))

    turn(storage, 1000 * DAY)
    pruned = await storage.upkeep.prune(ruled({"orders.*": {"failures": HOUR}}), 100)

    assert pruned.runs == 0
    assert await statuses(storage, waiting.id) == ["failed"]


async def test_the_limit_bounds_all_topics_together(storage: Storage) -> None:
    for topic in ("a", "b", "c"):
        await fill(storage, topic, topic)
    brief: Mapping[Kind, timedelta | None] = {"done": HOUR, "failures": HOUR, "dead": HOUR, "parked": HOUR}

    turn(storage, 2 * HOUR)
    first = await storage.upkeep.prune(ruled({"#": brief}), 5)
    batches = [first]
    while batches[-1].total:
        batches.append(await storage.upkeep.prune(ruled({"#": brief}), 5))

    assert (first.dead, first.parked) == (5, 5)
    assert all(max(each.dead, each.parked) <= 5 for each in batches)
    assert all(each.runs <= 10 for each in batches)  # those that were done, and those that failed
    # Besides, each topic's parked messages leave a run that says so, and that is younger.
    assert {run.error for run in await storage.ledger.runs(None, None, 100)} == {
        "no group subscribed to its topic in time"
    }
    assert sum(each.dead for each in batches) == sum(each.parked for each in batches) == 6


async def test_by_hand_a_pattern_means_the_topics_that_match(storage: Storage) -> None:
    await fill(storage, "orders.paid", "orders.eu.paid", "users.added")
    turn(storage, SECOND)

    pruned = await storage.upkeep.prune(AT_ONCE, 100, "orders.#")

    assert (pruned.messages, pruned.dead, pruned.parked) == (0, 2, 2)
    assert (pruned.workers, pruned.audit, pruned.schedules) == (0, 0, 0)
    remains = await left(storage)
    assert remains["dead"] == remains["parked"] == remains["failures"] == ["users.added"]


async def test_by_hand_one_topic_is_kept_as_its_pattern_says(storage: Storage) -> None:
    await fill(storage, "orders.paid", "users.added")
    kept = ruled({"orders.*": {"done": None, "dead": HOUR}}, done=HOUR)
    turn(storage, 2 * HOUR)

    orders = await storage.upkeep.prune(kept, 100, "orders.paid")
    users = await storage.upkeep.prune(kept, 100, "users.added")

    assert (orders, users) == (Pruned(dead=1), Pruned(runs=1))


async def test_what_was_pruned_by_hand_has_its_line_in_the_audit(storage: Storage) -> None:
    await storage.controls.note("prune", "orders.*", "ann", "runs 3, dead 1")

    (note,) = await storage.ledger.audit(None, 10)
    assert (note.at, note.by, note.action, note.subject) == (NOON, "ann", "prune", "orders.*")
    assert note.detail == "runs 3, dead 1"
