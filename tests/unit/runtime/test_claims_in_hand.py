"""Claims in hand, where the database gives out the same numbers again."""

from datetime import UTC, datetime
from uuid import UUID

from mainspring.model.message import Delivery
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.handler import Handler, Run
from mainspring.timing.backoff import NO_RETRY

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HANDLER = Handler("work", lambda _delivery, _run: None, NO_RETRY)


def run(message: int, until: float = 1.0, *, suspect: bool = False) -> Run:
    """A run under seq 7 and epoch 1, whichever message it is of."""
    body = (UUID(int=message), "work", "work", b"{}", "application/json", None, None, None, None, 2, 1, 0)
    return Run(Delivery(7, 1, *body, NOON, NOON, NOON, False, False, suspect, NOON), HANDLER, until)


def test_two_messages_under_the_same_numbers_are_two_in_hand() -> None:
    in_hand, stale, fresh = ClaimsInHand(), run(1), run(2)

    taken = in_hand.take(stale), in_hand.take(fresh)
    dropped = in_hand.drop(stale.delivery.claim)

    assert taken == (True, True)
    assert dropped is stale
    assert in_hand.runs() == [fresh]


def test_the_same_delivery_under_the_same_claim_is_the_one_in_hand_and_held_for_longer() -> None:
    in_hand, first, again = ClaimsInHand(), run(1, 1.0), run(1, 5.0)

    taken = in_hand.take(first), in_hand.take(again)

    assert taken == (True, False)
    assert (in_hand.runs(), first.held_until) == ([first], 5.0)


def test_a_run_that_lost_its_claim_does_not_take_the_next_one_out_of_hand() -> None:
    in_hand, lost, again = ClaimsInHand(), run(1), run(1, suspect=True)
    in_hand.take(lost)
    in_hand.let_go(lost)
    in_hand.take(again)

    in_hand.let_go(lost)

    assert in_hand.runs() == [again]
    assert in_hand.holds_suspects
    in_hand.let_go(again)
    assert (in_hand.runs(), in_hand.holds_suspects) == ([], False)
