"""A user's own tests, as they would stand in their project."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from bakery import OrderPlaced, app, carrier, remind, ship  # type: ignore[import-not-found]

from mainspring import Testing


@pytest.fixture(autouse=True)
def _carrier() -> Iterator[None]:
    carrier["answers"] = True
    yield
    carrier["answers"] = True


async def test_the_reminder_comes_a_day_later(mainspring: Testing) -> None:
    await app.publish(OrderPlaced(7, 9.5))
    await mainspring.advance("23h")
    assert not mainspring.delivered(remind)

    await mainspring.advance("1h")

    assert mainspring.delivered(remind, order_id=7)
    assert mainspring.published("mail.sent", order_id=7)


async def test_who_has_paid_is_not_reminded(mainspring: Testing) -> None:
    await app.publish(OrderPlaced(7, 9.5))
    await mainspring.drain()
    await app.cancel("payments.reminder", key="order:7")

    await mainspring.advance("7d")

    assert not mainspring.delivered(remind)


async def test_the_carrier_is_asked_again(mainspring: Testing) -> None:
    carrier["answers"] = False
    began = mainspring.now
    await app.publish(OrderPlaced(7, 9.5))
    await mainspring.advance("2m")
    carrier["answers"] = True

    await mainspring.wait_until(lambda: mainspring.delivered(ship))

    assert mainspring.now - began == timedelta(minutes=3)
    assert [ran.outcome for ran in mainspring.runs if ran.group == "ship"] == ["failed", "failed", "done"]


async def test_what_was_given_up_is_revived(mainspring: Testing) -> None:
    carrier["answers"] = False
    await app.publish(OrderPlaced(7, 9.5))
    with mainspring.expect_dead(ship, error=ConnectionError) as dead:
        await mainspring.advance("1h")
    assert [(letter.payload, letter.attempt) for letter in dead] == [(OrderPlaced(7, 9.5), 4)]

    carrier["answers"] = True
    await app.dead.revive(group="ship")
    await mainspring.drain()

    assert mainspring.dead == []
    assert mainspring.published("orders.shipped", order_id=7)


def test_all_of_it_works_without_a_loop(mainspring: Testing) -> None:
    app.sync.publish(OrderPlaced(7, 9.5))

    mainspring.sync.advance("1d")

    assert mainspring.delivered(remind)
    assert mainspring.delivered(ship)
