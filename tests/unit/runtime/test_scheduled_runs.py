"""How a delivery is run: as its schedule says, if it is an occurrence; what others have written is not believed."""

import logging
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mainspring.model.message import Delivery, Draft, unstored
from mainspring.model.verdict import DONE, Bury
from mainspring.runtime.handler import Handler
from mainspring.timing.backoff import MESSAGES, NO_RETRY, RECURRING

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HANDLER = Handler("mail", lambda _delivery, _run: None, MESSAGES, timeout=MINUTE, retry_scheduled=RECURRING)


def delivery(schedule: str | None = "report", **headers: str) -> Delivery:
    written = {f"mainspring-{name}": value for name, value in headers.items()}
    return unstored(Draft(UUID(int=1), "mail", b"1", headers=written or None, schedule=schedule), "mail", NOON, NOON)


def test_a_plain_message_is_run_as_its_consumer_says_whatever_its_headers_are() -> None:
    made_up = delivery(None, retry='"none"', timeout="5", dead="latest")

    assert HANDLER.retry_of(made_up) is MESSAGES
    assert HANDLER.timeout_of(made_up) == MINUTE
    assert not HANDLER.settlement(made_up, Bury("no"), MINUTE).replaces


def test_an_occurrence_is_run_as_its_schedule_says() -> None:
    occurrence = delivery(retry='"none"', timeout="5.5", dead="all")

    assert HANDLER.retry_of(occurrence) is NO_RETRY
    assert HANDLER.timeout_of(occurrence) == timedelta(seconds=5.5)
    assert not HANDLER.settlement(occurrence, Bury("no"), MINUTE).replaces


def test_without_options_of_its_own_it_has_those_of_recurring_jobs() -> None:
    assert HANDLER.retry_of(delivery()) is RECURRING
    assert HANDLER.timeout_of(delivery()) == MINUTE
    assert HANDLER.settlement(delivery(), Bury("no"), MINUTE).replaces
    assert not HANDLER.settlement(delivery(), DONE, MINUTE).replaces


def test_it_may_use_the_policy_of_its_consumer_and_have_no_limit() -> None:
    assert HANDLER.retry_of(delivery(retry='"consumer"')) is MESSAGES
    assert HANDLER.timeout_of(delivery(timeout="none")) is None


@pytest.mark.parametrize(
    "written", ['{"kind":"lunar"}', '"lunar"', "not JSON", "[1]", '{"kind":"intervals","waits":7}']
)
def test_a_policy_of_a_later_release_is_reported_once_and_the_default_is_used(
    written: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mainspring.worker")

    found = [HANDLER.retry_of(delivery(retry=written)) for _ in range(3)]

    assert found == [RECURRING] * 3
    assert caplog.text.count("a schedule's retry policy is not used") == 1


@pytest.mark.parametrize("written", ["soon", "", "1e300"])
def test_a_timeout_that_cannot_be_read_is_that_of_the_consumer(written: str) -> None:
    assert HANDLER.timeout_of(delivery(timeout=written)) == MINUTE


def test_a_policy_is_read_as_it_was_written() -> None:
    policy = HANDLER.retry_of(delivery(retry='{"kind":"intervals","waits":[1.0,2.0],"jitter":0.0}'))

    assert [policy.wait(attempt, MINUTE) for attempt in (1, 2, 3)] == [SECOND, 2 * SECOND, None]
