from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.timing.backoff import (
    DEFERRED,
    MESSAGES,
    NO_RETRY,
    OUTBOX,
    PRESETS,
    RECURRING,
    RetryPolicy,
    exponential,
    intervals,
    proportional,
)

MIDDLE = 0.5
"""The chance at which jitter changes nothing."""


def delays(policy: RetryPolicy, *, original: timedelta = timedelta(), most: int = 30) -> list[float]:
    """The waits after attempt 1, 2, 3 … until the policy gives up."""
    found: list[float] = []
    for attempt in range(1, most):
        delay = policy.next_delay(attempt, since_due=timedelta(), original_delay=original, chance=MIDDLE)
        if delay is None:
            break
        found.append(delay.total_seconds())
    return found


def test_exponential_waits_double_up_to_the_cap_and_end() -> None:
    assert delays(exponential("1s", cap="10s", attempts=7)) == [1, 2, 4, 8, 10, 10]


def test_exponential_takes_another_factor() -> None:
    assert delays(exponential("1s", factor=3, cap="1h", attempts=5)) == [1, 3, 9, 27]


def test_exponential_from_zero_stays_at_zero() -> None:
    assert delays(exponential("0s", attempts=3)) == [0, 0]


def test_a_very_late_attempt_does_not_overflow() -> None:
    policy = exponential("1s", attempts=100_000, jitter=0.0)

    assert policy.next_delay(99_000, since_due=timedelta(), original_delay=timedelta(), chance=MIDDLE) == timedelta(
        minutes=10
    )


@example(factor=1e6, attempt=10**6, first=0, cap=600)
@example(factor=1e6, attempt=10**6, first=5, cap=0)
@example(factor=1.0, attempt=10**6, first=5, cap=600)
@given(st.floats(1, 1e6), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_exponential_wait_is_over_its_cap(factor: float, attempt: int, first: int, cap: int) -> None:
    policy = exponential(
        timedelta(seconds=first), factor=factor, cap=timedelta(seconds=cap), attempts=10**7, jitter=0.0
    )

    delay = policy.next_delay(attempt, since_due=timedelta(), original_delay=timedelta(), chance=MIDDLE)

    assert delay is not None
    assert min(timedelta(seconds=first), timedelta(seconds=cap)) <= delay <= timedelta(seconds=cap)


def test_one_attempt_means_no_retry() -> None:
    assert delays(exponential(attempts=1)) == []


def test_intervals_wait_exactly_what_they_say() -> None:
    assert delays(intervals(1, 5, "30s", timedelta(minutes=1))) == [1, 5, 30, 60]


def test_no_intervals_mean_no_retry() -> None:
    assert delays(intervals()) == []


def test_proportional_waits_grow_with_the_original_delay() -> None:
    assert delays(proportional(0.1, attempts=4), original=timedelta(hours=1)) == [360, 720, 1080]


def test_proportional_waits_are_at_least_a_second_and_at_most_the_cap() -> None:
    assert delays(proportional(0.1, attempts=3), original=timedelta(seconds=2)) == [1, 1]
    assert delays(proportional(0.1, cap="5m", attempts=3), original=timedelta(days=1)) == [300, 300]


def test_the_presets_are_the_documented_ones() -> None:
    assert PRESETS == {
        "messages": MESSAGES,
        "outbox": OUTBOX,
        "recurring": RECURRING,
        "deferred": DEFERRED,
        "none": NO_RETRY,
    }
    assert delays(MESSAGES) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600, 600]
    assert delays(OUTBOX) == [1, 2, 4, 8]
    assert delays(RECURRING) == [5, 10, 20, 30, 60]
    assert delays(DEFERRED, original=timedelta(hours=10))[:3] == [3600, 3600, 3600]
    assert delays(DEFERRED, original=timedelta(minutes=10))[:3] == [60, 120, 180]
    assert delays(NO_RETRY) == []


@pytest.mark.parametrize(
    ("since_due", "window", "delay"),
    [
        (0, None, 20),
        (100, None, 20),
        (7200, None, 20),  # however long the run took
        (0, 20, 20),
        (1, 20, None),  # the next occurrence comes first
        (0, 3600, 20),
    ],
)
def test_what_recurs_is_given_up_when_the_next_occurrence_comes(
    since_due: int, window: int | None, delay: int | None
) -> None:
    found = RECURRING.next_delay(
        3,
        since_due=timedelta(seconds=since_due),
        original_delay=timedelta(),
        chance=MIDDLE,
        window=None if window is None else timedelta(seconds=window),
    )

    assert found == (None if delay is None else timedelta(seconds=delay))


def test_other_policies_go_on_past_the_next_occurrence() -> None:
    delay = MESSAGES.next_delay(
        3, since_due=timedelta(hours=1), original_delay=timedelta(), chance=MIDDLE, window=timedelta(seconds=1)
    )

    assert delay == timedelta(seconds=4)


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 14))
def test_jitter_keeps_within_its_share(chance: float, attempt: int) -> None:
    plain = exponential("1s", jitter=0.0).next_delay(
        attempt, since_due=timedelta(), original_delay=timedelta(), chance=chance
    )
    spread = exponential("1s", jitter=0.1).next_delay(
        attempt, since_due=timedelta(), original_delay=timedelta(), chance=chance
    )

    assert plain is not None
    assert spread is not None
    assert plain * 0.9 <= spread <= plain * 1.1


def test_jitter_reaches_both_ends() -> None:
    policy = intervals(100, jitter=0.5)

    def drawn(chance: float) -> timedelta | None:
        return policy.next_delay(1, since_due=timedelta(), original_delay=timedelta(), chance=chance)

    assert drawn(0.0) == timedelta(seconds=50)
    assert drawn(0.5) == timedelta(seconds=100)
    assert drawn(1.0) == timedelta(seconds=150)


def test_the_budget_counts_from_the_first_due_time() -> None:
    policy = intervals(60, 60, 60, budget="2m")

    def after(since_due: timedelta) -> timedelta | None:
        return policy.next_delay(1, since_due=since_due, original_delay=timedelta(), chance=MIDDLE)

    assert after(timedelta(seconds=60)) == timedelta(seconds=60)
    assert after(timedelta(seconds=61)) is None


def test_a_policy_can_be_limited_afterwards() -> None:
    limited = MESSAGES.limited("2m")

    assert limited.budget == timedelta(minutes=2)
    assert MESSAGES.budget is None


def test_give_up_on_ends_at_once_and_wins() -> None:
    policy = exponential(retry_on=(OSError,), give_up_on=(FileNotFoundError,))

    assert policy.forgives(ConnectionError())
    assert not policy.forgives(FileNotFoundError())
    assert not policy.forgives(ValueError())


def test_without_types_every_error_is_forgiven() -> None:
    assert exponential().forgives(ValueError())


def test_a_single_exception_type_needs_no_tuple() -> None:
    policy = exponential(retry_on=OSError)

    assert policy.retry_on == (OSError,)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: exponential(factor=0.5), "factor=0.5 is below 1: retries would come ever faster"),
        (lambda: exponential(attempts=0), "attempts=0: the first attempt counts, so at least 1"),
        (lambda: proportional(attempts=0), "attempts=0: the first attempt counts, so at least 1"),
        (lambda: proportional(0), "share=0 must be above 0"),
        (lambda: exponential(jitter=1.5), "jitter=1.5 is a share between 0 and 1"),
        (lambda: intervals(-1), "intervals() got a negative wait"),
        (lambda: exponential(retry_on=("OSError",)), "retry_on takes exception types, not 'OSError'"),  # type: ignore[arg-type]
        (lambda: exponential(give_up_on=(3,)), "give_up_on takes exception types, not 3"),  # type: ignore[arg-type]
        (
            lambda: exponential("1x"),
            "first='1x' is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'",
        ),
        (
            lambda: MESSAGES.limited("soon"),
            "budget='soon' is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'",
        ),
    ],
)
def test_a_policy_that_cannot_be_meant_says_so(build: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        build()  # type: ignore[operator]

    assert str(refused.value) == message
