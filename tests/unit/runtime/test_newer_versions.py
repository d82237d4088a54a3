"""A message of a newer version than the code knows: released for a while, then buried; and in a test of the user's."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mainspring import Mainspring
from mainspring.model.errors import NewerVersion, UnexpectedDeadLetter, Unreadable
from mainspring.model.message import Delivery
from mainspring.model.verdict import Bury, Failure, Release, Retry, Verdict
from mainspring.runtime.verdicts import Reported, kind_name, of_error
from mainspring.timing.backoff import MESSAGES

NINE = datetime(2026, 6, 1, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NEWER = NewerVersion("version 3 of Order is newer than version 2")
FROM_A_PROCESS = Reported(Failure("unreadable", str(NEWER)), [kind_name(NewerVersion), kind_name(Unreadable)])


def judged(error: Exception, waited: timedelta, *, schedule: str | None = None, limit: timedelta = DAY) -> Verdict:
    """What becomes of a message that was scheduled for nine and claimed so long after it."""
    names = (None, None, None, None)
    delivery = Delivery(
        1, 1, UUID(int=1), "mailer", "orders", b"{}", "application/json; version=3", *names, 2, 1, 0,
        NINE + waited, NINE, NINE - HOUR, expired=False, cancel_asked=False, suspect=False, claimed_at=NINE + waited,
        schedule=schedule,
    )  # fmt: skip
    return of_error(error, delivery, MESSAGES, timedelta(), limit)


@pytest.mark.parametrize("error", [NEWER, FROM_A_PROCESS], ids=["here", "from a process"])
@pytest.mark.parametrize("schedule", [None, "nightly"])
@pytest.mark.parametrize(
    ("waited", "least", "most"), [(0 * SECOND, 0.75, 1.25), (100 * SECOND, 7.5, 12.5), (23 * HOUR, 22.5, 37.5)]
)
def test_it_is_released_soon_at_first_and_less_often_later(
    error: Exception, schedule: str | None, waited: timedelta, least: float, most: float
) -> None:
    verdict = judged(error, waited, schedule=schedule)

    assert isinstance(verdict, Release)
    assert least <= verdict.delay.total_seconds() <= most


@pytest.mark.parametrize("error", [NEWER, FROM_A_PROCESS], ids=["here", "from a process"])
def test_it_is_buried_with_the_reason_when_it_has_waited_long_enough(error: Exception) -> None:
    verdict = judged(error, 2 * HOUR, schedule="nightly", limit=2 * HOUR)

    assert isinstance(verdict, Bury)
    assert verdict.failure.kind == "unreadable"
    assert verdict.failure.error.endswith("is newer than version 2; none has taken it within 2h, its newer_wait")


def test_any_other_unreadable_message_is_retried() -> None:
    assert isinstance(judged(Unreadable("the payload is not Order"), timedelta()), Retry)


@dataclass
class Order:
    id: int


@dataclass
class Changed:
    id: int


async def test_in_a_test_it_waits_as_the_clock_is_advanced_and_is_then_given_up() -> None:
    app = Mainspring("memory://", name="shop", newer_wait="5m")
    app.message("orders.placed", version=2)(Order)
    app.message("orders.changed", version=3)(Changed)

    @app.consumer("orders.changed", group="mailer")
    async def mail(order: Order) -> None:
        raise AssertionError(order)

    async with app.testing() as kit:
        await app.publish(Changed(1))
        await kit.drain()
        waiting = [(each.state, each.attempt) for each in await app.messages.list()]
        await kit.advance("4m")
        still = [(each.state, each.attempt) for each in await app.messages.list()]
        with pytest.raises(UnexpectedDeadLetter, match="its newer_wait"):
            await kit.advance("2m")

    assert waiting == still == [("scheduled", 0)]
