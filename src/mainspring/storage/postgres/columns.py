"""Batches as columns: one array per field, so that one statement carries any number of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, assert_never
from uuid import UUID

from mainspring.model.message import ClaimRequest, Delivery, Draft
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Settlement, Snooze
from mainspring.storage.portable.dialect import read_mapping, written_mapping
from mainspring.storage.script import Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = timedelta()
_ID_BYTES = 16


def clean(text: str) -> str:
    """Make text storable: PostgreSQL has no NUL and no half characters, and an error message may hold both."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def plain_id(value: object) -> UUID:
    """Read an id of any type: a caller's connection may decode ids in its own way."""
    match value:
        case UUID():
            return value
        case bytes() if len(value) == _ID_BYTES:
            return UUID(bytes=value)
        case bytes():
            return UUID(value.decode())
        case _:
            return UUID(str(value))


def columns(rows: Iterable[Sequence[Any]], width: int) -> tuple[list[Any], ...]:
    """Turn rows into ``width`` columns, also where there is no row."""
    turned = tuple(map(list, zip(*rows, strict=True)))
    return turned or tuple([] for _ in range(width))


def with_headers(row: Row) -> Delivery:
    """A row whose columns are the fields of a delivery, its headers read."""
    delivery = Delivery(*row)
    text: Any = delivery.headers
    return delivery if text is None else delivery._replace(headers=read_mapping(text))


class PostgresValues:
    """``Values`` on PostgreSQL: drivers write and read nearly all of them."""

    def id(self, id: UUID) -> UUID:
        return id

    def instant(self, at: datetime | None) -> datetime | None:
        return at

    def micros(self, at: datetime | None) -> int | None:
        return None if at is None else (at - EPOCH) // timedelta(microseconds=1)

    def span(self, length: timedelta | None) -> timedelta | None:
        return length

    def text(self, text: str) -> str:
        return clean(text)

    def needle(self, text: str) -> str:
        """See ``Values.needle``: text as ``searchable()`` returns it."""
        return text.encode("utf-8", "backslashreplace").lower().replace(b"\0", b"\1").decode("latin-1")

    def seqs(self, seqs: list[int]) -> list[int]:
        """See ``Values.seqs``: an array."""
        return seqs

    def read_seqs(self, column: list[int]) -> list[int]:
        """See ``Values.read_seqs``: an array."""
        return column

    def texts(self, texts: Iterable[str]) -> list[str]:
        """See ``Values.texts``: an array."""
        return list(texts)

    def read_texts(self, column: list[str]) -> list[str]:
        """See ``Values.read_texts``: an array."""
        return column

    def rows(self, rows: Iterable[Sequence[Any]], width: int) -> tuple[list[Any], ...]:
        """See ``Values.rows``: an array per column."""
        return columns(rows, width)

    def read_instant(self, column: datetime) -> datetime:
        return column

    def read_span(self, column: timedelta) -> timedelta:
        return column

    def fields(self, kind: type, row: Row) -> Row:  # noqa: ARG002 - one for every dialect
        return row


def is_plain(draft: Draft) -> bool:
    """Whether ``publish_one`` has room for it."""
    return draft.schedule is None and draft.join_id is None and not draft.manual


def of_draft(draft: Draft) -> tuple[Any, ...]:
    """The first fourteen parameters of ``publish_one``."""
    return (
        draft.topic,
        draft.content_type,
        draft.group,
        int(draft.priority),
        draft.id,
        draft.payload,
        None if draft.headers is None else written_mapping(draft.headers),
        draft.key,
        draft.delay or None,
        draft.at,
        draft.expires_in,
        draft.expires_at,
        None if draft.correlation_id is None else clean(draft.correlation_id),
        draft.causation_id,
    )


def of_drafts(drafts: Iterable[Draft]) -> tuple[list[Any], ...]:
    """The first eighteen parameters of ``publish.sql``. Of drafts under one id the first counts."""
    unique: dict[Any, Draft] = {}
    for draft in drafts:
        unique.setdefault(draft.id, draft)
    batch = unique.values()
    # Most batches are of one kind: its texts travel once, not once per draft.
    kinds: dict[tuple[str, str, str | None, int], int] = {}
    places = [
        kinds.setdefault((each.topic, each.content_type, each.group, int(each.priority)), len(kinds) + 1)
        for each in batch
    ]
    return (
        *columns(kinds, 4),
        places if len(kinds) > 1 else [],
        list(unique),
        [each.payload for each in batch],
        _filled([None if each.headers is None else written_mapping(each.headers) for each in batch]),
        _filled([each.key for each in batch]),
        _filled([each.delay or None for each in batch]),
        _filled([each.at for each in batch]),
        _filled([each.expires_in for each in batch]),
        _filled([each.expires_at for each in batch]),
        _filled([None if each.correlation_id is None else clean(each.correlation_id) for each in batch]),
        _filled([each.causation_id for each in batch]),
        _filled([each.schedule for each in batch]),
        _filled([each.manual or None for each in batch]),
        _filled([each.join_id for each in batch]),
    )


def of_wants(wants: Sequence[ClaimRequest]) -> tuple[list[Any], ...]:
    """The first five parameters of ``claim.sql``."""
    scans = [(place, *scan) for place, want in enumerate(wants, 1) for scan in want.scans]
    return [want.group for want in wants], [want.limit for want in wants], *columns(scans, 3)


def of_settlements(settlements: Sequence[Settlement]) -> tuple[list[Any], ...]:
    """The first thirteen parameters of ``settle.sql``, in the order in which rows are locked."""
    rows = [
        (*each.claim, *_spelled(each), each.keep, each.took, place, _cause(each))
        for place, each in enumerate(settlements)
    ]
    rows.sort(key=itemgetter(0))
    seqs, epochs, ids, names, delays, *texts, keeps, tooks, places, causes = columns(rows, 13)
    cleaned = (_filled([_maybe(text) for text in column]) for column in texts)
    return seqs, epochs, ids, names, keeps, tooks, delays, *cleaned, places, _filled(causes)


def in_batches(settlements: Iterable[Settlement]) -> list[list[Settlement]]:
    """The settlements in batches, none of which has two claims on one delivery: one of them is not ours any more."""
    batches: list[list[Settlement]] = []
    met = Counter[int]()
    for each in settlements:
        place = met[each.claim.id]
        met[each.claim.id] += 1
        if place == len(batches):
            batches.append([])
        batches[place].append(each)
    return batches


def _cause(settlement: Settlement) -> str | None:
    verdict = settlement.verdict
    if type(verdict) is not Bury:
        return None
    # Most processes bury nothing, and its patterns take long to compile.
    from mainspring.model.fingerprint import fingerprint

    return fingerprint(verdict.failure.kind, verdict.failure.error)


def _spelled(settlement: Settlement) -> tuple[str, timedelta, str | None, str | None, str | None, str | None]:
    """The verdict as (name, delay, kind, error, traceback, output)."""
    verdict = settlement.verdict
    match verdict:
        case Done(output):
            return "done", _NOTHING, None, None, None, output
        case Retry(delay, failure):
            return "retry", delay, failure.kind, failure.error, failure.traceback, None
        case Snooze(delay, reason):
            assert isinstance(delay, timedelta), "the executor reads text before it settles"
            return "snooze", delay, None, None, None, reason
        case Release(delay):
            return "release", delay, None, None, None, None
        case Bury(failure):
            name = "replace" if settlement.replaces else "bury"
            return name, _NOTHING, failure.kind, failure.error, failure.traceback, None
        case Cancel(reason):
            return "cancel", _NOTHING, None, reason, None, None
        case _:
            assert_never(verdict)


def _filled(column: list[Any]) -> list[Any]:
    # unnest() fills a shorter array up with nulls: an unused column is not sent.
    return column if column.count(None) < len(column) else []


def _maybe(text: str | None) -> str | None:
    return None if text is None else clean(text)
