"""Retry policies as data: what is written is read again as the same policy, and what is none is explained."""

from datetime import timedelta
from typing import Any

import pytest

from mainspring.timing.backoff import (
    NO_RETRY,
    PRESETS,
    RECURRING,
    RetryPolicy,
    exponential,
    intervals,
    proportional,
    read_policy,
    write_policy,
)


def waits(policy: RetryPolicy, *, took: timedelta = timedelta(), window: timedelta | None = None) -> list[float]:
    """The waits between attempts that take so long each."""
    found: list[float] = []
    since = took
    while len(found) < 20:
        delay = policy.next_delay(
            len(found) + 1, since_due=since, original_delay=timedelta(hours=1), chance=0.5, window=window
        )
        if delay is None:
            break
        found.append(delay.total_seconds())
        since += delay + took
    return found


@pytest.mark.parametrize(
    "policy",
    [
        *PRESETS.values(),
        exponential("2s", factor=3, cap="1m", attempts=4, jitter=0.5, budget="10m"),
        intervals(5, "1m", budget="1h"),
        intervals(),
        proportional(0.25, cap="5m", attempts=3),
        RECURRING.limited("1h"),
    ],
)
def test_what_is_written_is_read_as_the_same_policy(policy: RetryPolicy) -> None:
    again = read_policy(write_policy(policy))

    assert waits(again) == waits(policy)
    assert waits(again, window=timedelta(seconds=40)) == waits(policy, window=timedelta(seconds=40))
    assert (again.jitter, again.budget, again.until_next) == (policy.jitter, policy.budget, policy.until_next)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("none", []),
        ("5s, 1m", [5, 60]),
        ("90s", [90]),
        ({"kind": "intervals", "waits": [1, "2s"]}, [1, 2]),
        ({"kind": "exponential", "first": "10s", "attempts": 3, "jitter": 0}, [10, 20]),
        ({"kind": "exponential", "first": 1, "attempts": 4, "jitter": 0, "budget": 4}, [1, 2]),
        ({"kind": "proportional", "share": 0.5, "attempts": 2}, [1800]),
    ],
)
def test_people_write_policies_as_data(spec: Any, expected: list[float]) -> None:
    assert waits(read_policy(spec)) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "sometimes",
        "",
        7,
        None,
        {},
        {"kind": "sometimes"},
        {"kind": "exponential", "retry_on": []},
        {"kind": "exponential", "firts": 1},
        {"kind": "exponential", "attempts": "many"},
        {"kind": "exponential", "first": float("inf")},
        {"kind": "intervals", "waits": [-1]},
        {"kind": "intervals", "waits": 5},
    ],
)
def test_what_is_no_policy_is_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"retry|factor|attempts|negative|exponential|infinity|intervals"):
        read_policy(spec)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (exponential(retry_on=(OSError,)), "retry_on= and give_up_on= name exception types"),
        (exponential(give_up_on=(OSError,)), "retry_on= and give_up_on= name exception types"),
        (RetryPolicy("mine", lambda _attempt, _delay: None), "'mine' waits as a function decides"),
    ],
)
def test_what_only_code_can_decide_is_not_written(policy: RetryPolicy, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_policy(policy)


def test_all_waits_of_a_recurring_job_happen_however_long_it_runs() -> None:
    assert waits(RECURRING) == [5, 10, 20, 30, 60]
    assert waits(RECURRING, took=timedelta(hours=1)) == [5, 10, 20, 30, 60]
    assert waits(RECURRING, window=timedelta(minutes=1)) == [5, 10, 20]
    assert waits(NO_RETRY) == []
