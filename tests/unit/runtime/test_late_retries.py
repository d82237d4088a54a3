"""Retries of an occurrence that could not start when it was due: they are counted from when it could."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mainspring.model.message import Delivery
from mainspring.model.schedule import NEXT_HEADER, START_HEADER
from mainspring.model.verdict import Bury, Retry, Verdict
from mainspring.runtime.verdicts import of_error
from mainspring.timing.backoff import RECURRING

NINE = datetime(2026, 6, 1, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
POLICY = RECURRING.limited("2m")
"""Its budget shows what is counted from when."""
HOURLY = {NEXT_HEADER: (NINE + HOUR).isoformat()}


def judged(
    headers: dict[str, str] | None,
    claimed: timedelta,
    *,
    published: timedelta = timedelta(),
    due: timedelta | None = None,
    attempt: int = 1,
) -> Verdict:
    """What becomes of the occurrence of nine o'clock that fails, with all times reckoned from then."""
    delivery = Delivery(
        1,
        1,
        UUID(int=1),
        "report",
        "report",
        b"null",
        "application/json",
        headers,
        None,
        None,
        None,
        2,
        attempt=attempt,
        deaths=0,
        due_at=NINE + (claimed if due is None else due),
        scheduled_for=NINE,
        published_at=NINE + published,
        expired=False,
        cancel_asked=False,
        suspect=False,
        claimed_at=NINE + claimed,
        schedule="report" if headers else None,
    )
    return of_error(RuntimeError("flaky"), delivery, POLICY, timedelta())


def delay(verdict: Verdict) -> timedelta | None:
    assert isinstance(verdict, Retry | Bury)
    return verdict.delay if isinstance(verdict, Retry) else None


def test_on_time_it_is_two_minutes_from_when_it_was_due() -> None:
    assert delay(judged(HOURLY, timedelta(), attempt=1)) == 5 * SECOND
    assert delay(judged(HOURLY, 35 * SECOND, attempt=4)) == 30 * SECOND
    assert delay(judged(HOURLY, 65 * SECOND, attempt=5)) is None


def test_after_an_outage_it_is_two_minutes_from_when_it_was_fired() -> None:
    late = 30 * MINUTE

    assert delay(judged(HOURLY, late, published=late, attempt=1)) == 5 * SECOND
    assert delay(judged(HOURLY, late + 35 * SECOND, published=late, attempt=4)) == 30 * SECOND
    assert delay(judged(HOURLY, late + 65 * SECOND, published=late, attempt=5)) is None


def test_with_a_jitter_it_is_two_minutes_from_when_it_was_to_start() -> None:
    headers = HOURLY | {START_HEADER: (NINE + 20 * MINUTE).isoformat()}

    assert delay(judged(headers, 20 * MINUTE, attempt=1)) == 5 * SECOND
    assert delay(judged(headers, 20 * MINUTE + 35 * SECOND, attempt=4)) == 30 * SECOND


def test_what_waited_for_an_earlier_run_is_tried_again_too() -> None:
    assert delay(judged(HOURLY, 3 * HOUR, attempt=1)) == 5 * SECOND


def test_the_next_occurrence_still_ends_it() -> None:
    late = HOUR - 4 * SECOND

    assert delay(judged(HOURLY, late, published=late, attempt=1)) is None


def test_a_next_occurrence_that_came_before_it_could_start_does_not() -> None:
    late = HOUR + MINUTE

    assert delay(judged(HOURLY, late, published=late, attempt=1)) == 5 * SECOND


def test_a_plain_message_is_counted_from_when_it_was_due() -> None:
    assert delay(judged(None, 3 * MINUTE, attempt=1)) is None
    assert delay(judged({}, 3 * MINUTE, published=3 * MINUTE, attempt=1)) is None


@pytest.mark.parametrize("text", ["", "soon", "2026-06-01T09:00:01"])
def test_headers_that_somebody_else_has_made_up_are_not_believed(text: str) -> None:
    made_up = {NEXT_HEADER: text, START_HEADER: text}

    assert delay(judged(made_up, timedelta(), attempt=1)) == 5 * SECOND
