"""The limits of groups in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import Claim, Delivery, Scan
from mainspring.storage.limiting import DEPTH, KEYS, Candidate, Spent
from mainspring.storage.operation import Now
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql.limited import Found

_LAPSED = 32
_MICROSECOND = timedelta(microseconds=1)


class PostgresLimiting:
    """``Limiting`` for PostgreSQL."""

    def __init__(self, names: Names, group: str, limits: Limits, owner: str, hold: timedelta, now: Now) -> None:
        self._sql = names.sql
        self._group = group
        self._limits = limits
        self._owner = owner
        self._hold = hold
        self._now = now

    def turn(self) -> Script[None]:
        """See ``Limiting.turn``. It is a statement of its own, so that the next one has a snapshot of its own."""
        yield Opening(self._sql("limited_turn"), (self._group,))

    def due(self, scans: Sequence[Scan], breadth: int) -> Script[Found | None]:
        """See ``Limiting.due``."""
        levels, sinces = [scan.priority for scan in scans], [scan.since for scan in scans]
        rows = yield Statement(self._sql("limited_due"), (self._group, levels, sinces, breadth, self._now))
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        if "paused" in found:
            return None
        return Found(
            found["now"][0][4],
            [Candidate(seq, key) for _, _, seq, key, _ in sorted(found.get("due", ()), key=lambda row: int(row[1]))],
            {key: count for _, count, _, key, _ in found.get("held", ())},
            found["next"][0][4] if "next" in found else None,
        )

    def lapsed(self, *, accused: bool, aside: Collection[Claim]) -> Script[tuple[datetime, list[Candidate]]]:
        """See ``Limiting.lapsed``."""
        ours = [claim.id for claim in aside]
        args = (self._group, _LAPSED, self._now, accused, self._owner, ours)
        rows = yield Statement(self._sql("limited_lapsed"), args)
        return rows[0][0], [Candidate(seq, key) for _, seq, key in rows if seq is not None]

    def keyless(self, scans: Sequence[Scan], most: int) -> Script[list[Candidate]]:
        """See ``Limiting.keyless``."""
        levels = [scan.priority for scan in scans]
        rows = yield Statement(self._sql("limited_keyless"), (self._group, levels, most, self._now))
        return [Candidate(seq, None) for (seq,) in rows]

    def walk(self, after: str) -> Script[list[str]]:
        """See ``Limiting.walk``."""
        return [key for (key,) in (yield Statement(self._sql("limited_walk"), (self._group, after, KEYS)))]

    def heads(self, keys: Sequence[str], most: int) -> Script[list[Candidate]]:
        """See ``Limiting.heads``."""
        limits, skips = self._limits, self._limits.on_failure == "skip"
        depth = 1 if limits.ordered and not skips else DEPTH
        args = (self._group, list(keys), limits.ordered, skips, depth, most, self._now)
        return [Candidate(*row) for row in (yield Statement(self._sql("limited_heads"), args))]

    def spent(self, keys: Sequence[str]) -> Script[list[Spent]]:
        """See ``Limiting.spent``."""
        return [
            Spent(*row) for row in (yield Statement(self._sql("limited_spent"), (self._group, list(keys), self._now)))
        ]

    def hold(self, seqs: Sequence[int], *, lapsed: bool = False) -> Script[list[Delivery]]:
        """See ``Limiting.hold``."""
        rates = (*_micros(self._limits.rate), *_micros(self._limits.key_rate))
        args = (self._group, list(seqs), lapsed, self._owner, self._hold, *rates, self._now)
        return [columns.with_headers(row) for row in (yield Statement(self._sql("limited_hold"), args))]


def _micros(rate: Rate | None) -> tuple[int | None, int | None]:
    return (None, None) if rate is None else (rate.per // _MICROSECOND, rate.slot // _MICROSECOND)
