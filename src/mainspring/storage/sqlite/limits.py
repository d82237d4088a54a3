"""The limits of groups in SQLite. Whose turn it is needs no row: there is one write lock, and each script holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import Claim, Delivery, Scan
from mainspring.storage.limiting import DEPTH, KEYS, WHOLE_GROUP, Candidate, Spent
from mainspring.storage.script import Script
from mainspring.storage.sql.limited import Found
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.taking import taken
from mainspring.storage.sqlite.values import after, instant, instant_or_none, micros, names, numbers

_LAPSED = 32
_FORGOTTEN = 500
_MICROSECOND = timedelta(microseconds=1)


class SqliteLimiting:
    """``Limiting`` for SQLite."""

    def __init__(self, sql: Dialect, group: str, limits: Limits, owner: str, hold: timedelta) -> None:
        self._sql = sql
        self._group = group
        self._limits = limits
        self._owner = owner
        self._hold = hold
        self._at = 0

    def turn(self) -> Script[None]:
        """See ``Limiting.turn``. The clock is only read: a claim that finds nothing writes nothing."""
        self._at = yield from self._sql.read_clock()

    def due(self, scans: Sequence[Scan], breadth: int) -> Script[Found | None]:
        """See ``Limiting.due``."""
        sql, group = self._sql, self._group
        if (group,) in (tuple(row) for row in (yield sql("paused"))):
            return None
        due: list[Candidate] = []
        for scan in scans:
            since = 0 if scan.since is None else micros(scan.since)
            rows = yield sql("limited_due", group, scan.priority, since, self._at, breadth - len(due))
            due += [Candidate(*row) for row in rows]
        held: dict[str | None, int] = {row[0]: row[1] for row in (yield sql("limited_held", group))}
        ((first,),) = yield sql("upcoming", names([group]), self._at)
        return Found(instant(self._at), due, held, instant_or_none(first))

    def lapsed(self, *, accused: bool, aside: Collection[Claim]) -> Script[tuple[datetime, list[Candidate]]]:
        """See ``Limiting.lapsed``."""
        if (self._group,) in (tuple(row) for row in (yield self._sql("paused"))):
            return instant(self._at), []
        ours = numbers(claim.id for claim in aside)
        rows = yield self._sql("limited_lapsed", self._group, self._at, _LAPSED, accused, self._owner, ours)
        return instant(self._at), [Candidate(*row) for row in rows]

    def keyless(self, scans: Sequence[Scan], most: int) -> Script[list[Candidate]]:
        """See ``Limiting.keyless``."""
        found: list[Candidate] = []
        for scan in scans:
            args = (self._group, scan.priority, self._at, most - len(found))
            found += [Candidate(seq, None) for (seq,) in (yield self._sql("limited_keyless", *args))]
        return found

    def walk(self, after: str) -> Script[list[str]]:
        """See ``Limiting.walk``."""
        return [key for (key,) in (yield self._sql("limited_walk", self._group, after, KEYS))]

    def heads(self, keys: Sequence[str], most: int) -> Script[list[Candidate]]:
        """See ``Limiting.heads``."""
        ordered, skips = self._limits.ordered, self._limits.on_failure == "skip"
        depth = 1 if ordered and not skips else DEPTH
        heads: list[Candidate] = []
        for key in keys:
            rows = yield self._sql("limited_heads", self._group, key, ordered, skips, depth, most, self._at)
            heads += [Candidate(seq, key) for (seq,) in rows]
        return heads

    def spent(self, keys: Sequence[str]) -> Script[list[Spent]]:
        """See ``Limiting.spent``."""
        rows = yield self._sql("limited_spent", self._group, names(keys), self._at)
        return [Spent(key, instant(until), claims) for key, until, claims in rows]

    def hold(self, seqs: Sequence[int], *, lapsed: bool = False) -> Script[list[Delivery]]:
        """See ``Limiting.hold``."""
        sql, at = self._sql, self._at
        yield from sql.mark_clock(at)
        held: list[Delivery] = []
        for *row, suspect in (yield sql("limited_read", numbers(seqs))):
            delivery = taken(row, at, instant(at))
            deaths = delivery.deaths + (suspect if lapsed else 0)
            held.append(delivery._replace(deaths=deaths, suspect=bool(suspect or lapsed)))
        until = after(at, self._hold)
        if lapsed:
            for each in held:
                yield sql("reap_hold", each.id, self._owner, until)
        else:
            yield sql("claim_hold", numbers(each.id for each in held), self._owner, until)
        yield from self._spend(held)
        return held

    def _spend(self, held: Sequence[Delivery]) -> Script[None]:
        """Count them: from the beginning of their slot, for a window and a slot."""
        limits = self._limits
        if not limits.is_rated:
            return
        spending: list[tuple[str, Rate, int]] = [] if limits.rate is None else [(WHOLE_GROUP, limits.rate, len(held))]
        if limits.key_rate is not None:
            by_key = Counter(each.key for each in held if each.key is not None)
            spending += [(key, limits.key_rate, count) for key, count in by_key.items()]
        for key, rate, count in spending:
            slot = rate.slot // _MICROSECOND
            until = self._at // slot * slot + slot + rate.per // _MICROSECOND
            yield self._sql("limited_spend", self._group, key, until, count)
        yield self._sql("prune_spent", self._at, _FORGOTTEN)
