"""What a call of a queue writes, by owner: items of one queue may have been claimed under several names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from mainspring.app.queues.item import Item, held
from mainspring.model.message import Claim, Extended, Settled
from mainspring.model.verdict import Settlement

_claim = attrgetter("claim")


def claims_by_owner(items: Sequence[Item[Any]]) -> Iterable[tuple[str, list[Claim]]]:
    """The claims on the items, in the order in which rows are locked."""
    found: dict[str, list[Claim]] = {}
    for item in sorted(items, key=_claim):
        found.setdefault(held(item).owner, []).append(item.claim)
    return found.items()


def settlements_by_owner(
    items: Sequence[Item[Any]], made: Sequence[Settlement]
) -> Iterable[tuple[str, Sequence[Settlement]]]:
    """The verdicts on the items, in the order in which they were made."""
    owners = {item.claim: held(item).owner for item in items}
    found: dict[str, list[Settlement]] = {}
    for each in made:
        found.setdefault(owners[each.claim], []).append(each)
    return found.items()


def all_extended(answers: Sequence[Extended]) -> Extended:
    """The answers to all owners as one."""
    lost, busy, asked = (
        frozenset[Claim]().union(*map(attrgetter(name), answers)) for name in ("lost", "busy", "asked")
    )
    return Extended(lost, busy, asked)


def all_settled(answers: Sequence[Settled]) -> Settled:
    """The answers to all owners as one."""
    lost, gone, busy = (frozenset[Claim]().union(*map(attrgetter(name), answers)) for name in ("lost", "gone", "busy"))
    return Settled(lost, gone, busy)
