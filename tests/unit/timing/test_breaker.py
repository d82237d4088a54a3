from datetime import timedelta
from typing import Any

import pytest

from mainspring.timing.breaker import Circuit, breaker

SECOND = timedelta(seconds=1)


def circuit(**options: Any) -> Circuit:
    chosen: dict[str, Any] = {"failures": 3, "within": "10s", "pause": "5s", **options}
    return Circuit(breaker(**chosen))


def test_a_closed_circuit_leaves_every_hand_free() -> None:
    assert circuit().allows(0.0, 20) == 20


def test_it_opens_at_the_threshold_and_probes_after_the_pause() -> None:
    held = circuit()

    changes = [held.record(float(second), failed=True) for second in range(3)]

    assert changes == [None, None, "open"]
    assert [held.allows(now, 20) for now in (2.0, 6.9, 7.0)] == [0, 0, 1]


def test_failures_that_are_long_past_do_not_count() -> None:
    held = circuit()

    changes = [held.record(now, failed=True) for now in (0.0, 1.0, 11.0, 11.5)]

    assert changes == [None, None, None, None]


def test_few_failures_among_many_successes_do_not_open_it() -> None:
    held = circuit(share=0.5)
    for _ in range(10):
        held.record(0.0, failed=False)

    assert [held.record(1.0, failed=True) for _ in range(9)] == [None] * 9
    assert held.record(1.0, failed=True) == "open"  # ten of twenty


def test_a_probe_that_succeeds_closes_it() -> None:
    held = circuit()
    for _ in range(3):
        held.record(0.0, failed=True)
    held.allows(5.0, 20)

    assert held.record(6.0, failed=False) == "closed"
    assert held.allows(6.0, 20) == 20
    assert held.record(6.0, failed=True) is None  # and it counts from nothing


def test_every_failed_probe_doubles_the_pause_up_to_ten_times_the_first() -> None:
    held = circuit()
    now = 0.0
    for _ in range(3):
        held.record(now, failed=True)
    pauses = [held.pause]
    for _ in range(5):
        now = held.until
        held.allows(now, 20)
        assert held.record(now, failed=True) == "open"
        pauses.append(held.pause)

    assert pauses == [5 * SECOND, 10 * SECOND, 20 * SECOND, 40 * SECOND, 50 * SECOND, 50 * SECOND]


def test_what_had_begun_before_it_opened_changes_nothing() -> None:
    held = circuit()
    for _ in range(3):
        held.record(0.0, failed=True)

    assert held.record(1.0, failed=True) is None
    assert held.record(1.0, failed=False) is None
    assert held.until == 5.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"failures": 0}, "failures=0"),
        ({"failures": True}, "failures=True"),
        ({"failures": 2.5}, "failures=2.5"),
        ({"share": 0}, "share=0"),
        ({"share": 1.5}, "share=1.5"),
        ({"within": "0s"}, "longer than 0s"),
        ({"pause": "soon"}, "soon"),
    ],
)
def test_a_breaker_that_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        breaker(**options)
