"""From the calls of a processor to verdicts on what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from mainspring.app.consumers import retry_policy
from mainspring.app.options import length
from mainspring.app.queues.item import Held, Item, held
from mainspring.app.queues.terms import Terms
from mainspring.model.errors import BadOption, Misuse, StorageUnavailable
from mainspring.model.join import is_member
from mainspring.model.message import Claim, Settled
from mainspring.model.verdict import Done, Settlement, Snooze, Verdict
from mainspring.runtime import judgement
from mainspring.runtime.service import backoff
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

Judge = Callable[[Held, timedelta], Verdict]
"""The verdict on one claim, held for so long."""

_KINDS = ("builtins.Exception", "builtins.BaseException")
"""What an error that was given as text counts as, for ``retry_on`` and ``give_up_on``."""
_TRIES = 50
_LONGEST_PAUSE = 0.25


def done(output: object) -> Judge:
    """It succeeded."""
    if output is not None and not isinstance(output, str):
        raise BadOption(f"queue.ack(…, output={output!r}) must be text: it is kept with the history")
    verdict = judgement.of_result(Done(output))
    return lambda _held, _took: verdict


def handed_back(delay: Duration, reason: object) -> Judge:
    """Not now: no attempt is counted."""
    verdict = judgement.of_result(Snooze(length(delay, "delay"), None if reason is None else str(reason)))
    return lambda _held, _took: verdict


def failed(error: object, retry: RetryPolicy | str | None, terms: Terms) -> Judge:
    """It failed: tried again by the policy, or given up."""
    policy = retry_policy(retry, terms.retry)
    if isinstance(error, str):
        error = judgement.Reported(judgement.said(error), _KINDS)
    if not isinstance(error, BaseException):
        raise BadOption(f"queue.fail(…, error={error!r}) must be the exception, or text that says what went wrong")
    raised: BaseException = error
    return lambda held, took: judgement.of_error(raised, held.delivery, policy, took)


def settlements(items: Sequence[Item[Any]], judge: Judge, terms: Terms, clock: Clock) -> list[Settlement]:
    """The verdicts, ready to be written, in the order in which everybody who touches several rows takes them."""
    now = clock.monotonic()
    made = []
    for item in items:
        one = held(item)
        took = timedelta(seconds=max(now - one.received, 0.0))
        delivery = one.delivery
        made.append(
            Settlement(delivery.claim, judge(one, took), terms.keeps(delivery), took, is_member(delivery)),
        )
    return sorted(made, key=lambda settlement: settlement.claim)


def check(items: Sequence[object], terms: Terms, home: object, call: str, *, writes: bool) -> None:
    """Raise what is wrong with the items of a call."""
    seen: set[int] = set()
    for item in items:
        if not isinstance(item, Item):
            hint = f": write queue.{call}(*items)" if isinstance(item, list | tuple) else ""
            raise BadOption(f"queue.{call}(…) takes items as queue.claim() gives them, not {item!r}{hint}")
        one = held(item)
        if one.home is not home or one.delivery.group != terms.group:
            whose = f"of {item.group!r}" if one.home is home else "of another app"
            raise BadOption(
                f"queue.{call}(…): message {item.message_id} is an item {whose}, and this is the queue "
                f"{terms.group!r}: an item goes back to a queue of its own group"
            )
        if id(item) in seen:
            raise BadOption(f"queue.{call}(…) names message {item.message_id} twice")
        if writes and one.settled is not None:
            raise Misuse(
                f"queue.{call}(…): message {item.message_id} was settled already, by queue.{one.settled}(…): an item "
                "is settled once"
            )
        seen.add(id(item))


async def patiently(
    settle: Callable[[Sequence[Settlement], str], Awaitable[Settled]],
    made: Sequence[Settlement],
    owner: str,
    call: str,
) -> Settled:
    """Settle, and what another session has locked again and again, for about ten seconds."""
    lost: frozenset[Claim] = frozenset()
    gone: frozenset[Claim] = frozenset()
    for tries in range(1, _TRIES + 1):
        answer = await settle(made, owner)
        lost, gone = lost | answer.lost, gone | answer.gone
        if not answer.busy:
            break
        made = [each for each in made if each.claim in answer.busy]
        await asyncio.sleep(backoff(tries, _LONGEST_PAUSE))
    else:
        raise StorageUnavailable(
            f"queue.{call}(…): another session's open transaction has locked {len(made):,} of the items: when it has "
            f"ended, call queue.{call}(…) with the same items again"
        )
    return Settled(lost, gone)
