"""Items of a queue: one claimed delivery each; how several are judged, settled and extended, and the results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from uuid import UUID

from mainspring.app.options import length, retry_policy
from mainspring.app.queue.options import QueueSettings
from mainspring.app.queue.token import Token, proof
from mainspring.model.errors import BadOption, ClaimLost, Misuse, StorageUnavailable
from mainspring.model.message import Claim, Delivery, Extended, Settled, public
from mainspring.model.verdict import Done, Settlement, Snooze, Verdict
from mainspring.model.worker import shown
from mainspring.runtime import verdicts
from mainspring.runtime.service import backoff
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

T = TypeVar("T")

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class ClaimState:
    """The local state of one claim."""

    delivery: Delivery
    owner: str
    """Its holder in the database: unique to the process that claimed it (``model.worker.holder``)."""
    home: object
    """Shared by all queues of its app: identifies items of another app."""
    received: float
    """When the delivery was claimed, by the monotonic clock; never before."""
    until: datetime
    """No later than the claim lapses, by the database's clock."""
    settled: str | None = None
    """The call that settled it, once the database confirmed it; not set in a caller's transaction."""
    unconfirmed: bool = False
    """Whether a settle was sent and its result lost: it may have been written."""
    checked: float = 0.0
    """When a suspect was last known to be held, by the monotonic clock."""

    @property
    def fence(self) -> tuple[Claim, str]:
        """The claim and its holder: equal for all items of one claim."""
        return self.delivery.claim, self.owner

    @property
    def waited(self) -> float:
        """Seconds from due to claimed, by the database's clock."""
        return (self.delivery.claimed_at - self.delivery.due_at).total_seconds()

    @property
    def lapses(self) -> float:
        """When the claim has certainly lapsed, by the monotonic clock, unless it is extended."""
        return self.received + (self.until - self.delivery.claimed_at).total_seconds()

    def extended(self, sent: float, hold: timedelta) -> None:
        """Record an extension that was sent then."""
        # The database's clock at the claim, plus the time since: a lower bound of its clock now.
        passed = timedelta(seconds=max(sent - self.received, 0.0))
        self.until = self.delivery.claimed_at + passed + hold


class Item(Generic[T]):
    """One group's copy of a message, claimed by ``queue.claim`` or ``queue.reap``, until it is settled or lapses.

    It is settled once, by a queue of the same group: ``ack``, ``abandon`` or ``fail``; by its ``token`` also in another
    process.
    """

    __slots__ = ("__weakref__", "_held", "_settings")

    def __init__(self, held: ClaimState, settings: QueueSettings) -> None:
        self._held = held
        self._settings = settings

    def __repr__(self) -> str:
        """Return message, group and attempt."""
        return f"<Item {self.topic} {self.message_id} for {self.group}, attempt {self.attempt}>"

    @property
    def payload(self) -> T:
        """The payload, decoded now: as the queue's ``type``, as its topic's registered type, or as plain values.

        Raises Unreadable, naming the message, for bytes that do not fit. Other items are not affected.
        """
        payload: T = self._settings.read(self._held.delivery)
        return payload

    @property
    def body(self) -> bytes:
        """The payload as stored."""
        return self._held.delivery.payload

    @property
    def content_type(self) -> str:
        """The payload's content type: ``application/json``."""
        return self._held.delivery.content_type

    @property
    def message_id(self) -> UUID:
        """The message's id: the same in every attempt and for every group."""
        return self._held.delivery.message_id

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self._held.delivery.topic

    @property
    def group(self) -> str:
        """The group whose copy this is."""
        return self._held.delivery.group

    @property
    def key(self) -> str | None:
        """The key it was published under."""
        return self._held.delivery.key

    @property
    def headers(self) -> Mapping[str, str]:
        """The publisher's headers; empty if there are none."""
        headers = self._held.delivery.headers
        return _NO_HEADERS if headers is None else MappingProxyType(public(headers))

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to, if the publisher set it."""
        return self._held.delivery.correlation_id

    @property
    def causation_id(self) -> UUID | None:
        """The message whose handler published this one."""
        return self._held.delivery.causation_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1. An abandoned one is not counted."""
        return self._held.delivery.attempt

    @property
    def suspect(self) -> bool:
        """Whether it was reaped: its last holder died or froze with it, possibly because of it."""
        return self._held.delivery.suspect

    @property
    def scheduled_for(self) -> datetime:
        """When its delivery was planned; a retry does not change it."""
        return self._held.delivery.scheduled_for

    @property
    def published_at(self) -> datetime:
        """When it was stored, by the database's clock."""
        return self._held.delivery.published_at

    @property
    def claim(self) -> Claim:
        """The right to settle it, ``(id, epoch, message_id)``: the epoch grows with every claim, and is the fence."""
        return self._held.delivery.claim

    @property
    def token(self) -> str:
        """The claim as text, for another process: ``await queue.item(token)`` returns the item there.

        It is the right to extend and settle this item: pass it only to code that may. It is valid while the claim is
        held, also after a restart, and needs no escaping in a URL.
        """
        delivery = self._held.delivery
        held_by = proof(self._held.owner, delivery.claim)
        claim = delivery.id, delivery.epoch, delivery.message_id
        return Token(self._settings.tables, delivery.group, *claim, held_by, delivery.due_at).written

    @property
    def owner(self) -> str:
        """The holder."""
        return shown(self._held.owner)

    @property
    def held_until(self) -> datetime:
        """When the claim lapses, by the database's clock, unless it is extended.

        It does not lapse earlier, unless another process extends it for a shorter time.
        """
        return self._held.until


def held(item: Item[Any]) -> ClaimState:
    """Return the internal state of an item."""
    return item._held  # noqa: SLF001 - same module


_MOST_NAMED = 3
_TRIES = 50
_LONGEST_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class SettledItems(Generic[T]):
    """The result of ``ack``, ``abandon`` and ``fail``, which return only if no claim was lost."""

    settled: tuple[Item[T], ...] = ()
    """Written now."""
    gone: tuple[Item[T], ...] = ()
    """Nothing was left to write: an earlier call, whose result was lost, had settled them."""


@dataclass(frozen=True, slots=True)
class ExtendedItems(Generic[T]):
    """The result of ``extend``. Items settled here during the call are omitted."""

    extended: tuple[Item[T], ...] = ()
    """Extended."""
    lost: tuple[Item[T], ...] = ()
    """Taken over, or gone: stop, and do not settle them."""
    busy: tuple[Item[T], ...] = ()
    """Their rows were locked, so their state is unknown: retry."""
    asked: tuple[Item[T], ...] = ()
    """Those of the extended that were cancelled: stop, and abandon them."""


Judge = Callable[[ClaimState, timedelta], Verdict]
"""The verdict on one claim, and its run time."""

_KINDS = ("builtins.Exception", "builtins.BaseException")
"""How an error given as text is classified, for ``retry_on`` and ``give_up_on``."""


def judge_done(output: object) -> Judge:
    """Judge as done."""
    if output is not None and not isinstance(output, str):
        raise BadOption(f"queue.ack(…, output={output!r}) must be text: it is kept with the history")
    verdict = verdicts.of_result(Done(output))
    return lambda _held, _took: verdict


def judge_snoozed(delay: Duration, reason: object) -> Judge:
    """Judge as snoozed: no attempt is counted."""
    verdict = verdicts.of_result(Snooze(length(delay, "delay"), None if reason is None else str(reason)))
    return lambda _held, _took: verdict


def judge_failed(error: object, retry: RetryPolicy | str | None, settings: QueueSettings) -> Judge:
    """Judge as failed: retried by policy, or buried."""
    handler, policy = settings.handler, None if retry is None else retry_policy(retry, settings.handler.retry)
    if isinstance(error, str):
        error = verdicts.Reported(verdicts.reported(error), _KINDS)
    if not isinstance(error, BaseException):
        raise BadOption(f"queue.fail(…, error={error!r}) must be the exception, or text that describes it")
    raised: BaseException = error

    def judge(held: ClaimState, took: timedelta) -> Verdict:
        chosen = policy or handler.retry_of(held.delivery)
        return verdicts.of_error(raised, held.delivery, chosen, took, handler.newer_wait)

    return judge


def settlements(items: Sequence[Item[Any]], judge: Judge, settings: QueueSettings, clock: Clock) -> list[Settlement]:
    """Return the verdicts, ready to be written, in the order in which every transaction locks rows."""
    now = clock.monotonic()
    made = []
    for item in items:
        one = held(item)
        took = timedelta(seconds=max(now - one.received, 0.0))
        made.append(settings.handler.settlement(one.delivery, judge(one, took), took))
    return sorted(made, key=lambda settlement: settlement.claim)


def check(items: Sequence[object], settings: QueueSettings, home: object, call: str, *, writes: bool) -> None:
    """Raise if a call cannot take these items."""
    seen: set[int] = set()
    for item in items:
        if not isinstance(item, Item):
            hint = f": write queue.{call}(*items)" if isinstance(item, list | tuple) else ""
            raise BadOption(f"queue.{call}(…) takes items from queue.claim(), not {item!r}{hint}")
        one = held(item)
        if one.home is not home or one.delivery.group != settings.group:
            whose = f"of {item.group!r}" if one.home is home else "of another app"
            raise BadOption(
                f"queue.{call}(…): message {item.message_id} is an item {whose}, and this is the queue "
                f"{settings.group!r}: pass it to a queue of its own group"
            )
        if id(item) in seen:
            raise BadOption(f"queue.{call}(…) names message {item.message_id} twice")
        if writes and one.settled is not None:
            raise Misuse(
                f"queue.{call}(…): message {item.message_id} was settled already, by queue.{one.settled}(…): an item "
                "is settled once"
            )
        seen.add(id(item))


def settled(items: Sequence[Item[T]], answer: Settled, call: str, *, enlisted: bool) -> SettledItems[T]:
    """Return the result of a batch; raises ClaimLost unless the database knew every claim.

    A claim that is gone was settled. Outside a transaction an earlier call of ours, whose result was lost, may have
    done so. Within one it cannot: a lost result ends the transaction, and rolls back all its writes.
    """
    if answer.busy:
        raise StorageUnavailable(
            f"queue.{call}(…): another session has locked {len(answer.busy):,} of the items: roll this transaction "
            "back, and retry it"
        )
    lost: list[Item[T]] = []
    gone: list[Item[T]] = []
    for item in items:
        if item.claim in answer.lost:
            lost.append(item)
        elif item.claim in answer.gone:
            ours = held(item).unconfirmed and not enlisted
            (gone if ours else lost).append(item)
    refused = {item.claim for item in (*lost, *gone)}
    written = tuple(item for item in items if item.claim not in refused)
    if not enlisted:
        for item in (*written, *gone):
            held(item).settled = call
    if lost:
        raise ClaimLost(_lost(lost, call, enlisted=enlisted), tuple(lost), () if enlisted else (*written, *gone))
    return SettledItems(written, tuple(gone))


def extended(items: Sequence[Item[T]], answer: Extended, sent: float, hold: timedelta) -> ExtendedItems[T]:
    """Return the result of a heartbeat."""
    # An item that was settled while the heartbeat was under way is not lost, even if reported so.
    live = [item for item in items if held(item).settled is None]
    lost = tuple(item for item in live if item.claim in answer.lost)
    busy = tuple(item for item in live if item.claim in answer.busy)
    asked = tuple(item for item in live if item.claim in answer.asked)
    kept = tuple(item for item in live if item.claim not in answer.lost and item.claim not in answer.busy)
    for item in kept:
        held(item).extended(sent, hold)
    return ExtendedItems(kept, lost, busy, asked)


def _lost(lost: Sequence[Item[T]], call: str, *, enlisted: bool) -> str:
    named = ", ".join(str(item.message_id) for item in lost[:_MOST_NAMED])
    if len(lost) > _MOST_NAMED:
        named += f" and {len(lost) - _MOST_NAMED:,} more"
    then = "roll this transaction back" if enlisted else "nothing was written for it"
    return (
        f"queue.{call}(…): the claim on message {named} is lost, because it lapsed and was taken over, or it was "
        f"settled already: {then}, its holder decides. Hold it for longer, or extend it while you work"
    )


_claim = attrgetter("claim")


def claims_by_owner(items: Sequence[Item[Any]]) -> Iterable[tuple[str, list[Claim]]]:
    """Return the claims by owner, in the order of row locks."""
    found: dict[str, list[Claim]] = {}
    for item in sorted(items, key=_claim):
        found.setdefault(held(item).owner, []).append(item.claim)
    return found.items()


def settlements_by_owner(
    items: Sequence[Item[Any]], made: Sequence[Settlement]
) -> Iterable[tuple[str, Sequence[Settlement]]]:
    """Return the verdicts by owner, in their given order."""
    owners = {item.claim: held(item).owner for item in items}
    found: dict[str, list[Settlement]] = {}
    for each in made:
        found.setdefault(owners[each.claim], []).append(each)
    return found.items()


def all_extended(answers: Sequence[Extended]) -> Extended:
    """Merge the results of all owners."""
    lost, busy, asked = (
        frozenset[Claim]().union(*map(attrgetter(name), answers)) for name in ("lost", "busy", "asked")
    )
    return Extended(lost, busy, asked)


def all_settled(answers: Sequence[Settled]) -> Settled:
    """Merge the results of all owners."""
    lost, gone, busy = (frozenset[Claim]().union(*map(attrgetter(name), answers)) for name in ("lost", "gone", "busy"))
    return Settled(lost, gone, busy)


async def patiently(
    settle: Callable[[Sequence[Settlement], str], Awaitable[Settled]],
    made: Sequence[Settlement],
    owner: str,
    call: str,
) -> Settled:
    """Settle, and retry rows locked by another session, for about ten seconds."""
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
            f"queue.{call}(…): another session's open transaction has locked {len(made):,} of the items: when it "
            f"ends, call queue.{call}(…) with the same items again"
        )
    return Settled(lost, gone)
