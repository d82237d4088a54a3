from datetime import UTC, datetime, timedelta

from mainspring.timing.clock import HandClock, SystemClock


def test_a_hand_clock_moves_only_when_told_to() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    clock = HandClock(start)

    clock.advance(timedelta(minutes=1))

    assert clock.now() == start + timedelta(minutes=1)
    assert clock.monotonic() == 60.0


def test_monotonic_time_never_goes_back() -> None:
    clock = HandClock(datetime(2030, 1, 1, tzinfo=UTC))

    clock.advance(timedelta(seconds=10))
    clock.advance(timedelta(hours=-1))

    assert clock.monotonic() == 10.0


def test_the_system_clock_is_aware_and_in_utc() -> None:
    clock = SystemClock()

    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
