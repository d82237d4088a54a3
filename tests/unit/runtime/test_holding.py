"""Until when a lease is ours: counted from before the request was sent, and never again once it was lost."""

import os
from datetime import UTC, datetime, timedelta

from mainspring.model.lease import Hold
from mainspring.runtime.lease_keeper import RAN_OUT, RELEASED, TAKEN, Holding
from mainspring.timing.clock import HandClock, SystemClock

SECOND = timedelta(seconds=1)
TTL = 30 * SECOND


def clock() -> HandClock:
    return HandClock(datetime(2030, 1, 1, 12, tzinfo=UTC))


def held(clock: HandClock, sent: float = 0.0) -> Holding:
    return Holding(Hold("reports", 7, "one"), TTL, sent, clock)


def test_it_is_held_until_its_time_is_over_counted_from_the_request() -> None:
    hands = clock()
    hands.advance(4 * SECOND)
    holding = held(hands, sent=1.0)  # the reply took three seconds

    hands.advance(26.9 * SECOND)
    in_time = holding.over
    hands.advance(0.1 * SECOND)

    assert in_time is None
    assert holding.over == RAN_OUT


def test_it_is_renewed_when_at_most_three_fifths_of_its_time_have_passed() -> None:
    moments = [held(clock()).renew_at for _ in range(200)]

    assert all(0.54 * 30 <= each <= 0.6 * 30 for each in moments)
    assert len(set(moments)) > 100, "with jitter"


def test_it_is_renewed_after_the_share_that_was_asked_for() -> None:
    hands = clock()
    holding = Holding(Hold("reports", 7, "one"), TTL, 0.0, hands, renew_after=0.2)
    first = holding.renew_at

    holding.renewed(sent=5.0)

    assert 0.18 * 30 <= first <= 0.2 * 30
    assert 5 + 0.18 * 30 <= holding.renew_at <= 5 + 0.2 * 30


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    hands = clock()
    holding = held(hands)
    hands.advance(20 * SECOND)

    holding.renewed(sent=18.0)

    assert holding.until == 48.0
    assert 18 + 0.54 * 30 <= holding.renew_at <= 18 + 0.6 * 30


def test_a_reply_that_comes_late_does_not_bring_back_what_was_lost() -> None:
    hands = clock()
    holding = held(hands)
    hands.advance(30 * SECOND)
    assert holding.over == RAN_OUT

    holding.renewed(sent=29.0)

    assert holding.over == RAN_OUT


def test_whoever_holds_it_is_told_once_that_it_is_lost() -> None:
    hands = clock()
    holding, told = held(hands), list[str]()
    holding.on_lost = lambda: told.append("lost")

    holding.lose(TAKEN)
    holding.lose(TAKEN)
    hands.advance(TTL)

    assert (holding.over, told) == (TAKEN, ["lost"])


def test_whoever_gives_it_back_is_not_told() -> None:
    holding, told = held(clock()), list[str]()
    holding.on_lost = lambda: told.append("lost")

    given_back = holding.end(RELEASED)
    again = holding.end(RELEASED)

    assert (given_back, again, holding.over, told) == (True, False, RELEASED, [])


def test_a_lease_that_ran_out_cannot_be_given_back() -> None:
    hands = clock()
    holding, told = held(hands), list[str]()
    holding.on_lost = lambda: told.append("lost")
    hands.advance(TTL)

    assert holding.end(RELEASED) is False
    assert (holding.over, told) == (RAN_OUT, ["lost"])


def test_in_a_forked_child_nothing_is_held() -> None:
    holding = held(clock())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, (holding.over or "held").encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert b"forked" in os.read(reader, 1000)
    assert holding.over is None
    os.close(reader)
    os.close(writer)


def test_the_clock_of_the_system_goes_on_while_the_machine_sleeps() -> None:
    system = SystemClock()

    # A machine that has slept has more of it than of the other; nowhere is there less.
    assert system.elapsed() >= system.monotonic() - 1
