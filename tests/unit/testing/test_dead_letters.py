from collections.abc import Callable
from typing import Any

import pytest

from mainspring import NO_RETRY, Context, Mainspring, Testing, errors, intervals


@pytest.fixture
def fail(app: Mainspring) -> Callable[..., Any]:
    @app.consumer("orders.placed", retry=intervals(1))
    async def fail(order: int) -> None:
        raise ValueError(f"order {order} is wrong")

    return fail


async def test_a_dead_letter_fails_the_test_with_the_handlers_own_error(
    app: Mainspring, kit: Testing, fail: Callable[..., Any]
) -> None:
    await app.publish("orders.placed", 13)
    with pytest.raises(errors.UnexpectedDeadLetter) as failure:
        await kit.advance("1h")

    assert isinstance(failure.value, AssertionError)
    assert str(failure.value).startswith(
        "fail gave up on 13 from topic 'orders.placed' at attempt 2: ValueError: order 13 is wrong\n"
    )
    cause = failure.value.__cause__
    assert isinstance(cause, ValueError)
    assert cause.__traceback__ is not None
    assert cause.__traceback__.tb_frame.f_code.co_name == "fail"


async def test_an_expected_one_is_handed_over_and_all_is_well(
    app: Mainspring, kit: Testing, fail: Callable[..., Any]
) -> None:
    await app.publish("orders.placed", 13)
    with kit.expect_dead(fail, error=ValueError) as dead:
        await kit.advance("1h")

    assert [(ran.group, ran.payload, ran.attempt, ran.error) for ran in dead] == [
        ("fail", 13, 2, "ValueError: order 13 is wrong")
    ]
    assert [(letter.payload, letter.attempt, letter.exception) for letter in kit.dead] == [(13, 2, dead[0].exception)]


@pytest.mark.parametrize("wanted", [{"error": KeyError}, {"error": "another text"}, {"consumer": "other"}])
async def test_one_that_died_of_something_else_is_not_the_expected_one(
    app: Mainspring, kit: Testing, fail: Callable[..., Any], wanted: dict[str, Any]
) -> None:
    @app.consumer("other")
    async def other() -> None: ...

    await app.publish("orders.placed", 13)
    with (
        pytest.raises(errors.UnexpectedDeadLetter),
        kit.expect_dead(wanted.get("consumer"), error=wanted.get("error")),
    ):
        await kit.advance("1h")


@pytest.mark.parametrize("error", [ValueError, (KeyError, ValueError), "order 13", None])
async def test_what_killed_it_is_a_type_or_a_text(
    app: Mainspring, kit: Testing, fail: Callable[..., Any], error: Any
) -> None:
    await app.publish("orders.placed", 13)
    with kit.expect_dead("fail", error=error):
        await kit.advance("1h")


async def test_where_none_dies_the_expectation_fails_and_says_what_ran(
    app: Mainspring, kit: Testing, fail: Callable[..., Any]
) -> None:
    await app.publish("orders.placed", 13)
    with (
        pytest.raises(errors.Unmet, match="a dead letter of fail by ValueError was expected, and none came") as failure,
        kit.expect_dead(fail, error=ValueError),
    ):
        await kit.drain()

    assert "<failed fail(13), attempt 1: ValueError: order 13 is wrong, again in 1s>" in str(failure.value)


async def test_a_payload_that_cannot_be_read_dies_likewise(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=NO_RETRY)
    async def ship(order: int) -> None: ...

    await app.publish("orders.placed", {"order": "seven"}, validate=False)
    with pytest.raises(errors.UnexpectedDeadLetter, match=r"ship gave up on \{'order': 'seven'\}") as failure:
        await kit.drain()

    assert isinstance(failure.value.__cause__, errors.Unreadable)


async def test_a_revived_message_gets_another_life(app: Mainspring, kit: Testing) -> None:
    mended: list[int] = []

    @app.consumer("orders.placed", retry=NO_RETRY)
    async def ship(order: int, ctx: Context) -> None:
        if not mended:
            raise OSError("away")

    await app.publish("orders.placed", 7)
    with kit.expect_dead():
        await kit.drain()
    mended.append(1)
    assert await app.dead.revive(group="ship") == 1

    assert kit.dead == []
    (ran,) = await kit.drain()
    assert (ran.outcome, ran.payload, ran.attempt) == ("done", 7, 1)


async def test_one_revived_with_another_payload_is_shown_with_it(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=NO_RETRY)
    async def ship(order: int) -> None:
        if order < 0:
            raise ValueError(order)

    wrong = await app.publish("orders.placed", -1)
    with kit.expect_dead():
        await kit.drain()
    await app.dead.revive(wrong.id, group="ship", payload=1)

    assert [(waiting.payload, waiting.due_in.total_seconds()) for waiting in kit.pending] == [(1, 0.0)]
    assert [ran.payload for ran in await kit.drain()] == [1]


@pytest.mark.parametrize(
    ("error", "said"),
    [("gone", "that says 'gone'"), ((KeyError, OSError), "by KeyError or OSError"), (None, "was expected")],
)
async def test_an_expectation_that_is_not_met_says_what_it_was(kit: Testing, error: Any, said: str) -> None:
    with pytest.raises(errors.Unmet, match=f"a dead letter.*{said}.*"), kit.expect_dead(error=error):
        await kit.drain()


async def test_a_dead_letter_reads_well(app: Mainspring, kit: Testing, fail: Callable[..., Any]) -> None:
    await app.publish("orders.placed", 13)
    with kit.expect_dead():
        await kit.advance("1h")

    assert repr(kit.dead) == "[<dead fail(13) after attempt 2: ValueError: order 13 is wrong>]"
