"""What a queue answers: which items were settled or extended, and which were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from mainspring.app.queues.item import Item, held
from mainspring.model.errors import ClaimLost, StorageUnavailable
from mainspring.model.message import Extended, Settled

T = TypeVar("T")

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class SettledItems(Generic[T]):
    """The answer of ``ack``, ``abandon`` and ``fail``, which return only when nothing was lost."""

    settled: tuple[Item[T], ...] = ()
    """Written now."""
    gone: tuple[Item[T], ...] = ()
    """There was nothing left to write: an earlier call, whose answer was lost, had settled them."""


@dataclass(frozen=True, slots=True)
class ExtendedItems(Generic[T]):
    """The answer of ``extend``. Items that were settled here meanwhile are named nowhere."""

    extended: tuple[Item[T], ...] = ()
    """Held anew."""
    lost: tuple[Item[T], ...] = ()
    """Another has them, or they are gone: stop, and do not settle them."""
    busy: tuple[Item[T], ...] = ()
    """Their rows were locked just now, so nothing is known: ask again."""
    asked: tuple[Item[T], ...] = ()
    """Those of the extended that somebody has cancelled: stop, and abandon them."""


def settled(items: Sequence[Item[T]], answer: Settled, call: str, *, joined: bool) -> SettledItems[T]:
    """What the database said of a batch; raises ClaimLost unless it knew every claim.

    What is gone was settled by somebody. Outside of a transaction that may have been our own earlier call, if we never
    heard its answer. Within one it never was: a lost answer ends the transaction, and all that was written in it.
    """
    if answer.busy:
        raise StorageUnavailable(
            f"queue.{call}(…): another session has locked {len(answer.busy):,} of the items: roll this transaction "
            "back, and begin it again"
        )
    lost: list[Item[T]] = []
    gone: list[Item[T]] = []
    for item in items:
        if item.claim in answer.lost:
            lost.append(item)
        elif item.claim in answer.gone:
            ours = held(item).unheard and not joined
            (gone if ours else lost).append(item)
    refused = {item.claim for item in (*lost, *gone)}
    written = tuple(item for item in items if item.claim not in refused)
    if not joined:
        for item in (*written, *gone):
            held(item).settled = call
    if lost:
        raise ClaimLost(_told(lost, call, joined=joined), tuple(lost), () if joined else (*written, *gone))
    return SettledItems(written, tuple(gone))


def extended(items: Sequence[Item[T]], answer: Extended, sent: float, hold: timedelta) -> ExtendedItems[T]:
    """What the database said of a heartbeat."""
    # One that was settled while the heartbeat was on its way is not lost, however it looked from there.
    live = [item for item in items if held(item).settled is None]
    lost = tuple(item for item in live if item.claim in answer.lost)
    busy = tuple(item for item in live if item.claim in answer.busy)
    asked = tuple(item for item in live if item.claim in answer.asked)
    kept = tuple(item for item in live if item.claim not in answer.lost and item.claim not in answer.busy)
    for item in kept:
        held(item).extended(sent, hold)
    return ExtendedItems(kept, lost, busy, asked)


def _told(lost: Sequence[Item[T]], call: str, *, joined: bool) -> str:
    named = ", ".join(str(item.message_id) for item in lost[:_MOST_NAMED])
    if len(lost) > _MOST_NAMED:
        named += f" and {len(lost) - _MOST_NAMED:,} more"
    then = "roll this transaction back" if joined else "nothing was written for it"
    return (
        f"queue.{call}(…): the claim on message {named} is lost, because it lapsed and was taken over, or it was "
        f"settled already: {then}, whoever has it decides. Hold it for longer, or extend it while you work"
    )
