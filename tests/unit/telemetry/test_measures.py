"""Meters: what is counted stays counted, and each of it is reported once."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest

from mainspring.model.measures import BINS, Histogram, Measure
from mainspring.model.message import Draft
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Failure, Release, Retry, Snooze, Verdict
from mainspring.model.views import GroupRuns
from mainspring.telemetry.measures import OTHER, TOPICS, CountedLink, Meter, Meters, Turns

FAILURE = Failure("error", "boom")
SECOND = timedelta(seconds=1)


def draft(topic: str) -> Draft:
    return Draft(uuid4(), topic, b"{}")


@pytest.mark.parametrize(
    ("verdict", "what"),
    [
        (DONE, "done"),
        (Done("42 rows"), "done"),
        (Retry(SECOND, FAILURE), "failed"),
        (Bury(FAILURE), "dead"),
        (Snooze(SECOND), "snoozed"),
        (Cancel("no need"), "cancelled"),
    ],
)
def test_each_end_is_counted_as_what_it_is(verdict: Verdict, what: str) -> None:
    meter = Meter()

    meter.count("mailer", verdict, 0.15, 0.0001)

    _, measures = meter.take()
    assert set(measures) == {
        Measure("mailer", what, 0, 1),  # type: ignore[arg-type]
        Measure("mailer", "wait", 10, 1),
        Measure("mailer", "run", 0, 1),
    }


def test_what_is_handed_back_is_not_counted() -> None:
    meter = Meter()

    meter.count("mailer", Release(), 0.1, 0.1)

    assert not meter.has_news
    assert meter.take() == ({}, ())
    assert meter.read() == {}


def test_what_never_ran_has_no_times() -> None:
    meter = Meter()

    meter.count("mailer", Cancel("expired"))

    assert meter.take() == ({}, (Measure("mailer", "cancelled", 0, 1),))


def test_a_clock_that_is_behind_makes_no_time_negative() -> None:
    meter = Meter()

    meter.count("mailer", DONE, -3.0, 0.0)

    counted = meter.read()["mailer"]
    assert counted.waited == 0.0
    assert counted.wait.counts[0] == 1


def test_only_what_is_new_is_taken_and_all_of_it_stays_counted() -> None:
    meter = Meter()
    meter.count("mailer", DONE, 0.15, 3.0)
    meter.count("mailer", Retry(SECOND, FAILURE), 0.15, 3.0)
    meter.count("audit", Bury(FAILURE))

    first = meter.take()
    nothing = meter.take()
    meter.count("mailer", DONE, 0.15, 3.0)
    second = meter.take()

    assert first == (
        {"audit": GroupRuns(0, 1), "mailer": GroupRuns(1, 1)},
        (
            Measure("audit", "dead", 0, 1),
            Measure("mailer", "done", 0, 1),
            Measure("mailer", "failed", 0, 1),
            Measure("mailer", "wait", 10, 2),
            Measure("mailer", "run", 14, 2),
        ),
    )
    assert nothing == ({}, ())
    assert second == (
        {"mailer": GroupRuns(1, 0)},
        (Measure("mailer", "done", 0, 1), Measure("mailer", "wait", 10, 1), Measure("mailer", "run", 14, 1)),
    )
    counted = meter.read()["mailer"]
    assert counted.statuses == {"done": 2, "failed": 1, "dead": 0, "snoozed": 0, "cancelled": 0}
    assert (counted.wait.total, counted.run.total) == (3, 3)
    assert counted.waited == pytest.approx(0.45)
    assert counted.ran == pytest.approx(9.0)


def test_a_group_that_is_served_is_told_of_before_anything_ended() -> None:
    meter = Meter()

    meter.serves(["mailer"])

    assert meter.read()["mailer"].statuses == dict.fromkeys(("done", "failed", "dead", "snoozed", "cancelled"), 0)
    assert (meter.has_news, meter.take()) == (False, ({}, ()))


def test_who_reports_is_stirred_once_until_it_has_taken() -> None:
    meter, stirred = Meter(), []
    meter.on_news = lambda: stirred.append(meter.has_news)

    meter.count("mailer", DONE)
    meter.count("mailer", DONE)
    before = len(stirred)
    meter.take()
    meter.count("mailer", DONE)

    assert (before, stirred) == (1, [True, True])


def test_what_a_meter_has_counted_stays_with_the_app_when_its_loop_has_ended() -> None:
    meters = Meters()
    first, second = meters.new_meter(), meters.new_meter()
    first.count("mailer", DONE, 0.15, 0.15)
    second.count("mailer", DONE, 0.15, 0.15)
    second.count("audit", DONE)

    first.end()
    first.end()

    groups = meters.groups()
    assert sorted(groups) == ["audit", "mailer"]
    assert groups["mailer"].statuses["done"] == 2
    assert groups["mailer"].wait == Histogram(tuple(2 * (bin == 10) for bin in range(BINS)))
    assert groups["mailer"].waited == pytest.approx(0.3)


def test_messages_are_counted_by_topic_from_any_number_of_threads() -> None:
    meters = Meters()
    batch = [draft("a"), draft("a"), draft("b")]

    def publish() -> None:
        for _ in range(500):
            meters.published(batch)

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert meters.topics() == {"a": 4_000, "b": 2_000}


def test_topics_without_end_are_told_apart_up_to_a_number() -> None:
    meters = Meters()

    meters.published(draft(f"orders.{number}") for number in range(TOPICS + 5))
    meters.published([draft("orders.0"), draft("late")])

    topics = meters.topics()
    assert len(topics) == TOPICS + 1
    assert (topics["orders.0"], topics[OTHER]) == (2, 6)


class Turning:
    """A worker, as far as meters know it."""

    in_hand: int = 0

    def __init__(self, **turns: Turns) -> None:
        self.turns = turns

    def progress(self) -> dict[str, Turns]:
        return self.turns

    def pauses(self) -> dict[str, timedelta]:
        return {}

    def links(self) -> list[tuple[str, CountedLink]]:
        return []


def test_the_turns_of_loops_stay_counted_when_their_worker_has_ended() -> None:
    meters = Meters()
    first, second = meters.new_meter(), meters.new_meter()
    first.worker, second.worker = Turning(settler=Turns(3, 1)), Turning(settler=Turns(4, 0), keeper=Turns(1, 0))
    before = meters.loops()

    first.end()
    first.end()

    assert before == meters.loops() == {"settler": Turns(7, 1), "keeper": Turns(1, 0)}
    assert meters.workers() == [second.worker]


def test_what_was_counted_before_a_fork_is_the_parents() -> None:
    meters = Meters()
    gone, queue, worker = meters.new_meter(), meters.new_meter(), meters.new_meter()
    worker.worker = Turning(settler=Turns(3, 1))
    for each in (gone, queue, worker):
        each.count("mailer", DONE, 0.1, 0.1)
    gone.end()
    meters.published([draft("a")])

    meters.forget()
    forgotten = (meters.groups()["mailer"].statuses["done"], meters.loops(), meters.workers(), meters.topics())
    queue.count("mailer", DONE, 0.1, 0.1)

    assert forgotten == (0, {}, [], {})
    assert meters.groups()["mailer"].statuses["done"] == 1
    assert queue.take()[0] == {"mailer": GroupRuns(1, 0)}
