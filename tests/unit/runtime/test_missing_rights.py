"""A right that is missing is logged once a minute, by whatever fails for it, until all works again."""

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.errors import NotGranted
from mainspring.runtime.reports import RateLimitedLog
from mainspring.timing.clock import HandClock

DENIED = NotGranted("permission denied for table delivery", "grant it")
OTHER = NotGranted("permission denied for table dead", "grant it")


@pytest.fixture
def clock() -> HandClock:
    clock = HandClock(datetime(2026, 1, 1, tzinfo=UTC))
    clock.advance(timedelta(hours=1))
    return clock


def test_a_missing_right_is_logged_once_a_minute_without_a_traceback(
    clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = RateLimitedLog(clock)

    for _ in range(24):  # two minutes
        log.failure("fetcher", DENIED, expected=True)
        log.failure("settler", DENIED, expected=True)
        clock.advance(timedelta(seconds=5))

    assert [(each.levelname, each.exc_info) for each in caplog.records] == [("WARNING", None)] * 2


def test_another_right_has_a_line_of_its_own(clock: HandClock, caplog: pytest.LogCaptureFixture) -> None:
    log = RateLimitedLog(clock)

    for error in (DENIED, OTHER, DENIED, OTHER):
        log.failure("settler", error, expected=True)
        clock.advance(timedelta(seconds=5))

    assert [each.message for each in caplog.records] == [f"settler: {DENIED}", f"settler: {OTHER}"]


def test_a_right_that_is_missing_again_is_logged_again(clock: HandClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = RateLimitedLog(clock)

    for _ in range(2):
        log.failure("settler", DENIED, expected=True)
        clock.advance(timedelta(seconds=5))
        log.recovered("settler")
        clock.advance(timedelta(seconds=5))

    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"] * 2
