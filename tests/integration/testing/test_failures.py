"""What a user reads when a test fails."""

from pathlib import Path

from tests.integration.testing.runs import run_pytest

_FAILING = """
from bakery import OrderPlaced, app, carrier, ship


async def test_shipping(mainspring):
    carrier["answers"] = False
    await app.publish(OrderPlaced(7, 9.5))
    await mainspring.advance("1d")
"""

_NEVER = """
from bakery import OrderPlaced, app, carrier, ship


def test_shipping(mainspring):
    carrier["answers"] = False
    app.sync.publish(OrderPlaced(7, 9.5))
    mainspring.sync.wait_until(lambda: mainspring.delivered(ship), within="2m")
"""

_WRONG = """
from bakery import OrderPlaced, app


async def test_shipping(mainspring):
    await app.publish(OrderPlaced(7, 9.5))
    await mainspring.drain()
    assert mainspring.published("orders.shipped", order_id=8)
"""


_ALIVE = """
import pytest
from bakery import OrderPlaced, app


async def test_nothing_dies(mainspring):
    await app.publish(OrderPlaced(7, 9.5))
    with mainspring.expect_dead("ship"):
        await mainspring.drain()


def test_no_such_group(mainspring):
    with mainspring.expect_dead("shup"):
        pass
"""


def test_a_dead_letter_shows_the_line_that_raised_and_nothing_of_ours(project: Path) -> None:
    (project / "test_bakery.py").write_text(_FAILING)

    report = run_pytest(project, "asyncio")

    assert report.status == 1
    assert '>           raise ConnectionError("the carrier does not answer")' in report.output
    assert "bakery.py:31: ConnectionError" in report.output
    assert '>       await mainspring.advance("1d")' in report.output
    assert "UnexpectedDeadLetter: ship gave up on OrderPlaced(order_id=7, total=9.5)" in report.output
    assert "with kit.expect_dead('ship'):" in report.output
    assert "src/mainspring" not in report.output


def test_what_never_holds_shows_the_story_and_the_last_error(project: Path) -> None:
    (project / "test_bakery.py").write_text(_NEVER)

    report = run_pytest(project, "anyio")

    assert report.status == 1
    assert '>           raise ConnectionError("the carrier does not answer")' in report.output
    assert (
        "Unmet: not within 2m: mainspring.sync.wait_until(lambda: mainspring.delivered(ship), within=" in report.output
    )
    assert "<failed ship(OrderPlaced(order_id=7, total=9.5)), attempt 2" in report.output
    assert "<pending ship(OrderPlaced(order_id=7, total=9.5)), due in 1m, after attempt 2>" in report.output
    assert "src/mainspring" not in report.output


def test_a_plain_assertion_shows_what_there_was(project: Path) -> None:
    (project / "test_bakery.py").write_text(_WRONG)

    report = run_pytest(project, "asyncio")

    assert report.status == 1
    assert "where [] = published('orders.shipped', order_id=8)" in report.output
    assert "<Testing at " in report.output
    assert "3 published, 2 run, 1 pending, 0 dead>" in report.output


def test_an_expectation_that_is_not_met_shows_nothing_of_ours(project: Path) -> None:
    (project / "test_bakery.py").write_text(_ALIVE)

    report = run_pytest(project, "asyncio")

    assert report.status == 1
    assert '>       with mainspring.expect_dead("ship"):' in report.output
    assert "a dead letter of ship was expected, and none came" in report.output
    assert '>       with mainspring.expect_dead("shup"):' in report.output
    assert "no consumer has group 'shup'. Did you mean 'ship'?" in report.output
    assert "src/mainspring" not in report.output
    assert "contextlib.py" not in report.output
