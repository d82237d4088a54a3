"""Topic patterns as regular expressions that every engine reads alike."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.storage.patterns import expression, is_wild, matches, shared_topic

EXPRESSIONS = [
    ("orders.placed", r"^orders\.placed$"),
    ("orders.*", r"^orders\.[^./]+$"),
    ("*.placed", r"^[^./]+\.placed$"),
    ("orders.#", r"^orders(\.[^/]+)?$"),
    ("#", r"^[^/]+$"),
    ("*", r"^[^./]+$"),
    ("*.#", r"^[^./]+(\.[^/]+)?$"),
    ("a+b", r"^a\+b$"),
    ("a-b_c", r"^a-b_c$"),
    ("(x)[y]{z}|^$?\\", r"^\(x\)\[y\]\{z\}\|\^\$\?\\$"),
]

segments = st.text(st.sampled_from("abö-_+%'"), min_size=1, max_size=3)
dotted = st.lists(segments, min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(("pattern", "written"), EXPRESSIONS)
def test_a_pattern_is_written_as_a_plain_regular_expression(pattern: str, written: str) -> None:
    assert expression(pattern) == written


@pytest.mark.parametrize("pattern", ["*", "#", "a.*", "*.b", "a.#", "a.*.b"])
def test_a_star_or_hash_segment_is_wild(pattern: str) -> None:
    assert is_wild(pattern)


@pytest.mark.parametrize("pattern", ["a", "a.b", "a*", "a#b", "*a.b"])
def test_a_star_inside_a_segment_is_only_a_character(pattern: str) -> None:
    assert not is_wild(pattern)
    assert matches(pattern, pattern)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("a*", "ab"),
        ("a.*", "a."),
        ("*.b", "a.b\n"),
        ("a.b", "a.b\n"),
        ("#", ""),
        ("a.#", "a."),
        ("*", "a.b"),
        ("a.#", "b.a"),
        ("a.*", "a.b.c"),
        ("#", "staging/a.b"),
        ("*.b", "staging/a.b"),
        ("a.#", "a.b/c"),
    ],
)
def test_what_is_not_meant_does_not_match(pattern: str, topic: str) -> None:
    assert not matches(pattern, topic)


NAMES = ("a", "b")
TOPICS = [".".join(each) for length in range(1, 6) for each in product((*NAMES, "any"), repeat=length)]
patterns = st.tuples(st.lists(st.sampled_from((*NAMES, "*")), max_size=3), st.booleans()).map(
    lambda made: ".".join([*made[0], *(["#"] if made[1] or not made[0] else [])])
)


@given(patterns, patterns)
def test_two_patterns_share_a_topic_if_any_topic_matches_both(one: str, other: str) -> None:
    found = shared_topic(one, other)

    assert (found is not None) == any(matches(one, each) and matches(other, each) for each in TOPICS)
    assert found is None or (matches(one, found) and matches(other, found))
    assert (shared_topic(other, one) is None) == (found is None)


@pytest.mark.parametrize(
    ("one", "other", "topic"),
    [
        ("orders.*", "*.placed", "orders.placed"),
        ("orders.#", "*.placed", "orders.placed"),
        ("orders.#", "orders", "orders"),
        ("orders.*", "orders.#", "orders.any"),
        ("#", "#", "any"),
        ("orders.*", "orders", None),
        ("orders.*", "carts.#", None),
        ("#", "staging/orders.placed", None),
    ],
)
def test_the_topic_that_two_patterns_share_is_named(one: str, other: str, topic: str | None) -> None:
    assert shared_topic(one, other) == topic


@given(dotted)
def test_every_topic_matches_itself(topic: str) -> None:
    assert matches(topic, topic)
    assert re.match(expression(topic), topic)


@given(dotted)
def test_a_star_in_place_of_any_one_segment_still_matches(topic: str) -> None:
    parts = topic.split(".")

    for place in range(len(parts)):
        pattern = ".".join([*parts[:place], "*", *parts[place + 1 :]])
        assert matches(pattern, topic)
        assert not matches(pattern, topic + ".more")


@given(dotted)
def test_a_hash_in_place_of_any_tail_still_matches(topic: str) -> None:
    parts = topic.split(".")

    for place in range(len(parts) + 1):
        pattern = ".".join([*parts[:place], "#"])
        assert matches(pattern, topic)
        assert matches(pattern, topic + ".and.more")
