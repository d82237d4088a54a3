"""Which age counts for a topic, and when it has to be asked which topics there are."""

from datetime import timedelta

import pytest

from mainspring.model.retention import Retention
from mainspring.storage.patterns import matches, specificity
from mainspring.storage.portable.retention import Ages

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("topic", "patterns"),
    [
        (
            "orders.eu.paid",
            ["orders.eu.paid", "orders.eu.*", "orders.eu.#", "orders.*.paid", "orders.#", "*.eu.#", "#"],
        ),
        ("orders", ["orders", "orders.#", "*", "*.#", "#"]),
        ("live.orders.paid", ["live.orders.paid", "live.orders.*", "live.*.paid", "live.#"]),
    ],
)
def test_patterns_are_sorted_with_the_most_specific_first(topic: str, patterns: list[str]) -> None:
    assert all(matches(pattern, topic) for pattern in patterns)
    assert sorted({*patterns}, key=specificity) == patterns


def test_without_patterns_a_kind_goes_by_its_age_alone() -> None:
    ages = Ages(Retention(done=DAY, dead=None), None)

    assert ages.known("done") == [(None, DAY)]
    assert ages.known("dead") == []
    assert ages.of("done", "orders.paid") == DAY


def test_only_kinds_that_a_pattern_names_go_topic_by_topic() -> None:
    ages = Ages(Retention(done=DAY, dead=None, topics={"orders.*": {"dead": HOUR}}), None)

    assert ages.known("done") == [(None, DAY)]
    assert ages.known("dead") is None
    assert ages.over("dead", [("orders.paid", DAY), ("orders.new", HOUR), ("users", DAY)]) == [("orders.paid", HOUR)]


def test_a_topic_by_hand_is_not_looked_for() -> None:
    retention = Retention(done=DAY, failures=None, topics={"orders.*": {"done": HOUR}})

    assert Ages(retention, "orders.paid").known("done") == [("orders.paid", HOUR)]
    assert Ages(retention, "users").known("done") == [("users", DAY)]
    assert Ages(retention, "users").known("failures") == []


def test_a_pattern_by_hand_means_the_topics_that_match() -> None:
    ages = Ages(Retention(done=DAY, topics={"orders.paid": {"done": None}}), "orders.*")

    assert ages.known("done") is None
    assert ages.known("dead") == []
    there = [("orders.paid", 2 * DAY), ("orders.new", 2 * DAY), ("users", 2 * DAY)]
    assert ages.over("done", there) == [("orders.new", DAY)]
