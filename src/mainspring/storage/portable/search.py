"""Searches of deliveries and causes of death, within a bounded number of rows, for every SQL database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, assert_never
from uuid import UUID

from mainspring.model.search import Causes, CauseView, Filter, Matches
from mainspring.model.views import DeliveryView
from mainspring.storage.portable.dialect import Values
from mainspring.storage.script import Row, Script, Statement

MOST_SORTED = 20_000
"""Up to so many matches are gathered by an index and sorted; more than that are found soon enough by a scan."""
MOST_SORTED_OF_KEY = 4_000
"""The same for messages under one key or correlation id, each of which is looked up."""
LAST = 2**63 - 1
"""After every seq there is."""

_STEP = 500
_STRIDE = 50_000
_READ = 10_000
"""How many rows that may match are read for one page: each has a message to search."""
_BATCHES = 100_000
"""How many batches, from its publishing on, are searched for a message; via_index_keyed shares them among several."""


HANDLED = 2**52
"""Before every seq of an entry in a batch, and after every run: see ``PLACED``."""
Of = Literal["live", "dead", "run", "parked", "handled"]
"""The kinds of sources."""
Cause = tuple[str, str]
"""A group and a fingerprint."""
_STEPS = 2_000
"""How many causes are visited at most."""


class Source(Protocol):
    """The rows that one filter selects from, in one dialect."""

    def via_index(self, most: int) -> Statement | None:
        """Count what may match by an index, up to one more than ``most``: a row of (how many, which).

        None: no index narrows it down.
        """
        ...

    def scan_newest(self, before: int, count: int) -> Statement:
        """Scan the ``count`` newest rows below ``before``: a row of (how many, the lowest, which may match)."""
        ...

    def seqs(self, which: Any) -> list[int]:
        """Read the seqs of such a row."""
        ...

    def payload_sizes(self, seqs: list[int]) -> Statement:
        """Read the sizes of their payloads: rows of (seq, bytes), newest first."""
        ...

    def read(self, seqs: list[int], limit: int) -> Statement:
        """Read the newest of these that do match, up to ``limit``."""
        ...

    def view(self, row: Row) -> DeliveryView:
        """Make a view of a row of ``read``."""
        ...


def searched(search: Search, wanted: Filter) -> Script[Matches]:
    """See ``Ledger.browse``.

    What is done is listed in batches; after these come the runs that are in none, older ones or those of an outage.
    """
    kept = _source(search, wanted)
    # An error is kept in runs only.
    if wanted.state != "done" or wanted.error or (wanted.before is not None and wanted.before <= HANDLED):
        return (yield from browse(kept, wanted))
    if wanted.is_impossible:
        return Matches()
    reading = _Reading(_Handled(search, wanted, "handled"), wanted, _READ, wanted.weight)
    listed = yield from _read(reading, wanted)
    left = wanted.scan - listed.scanned
    if listed.before is not None or left <= 0:
        return replace(listed, before=listed.before or HANDLED)
    reading.source = kept
    both = yield from _read(reading, replace(wanted, before=HANDLED, scan=left))
    return replace(both, scanned=listed.scanned + both.scanned)


def browse(source: Source, wanted: Filter) -> Script[Matches]:
    """Find what a source has."""
    if wanted.is_impossible:
        return Matches()
    return (yield from _read(_Reading(source, wanted, _READ, wanted.weight), wanted))


def _read(reading: _Reading, wanted: Filter) -> Script[Matches]:
    """Find what the source has.

    Rare matches are gathered by an index and sorted. Frequent ones are found by a scan from the newest row on. Either
    way the number of rows is bounded, and the pages together have every match once.
    """
    source = reading.source
    of_messages = wanted.key is not None or wanted.correlation_id is not None
    most = min(wanted.scan, MOST_SORTED_OF_KEY if of_messages else MOST_SORTED)
    gathering = source.via_index(most)
    if gathering is not None:
        ((count, which),) = yield gathering
        if count <= most:
            stopped = yield from reading.read(source.seqs(which))
            return reading.page(stopped, count)
    return (yield from _scan_newest(source, wanted, reading))


def _scan_newest(source: Source, wanted: Filter, reading: _Reading) -> Script[Matches]:
    before = LAST if wanted.before is None else wanted.before
    scanned, step = 0, max(_STEP, wanted.limit + 1)
    while True:
        size = min(step, _STRIDE, wanted.scan - scanned)
        ((count, lowest, which),) = yield source.scan_newest(before, size)
        scanned += count
        if count:
            before = lowest
            stopped = yield from reading.read(source.seqs(which))
            if stopped is not None:
                return reading.page(stopped, scanned)
        if reading.is_full or count < size or scanned >= wanted.scan:
            return reading.page(None if count < size else before, scanned)
        step *= 4


@dataclass(slots=True)
class _Reading:
    """Reads what may match, up to a number of rows and of bytes of payloads."""

    source: Source
    wanted: Filter
    rows: int
    weight: int
    found: list[DeliveryView] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.found) > self.wanted.limit

    def read(self, seqs: list[int]) -> Script[int | None]:
        """Find those that match. Returns the last seq that was read, or None after all of them."""
        newest = sorted(seqs, reverse=True)
        within = newest[: max(self.rows, 1)]
        self.rows -= len(within)
        if within and self.wanted.text:
            within = self._light((yield self.source.payload_sizes(within)))
        if within:
            rows = yield self.source.read(within, self.wanted.limit + 1 - len(self.found))
            self.found += [self.source.view(row) for row in rows]
        return within[-1] if within and within[-1] > newest[-1] else None

    def _light(self, weighed: Sequence[Row]) -> list[int]:
        """As many of the first as fit into the bytes left, at least one."""
        light: list[int] = []
        for seq, size in weighed:
            self.weight -= size
            if light and self.weight < 0:
                break
            light.append(seq)
        return light

    def page(self, before: int | None, scanned: int) -> Matches:
        """Return what was found, cut to the limit; ``before`` is where the next page begins if this one is not full."""
        if not self.is_full:
            return Matches(tuple(self.found), before, scanned)
        rows = tuple(self.found[: self.wanted.limit])
        return Matches(rows, rows[-1].seq, scanned)


@dataclass(frozen=True, slots=True)
class Search:
    """What a search needs of a dialect, and the time that it shows."""

    statement: Callable[..., Statement]
    values: Values
    view: Callable[[Row], DeliveryView]
    now: Any
    """The time as a parameter."""


def handled(search: Search, message_id: UUID, key: Any) -> Script[list[DeliveryView]]:
    """Find the entries in batches about one message, which has this key as a parameter."""
    found = yield search.statement("find_handled", key, _BATCHES)
    if not found:
        return []
    source = _Handled(search, Filter("done"), "handled")
    rows = yield source.read([seq for (seq,) in found], len(found))
    return [view for view in map(source.view, rows) if view.message_id == message_id]


def _source(search: Search, wanted: Filter) -> Source:
    """Return the source that the filter selects from."""
    match wanted.state:
        case "live" | "scheduled" | "ready" | "running" | "lapsed" | "retrying":
            return _Live(search, wanted, "live")
        case "dead":
            return _Dead(search, wanted, "dead")
        case "parked":
            return _Parked(search, wanted, "parked")
        case "done" | "cancelled":
            return _Ended(search, wanted, "run")
        case _:
            assert_never(wanted.state)


@dataclass(frozen=True, slots=True)
class _Source:
    search: Search
    wanted: Filter
    of: Of

    def seqs(self, which: Any) -> list[int]:
        return self.search.values.read_seqs(which)

    def payload_sizes(self, seqs: list[int]) -> Statement:
        return self.search.statement("payload_sizes", self.search.values.seqs(seqs), self.of)

    def view(self, row: Row) -> DeliveryView:
        return self.search.view(row)

    def _via_index(self, name: str, most: int, *rest: Any) -> Statement:
        before = LAST if self.wanted.before is None else self.wanted.before
        return self.search.statement(name, most, before, *rest)

    def _of_messages(self, most: int) -> Statement | None:
        """Find messages by their correlation id or key; None without either."""
        wanted = self.wanted
        if wanted.correlation_id is not None:
            return self._via_index("via_index_correlated", most, self.of, *self._correlation)
        if wanted.key is not None:
            return self._via_index("via_index_keyed", most, self.of, wanted.topic, wanted.key)
        return None

    def _read(self, name: str, seqs: list[int], limit: int, *rest: Any) -> Statement:
        return self.search.statement(name, self.search.values.seqs(seqs), limit, *rest)

    @property
    def _published(self) -> tuple[Any, Any]:
        return self.search.values.instant(self.wanted.since), self.search.values.instant(self.wanted.until)

    @property
    def _correlation(self) -> tuple[str | None, Any]:
        root = self.wanted.root
        return self.wanted.correlation_id, None if root is None else self.search.values.id(root)

    @property
    def _message(self) -> tuple[Any, ...]:
        """What is asked of its message, and whether its payload is shown."""
        return self._text, *self._correlation, self.wanted.previews

    @property
    def _error(self) -> str | None:
        return self.search.values.text(self.wanted.error) if self.wanted.error else None

    @property
    def _text(self) -> Any:
        return self.search.values.needle(self.wanted.text) if self.wanted.text else None


class _Live(_Source):
    __slots__ = ()

    def via_index(self, most: int) -> Statement | None:
        wanted = self.wanted
        if (found := self._of_messages(most)) is not None:
            return found
        state = "held" if wanted.held_by is not None else wanted.state
        if state == "live" and wanted.group is None:
            return None
        return self._via_index("via_index_live", most, state, wanted.group, self.search.now)

    def scan_newest(self, before: int, count: int) -> Statement:
        return self.search.statement("scan_live", before, count, *self._narrowed, self.search.now)

    def read(self, seqs: list[int], limit: int) -> Statement:
        rest = (self.wanted.topic, *self._message, self.search.now)
        return self._read("browse_live", seqs, limit, *self._narrowed, *rest)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.key, wanted.held_by, *self._published, wanted.kind


class _Dead(_Source):
    __slots__ = ()

    def via_index(self, most: int) -> Statement | None:
        wanted = self.wanted
        if (found := self._of_messages(most)) is not None:
            return found
        if wanted.group is not None or (wanted.topic is None and wanted.fingerprint is None):
            return None
        return self._via_index("via_index_dead", most, wanted.topic, wanted.fingerprint)

    def scan_newest(self, before: int, count: int) -> Statement:
        name = "scan_dead"
        if self.wanted.group is not None:
            name = "scan_dead_group" if self.wanted.fingerprint is None else "scan_dead_cause"
        return self.search.statement(name, before, count, *self._narrowed)

    def read(self, seqs: list[int], limit: int) -> Statement:
        return self._read("browse_dead", seqs, limit, *self._narrowed, *self._message)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        named = (wanted.group, wanted.topic, wanted.key, self._error)
        return *named, *self._published, wanted.fingerprint, wanted.kind


class _Ended(_Source):
    __slots__ = ()

    def via_index(self, most: int) -> Statement | None:
        wanted = self.wanted
        if (found := self._of_messages(most)) is not None:
            return found
        if wanted.topic is None and wanted.state == "done":
            return None
        return self._via_index("via_index_ended", most, wanted.state, wanted.topic)

    def scan_newest(self, before: int, count: int) -> Statement:
        name = "scan_ended" if self.wanted.group is None else "scan_ended_group"
        return self.search.statement(name, before, count, *self._narrowed)

    def read(self, seqs: list[int], limit: int) -> Statement:
        rest = (self.wanted.key, *self._published, *self._message)
        return self._read("browse_ended", seqs, limit, *self._narrowed, *rest)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.topic, self._error, wanted.kind


class _Handled(_Source):
    __slots__ = ()

    def via_index(self, most: int) -> Statement | None:
        return self._of_messages(most)

    def scan_newest(self, before: int, count: int) -> Statement:
        return self.search.statement("scan_handled", before, count, self.wanted.group, self.wanted.kind)

    def read(self, seqs: list[int], limit: int) -> Statement:
        wanted = self.wanted
        named = (wanted.group, wanted.kind, wanted.topic, wanted.key)
        return self._read("browse_handled", seqs, limit, *named, *self._published, *self._message)


class _Parked(_Source):
    __slots__ = ()

    def via_index(self, most: int) -> Statement | None:
        return self._of_messages(most)

    def scan_newest(self, before: int, count: int) -> Statement:
        name = "scan_parked" if self.wanted.topic is None else "scan_parked_topic"
        return self.search.statement(name, before, count, *self._narrowed)

    def read(self, seqs: list[int], limit: int) -> Statement:
        return self._read("browse_parked", seqs, limit, *self._narrowed, *self._message)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.topic, wanted.key, *self._published, wanted.kind


def causes(
    sql: Callable[..., Statement], values: Values, group: str | None, cap: int, limit: int, scan: int
) -> Script[Causes]:
    """See ``Ledger.causes``.

    Half of the rows are spent on counting all causes equally far, the rest on those that have more. So a cause that was
    not counted to its end comes before one that was.
    """
    steps = min(_STEPS, scan)
    met = yield sql("causes_known", group, steps)
    known = [(of, cause) for of, cause in met]
    if not known:
        return Causes(more=len(met) >= steps)
    most = min(cap, max(scan // (2 * len(known)), 1))
    counted = dict(_placed(known, (yield sql("causes_count", *values.rows(known, 2), most))))
    unended = [cause for cause, (many, *_) in counted.items() if many >= most]
    left = scan - sum(many for many, *_ in counted.values())
    if unended and (further := min(cap, left // len(unended))) > most:
        most = further
        counted |= _placed(unended, (yield sql("causes_count", *values.rows(unended, 2), most)))
    # A cause with a count of zero has just been revived or discarded.
    ranked = sorted((each for each in counted.items() if each[1][0]), key=lambda each: each[0])
    ranked.sort(key=lambda each: (each[1][0], each[1][2]), reverse=True)
    shown = dict(ranked[:limit])
    texts = _placed(list(shown), (yield sql("causes_latest", *values.rows(shown, 2))))
    rows: list[CauseView] = []
    for cause, text in texts.items():
        counts = shown[cause]
        rows.append(CauseView(*values.fields(CauseView, (*cause, *text, *counts, counts[0] >= most))))
    return Causes(tuple(rows), more=len(ranked) > limit or len(met) >= steps)


def _placed(causes: Sequence[Cause], rows: Sequence[Row]) -> dict[Cause, Row]:
    return {causes[place]: rest for place, *rest in sorted(rows, key=lambda row: row[0])}
