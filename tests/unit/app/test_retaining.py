"""How long the kinds of single topics are kept: read, refused, and written."""

from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring, Retention
from mainspring.app.config import Options, read_topics, topics_in, write_topics
from mainspring.model.errors import BadOption

DAY = timedelta(days=1)


def test_times_are_read_as_text_and_as_they_are() -> None:
    read = read_topics(
        {"orders.*": {"done": "7d", "dead": 90 * DAY}, "users.#": {"failures": "forever", "parked": None}}
    )

    assert read == {"orders.*": {"done": 7 * DAY, "dead": 90 * DAY}, "users.#": {"failures": None, "parked": None}}
    assert write_topics(read) == "orders.* done 7d, dead 90d; users.# failures forever, parked forever"


def test_none_are_written_as_nothing() -> None:
    assert read_topics({}) == {}
    assert write_topics({}) == ""


def test_a_variable_holds_them_as_json() -> None:
    assert topics_in('{"orders.*": {"done": "7d", "dead": null}}') == {"orders.*": {"done": "7d", "dead": None}}
    assert topics_in("orders.*=7d") == "orders.*=7d"


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("7d", 'retention.topics=\'7d\' must be a mapping, as in {"orders.*": {"done": "7d"}}'),
        (["orders.*"], 'retention.topics=[\'orders.*\'] must be a mapping, as in {"orders.*": {"done": "7d"}}'),
        (
            {"orders.*": "7d"},
            (
                "retention.topics['orders.*']='7d' must name what is kept for how long, as in "
                '{"done": "7d", "dead": "90d"}'
            ),
        ),
        (
            {"orders.*": {}},
            (
                "retention.topics['orders.*']={} must name what is kept for how long, as in "
                '{"done": "7d", "dead": "90d"}'
            ),
        ),
        ({"orders.*": {"ded": "7d"}}, "retention.topics['orders.*'] has no kind 'ded'. Did you mean 'dead'?"),
        (
            {"orders.*": {"workers": "7d"}},
            "retention.topics['orders.*'] has no kind 'workers'. There are done, failures, dead, parked",
        ),
        (
            {"orders.*": {"done": "0s"}},
            "retention.topics['orders.*'].done='0s' is out of bounds: it must be at least 1s, or 'forever'",
        ),
        (
            {"orders.*": {"done": "-1d"}},
            "retention.topics['orders.*'].done='-1d' is negative: the least is 0s, or 'forever'",
        ),
        (
            {"orders.*": {"done": 7}},
            (
                "retention.topics['orders.*'].done=7 has no unit: write a timedelta or text like '30s', '15m', "
                "'1h30m', '2d', or 'forever'"
            ),
        ),
        (
            {"orders*": {"done": "7d"}},
            "retention.topics: topic pattern 'orders*': `*` stands for one whole segment, as in 'orders.*'",
        ),
        (
            {"#.orders": {"done": "7d"}},
            "retention.topics: topic pattern '#.orders': `#` stands for the rest and comes last, as in 'orders.#'",
        ),
        ({7: {"done": "7d"}}, "retention.topics: a topic pattern is text like 'orders.placed', not 7"),
    ],
)
def test_what_cannot_be_meant_is_named(topics: Any, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://", retention=Retention(topics=topics))

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("retention", "message"),
    [
        (
            Retention(done=-DAY),
            "retention.done=datetime.timedelta(days=-1) is negative: the least is 0s, or 'forever'",
        ),
        (
            Retention(repeats=None),  # type: ignore[arg-type]
            ("retention.repeats=None has no unit: write a timedelta or text like '30s', '15m', '1h30m', '2d'"),
        ),
    ],
)
def test_the_general_times_are_checked_too(retention: Retention, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        Options.read({"retention": retention})

    assert str(refused.value) == message
