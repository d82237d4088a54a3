"""The limits of groups in memory: deliveries by key, claims under a rate, and what fits of what is there."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import islice

from mainspring.model.limits import LimitedClaim, Limits, Rate
from mainspring.model.message import ClaimRequest
from mainspring.storage.limiting import DEPTH, KEYS, WHOLE_GROUP, Allowance, Candidate, Spent, window
from mainspring.storage.memory.rows import DeliveryRow, Line, due

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LimitTable:
    """Which deliveries each key of a group has, by seq, and how many claims count until when."""

    def __init__(self) -> None:
        self._keyed: dict[str, dict[str, list[int]]] = {}
        self._spent: dict[str, dict[str, dict[datetime, int]]] = {}

    def add(self, row: DeliveryRow) -> None:
        """Let a new delivery stand in the order of its key."""
        key = row.message.draft.key
        if key is not None:
            insort(self._keyed.setdefault(row.group, {}).setdefault(key, []), row.seq)

    def remove(self, row: DeliveryRow) -> None:
        """Take a delivery away."""
        key = row.message.draft.key
        if key is not None:
            seqs = self._keyed[row.group][key]
            del seqs[bisect_left(seqs, row.seq)]
            if not seqs:
                del self._keyed[row.group][key]

    def of_key(self, group: str, key: str) -> Iterator[int]:
        """Its deliveries, the first first."""
        return iter(self._keyed.get(group, {}).get(key, ()))

    def keys(self, group: str) -> Iterable[str]:
        """The keys that have deliveries."""
        return self._keyed.get(group, ())

    def spent(self, group: str, keys: Iterable[str], now: datetime) -> list[Spent]:
        """What still counts."""
        spent = self._spent.get(group, {})
        return [
            Spent(key, until, claims) for key in keys for until, claims in spent.get(key, {}).items() if until > now
        ]

    def spend(self, group: str, limits: Limits, keys: Sequence[str | None], now: datetime) -> None:
        """Count these claims: from the beginning of their slot, for a window and a slot."""
        self.forget(group, now)
        if limits.rate is not None:
            self._count(group, WHOLE_GROUP, limits.rate, len(keys), now)
        if limits.key_rate is not None:
            for key, claims in Counter(key for key in keys if key is not None).items():
                self._count(group, key, limits.key_rate, claims, now)

    def forget(self, group: str, now: datetime | None) -> None:
        """Forget what counts no more by now; without a time, all of the group."""
        spent = self._spent.get(group, {})
        for key, slots in list(spent.items()):
            for until in [each for each in slots if now is None or each <= now]:
                del slots[until]
            if not slots:
                del spent[key]

    def prune(self, now: datetime) -> None:
        """Forget what counts no more, of every group."""
        for group in self._spent:
            self.forget(group, now)

    def _count(self, group: str, key: str, rate: Rate, claims: int, now: datetime) -> None:
        begun = _EPOCH + (now - _EPOCH) // rate.slot * rate.slot
        slots = self._spent.setdefault(group, {}).setdefault(key, {})
        until = begun + rate.slot + rate.per
        slots[until] = slots.get(until, 0) + claims


class Limiting:
    """One call under the limits of one group; whoever makes it holds the lock."""

    def __init__(
        self, table: LimitTable, rows: dict[int, DeliveryRow], group: str, limits: Limits, now: datetime
    ) -> None:
        self._table = table
        self._rows = rows
        self._group = group
        self._limits = limits
        self._now = now

    def choose(self, line: Line, want: ClaimRequest, after: str | None) -> tuple[list[int], LimitedClaim]:
        """What is to be taken, and the answer but for the deliveries."""
        breadth, limits, now = window(want.limit), self._limits, self._now
        first = [
            Candidate(seq, self._key(seq))
            for scan in want.scans
            for seq in line.first(scan.priority, scan.since, now, breadth)
        ][:breadth]
        held = Counter(self._key(seq) for _, seq in line.held)
        allowance = Allowance(limits, want.limit, held, now)
        self._tell(allowance, (each.key for each in first))
        if limits.ordered and not allowance.is_used_up:
            allowance.offer(self._firsts(first))
        else:
            allowance.offer(first)
        allowance.left |= len(allowance.chosen) < len(first)
        walked: list[str] = []
        if limits.is_by_key and not allowance.is_used_up and len(first) >= breadth:
            if after is None:
                allowance.offer(self._keyless(line, want))
            walked = nsmallest(
                KEYS, (key for key in self._table.keys(self._group) if key > (after or "") and self._waits(key))
            )
            self._tell(allowance, walked)
            most = 1 if limits.ordered else want.limit
            allowance.offer(each for key in walked for each in self._heads(key, most))
        self._spend(allowance)
        return allowance.chosen, allowance.ration([], line.next_due(now), walked[-1] if len(walked) == KEYS else None)

    def choose_lapsed(self, line: Line, may_be_reaped: Callable[[DeliveryRow], bool]) -> int | None:
        """The oldest lapsed claim that a rate has room for."""
        seqs = [seq for _, seq in line.held[: due(line.held, self._now)]]
        lapsed = [Candidate(seq, self._key(seq)) for seq in seqs if may_be_reaped(self._rows[seq])]
        rates = Limits(rate=self._limits.rate, key_rate=self._limits.key_rate)
        allowance = Allowance(rates, 1, {}, self._now)
        self._tell(allowance, (each.key for each in lapsed))
        allowance.offer(lapsed)
        self._spend(allowance)
        return allowance.chosen[0] if allowance.chosen else None

    def _tell(self, allowance: Allowance, keys: Iterable[str | None]) -> None:
        asked = allowance.asks_for(keys)
        allowance.learn(asked, self._table.spent(self._group, asked, self._now))

    def _spend(self, allowance: Allowance) -> None:
        if allowance.chosen and self._limits.is_rated:
            keys = [self._key(seq) for seq in allowance.chosen]
            self._table.spend(self._group, self._limits, keys, self._now)

    def _firsts(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """In the place of what is due, the first of its key, once."""
        seen: set[str] = set()
        for each in candidates:
            if each.key is None:
                yield each
            elif each.key not in seen:
                seen.add(each.key)
                yield from self._heads(each.key, 1)

    def _keyless(self, line: Line, want: ClaimRequest) -> list[Candidate]:
        """The first that are due and have no key."""
        due_of = (line.first(scan.priority, None, self._now, len(self._rows)) for scan in want.scans)
        keyless = (seq for seqs in due_of for seq in seqs if self._key(seq) is None)
        return [Candidate(seq, None) for seq in islice(keyless, want.limit)]

    def _heads(self, key: str, most: int) -> list[Candidate]:
        """Of those that nobody holds, the first of a key that are due; under an order the very first, if it is due."""
        limits, now = self._limits, self._now
        skips = limits.on_failure == "skip"
        depth = 1 if limits.ordered and not skips else DEPTH
        unheld = (
            row for row in map(self._rows.__getitem__, self._table.of_key(self._group, key)) if row.held_by is None
        )
        first = [
            row
            for row in islice(unheld, depth)
            if row.due_at <= now or (limits.ordered and not (skips and row.attempt > 0))
        ]
        return [Candidate(row.seq, key) for row in first[:most] if row.due_at <= now]

    def _waits(self, key: str) -> bool:
        return any(self._rows[seq].held_by is None for seq in self._table.of_key(self._group, key))

    def _key(self, seq: int) -> str | None:
        return self._rows[seq].message.draft.key
