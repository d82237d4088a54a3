"""Publishing on SQLite: storing, routing, ids that are known already, and joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from mainspring.model.join import Join, Recount, as_members
from mainspring.model.message import Draft, Published, repeated
from mainspring.storage.patterns import matches
from mainspring.storage.portable.dialect import written_mapping
from mainspring.storage.portable.ledger import id_after
from mainspring.storage.portable.timetable import written_draft
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import after, micros, names, read_pairs

Routes = dict[str, list[str]]
"""The groups of each topic, sorted."""

_NOTHING = Published(frozenset())
_PLAIN = (None, 0)
"""Of no schedule."""


def publish(sql: Dialect, drafts: Sequence[Draft]) -> Script[Published]:
    """Store what is new of the drafts, and a delivery for each of their groups."""
    if len(drafts) == 1 and _is_plain(drafts[0]):
        return _publish_one(sql, drafts[0])
    return _publish_many(sql, drafts)


def _publish_one(sql: Dialect, draft: Draft) -> Script[Published]:
    """In two statements, where no pattern can match: in a caller's transaction each has its price."""
    now, raw = sql.now, draft.id.bytes
    host = sql.clock.estimate(now)
    # Errors are raised before anything is written: in a caller's transaction nothing would roll it back.
    wanted = _asked(draft, host)
    absolute, relative = _expiry(draft, host)
    rows = yield sql("publish_one", *_body(raw, draft), host, now is None, absolute, relative, draft.group)
    if not rows:
        return (yield from _publish_routed(sql, draft))
    ((at, mark, copies),) = rows
    yield from sql.clock.remember(at, mark, now)
    asked = wanted if draft.at is not None else wanted + at - host
    due, priority = max(asked, at), int(draft.priority)
    if draft.group is not None:
        yield sql("publish_delivery", raw, draft.group, priority, due, asked, at, draft.key, *_PLAIN, None)
    elif copies:
        yield sql("publish_copies", raw, draft.topic, priority, due, asked, at, draft.key)
    else:
        yield sql("publish_parked", raw, draft.topic, draft.key, priority, due, asked, at, at, *_PLAIN)
    return Published(frozenset((draft.id,)))


def _publish_routed(sql: Dialect, draft: Draft) -> Script[Published]:
    """One message whose id may be known, or which patterns may match."""
    now, raw, topic = sql.now, draft.id.bytes, draft.topic if draft.group is None else None
    ((stored_at, is_known, found),) = yield sql("publish_begin_one", sql.clock.least_mark(now), topic, raw)
    at = sql.clock.after_marking(stored_at, now)
    if is_known:
        return Published(frozenset(), (yield from conflicts(sql, [draft], ())))
    groups = _routes([topic], read_pairs(found))[topic] if topic is not None else (draft.group or "",)
    message, copies, parked = _message(raw, draft, len(groups), at), *_addressed(raw, draft, groups, at)
    yield sql("publish_message_one", *message)
    yield from sql.many("publish_delivery", copies) if copies else sql.many("publish_parked", parked)
    return Published(frozenset((draft.id,)))


def _publish_many(sql: Dialect, drafts: Sequence[Draft]) -> Script[Published]:
    if not drafts:
        return _NOTHING
    at = yield from sql.turn_clock()
    fresh: dict[bytes, Draft] = {}
    for draft in drafts:
        fresh.setdefault(draft.id.bytes, draft)
    # The clock has taken the write lock: no subscription can come or go from here on.
    routes = yield from routed(sql, {draft.topic for draft in fresh.values() if draft.group is None})
    # Errors are raised before anything is written: in a caller's transaction nothing would roll it back.
    messages: list[tuple[Any, ...]] = []
    addressed: dict[bytes, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {}
    for raw, draft in fresh.items():
        groups = routes[draft.topic] if draft.group is None else (draft.group,)
        messages.append(_message(raw, draft, len(groups), at))
        addressed[raw] = _addressed(raw, draft, groups, at)
    returned = yield from sql.many("publish_message", messages)
    stored = {row[0] for row in returned}
    kept = [each for raw, each in addressed.items() if raw in stored]
    yield from sql.many("publish_delivery", [row for copies, _ in kept for row in copies])
    yield from sql.many("publish_parked", [row for _, parked in kept for row in parked])
    ids = frozenset(fresh[raw].id for raw in stored)
    return Published(ids, (yield from conflicts(sql, drafts, ids)))


def conflicts(sql: Dialect, drafts: Sequence[Draft], stored: Collection[UUID]) -> Script[dict[int, str]]:
    """See ``Published.conflicts``. Asks nothing where all were stored."""
    rows = [(place, each.id.bytes, each.topic, each.payload) for place, each in repeated(drafts, stored)]
    return {place: topic for place, topic in (yield from sql.many("publish_known", rows))}  # noqa: C416 - rows, no pairs


def pending(sql: Dialect, limits: Mapping[str, int]) -> Script[dict[str, int]]:
    """Count the unheld deliveries of each group, up to its limit."""
    counted: dict[str, int] = {}
    for group, limit in limits.items():
        ((counted[group],),) = yield sql("pending", group, limit)
    return counted


def routed(sql: Dialect, topics: Collection[str]) -> Script[Routes]:
    """Find the groups of each topic: one delivery per group, however many of its patterns match."""
    if not topics:
        return {}
    return _routes(topics, (yield sql("publish_routes", names(topics))))


def _routes(topics: Collection[str], subscriptions: Iterable[Row]) -> Routes:
    return {topic: sorted({group for pattern, group in subscriptions if matches(pattern, topic)}) for topic in topics}


def _addressed(
    raw: bytes, draft: Draft, groups: Sequence[str], at: int
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of its deliveries, or the one of a message that is parked."""
    asked = _asked(draft, at)
    due, priority, key = max(asked, at), int(draft.priority), draft.key
    source = (draft.schedule, int(draft.manual))
    if groups:
        join_id = None if draft.join_id is None else draft.join_id.bytes
        return [(raw, group, priority, due, asked, at, key, *source, join_id) for group in groups], []
    return [], [(raw, draft.topic, key, priority, due, asked, at, at, *source)]


def _is_plain(draft: Draft) -> bool:
    return draft.schedule is None and draft.join_id is None and not draft.manual


def _message(raw: bytes, draft: Draft, copies: int, at: int) -> tuple[Any, ...]:
    absolute, relative = _expiry(draft, at)
    expires = absolute if relative is None else at + relative
    return (*_body(raw, draft), at, expires, copies)


def _body(raw: bytes, draft: Draft) -> tuple[Any, ...]:
    return (
        raw,
        draft.topic,
        draft.key,
        draft.payload,
        draft.content_type,
        None if draft.headers is None else written_mapping(draft.headers),
        draft.correlation_id,
        None if draft.causation_id is None else draft.causation_id.bytes,
    )


def _asked(draft: Draft, at: int) -> int:
    return micros(draft.at) if draft.at is not None else after(at, draft.delay) if draft.delay else at


def _expiry(draft: Draft, at: int) -> tuple[int | None, int | None]:
    """When it expires, or how long after it was stored."""
    if draft.expires_at is not None:
        return micros(draft.expires_at), None
    return None, None if draft.expires_in is None else after(at, draft.expires_in) - at


def open_join(sql: Dialect, join: Join, members: Sequence[Draft]) -> Script[Published]:
    """Store the members, and with them what is to follow."""
    at = yield from sql.turn_clock()
    published = yield from publish(sql, as_members(join, members))
    if published.stored:
        # Members that were there already belong to another call, perhaps an earlier copy of this one.
        following = written_draft(join.then), written_draft(join.failed)
        yield sql("joint_open", join.id.bytes, len(published.stored), *following, at)
    return published


class Ends:
    """The members that have ended in one script."""

    def __init__(self) -> None:
        self._done: Counter[bytes] = Counter()
        self._failed: Counter[bytes] = Counter()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._done or self._failed)

    def note(self, join_id: bytes | None, *, done: bool = False) -> None:
        """A delivery has ended, a member or not."""
        if join_id is not None:
            (self._done if done else self._failed)[join_id] += 1

    def count(self, sql: Dialect) -> Script[None]:
        """Write it into the rows of their joins."""
        for join_id in {**self._done, **self._failed}:
            yield sql("joint_count", join_id, self._done[join_id], self._failed[join_id])


def count_dropped(sql: Dialect, join_ids: Iterable[bytes | None]) -> Script[None]:
    """Deliveries of these joins, or of none, have ended without a verdict."""
    ends = Ends()
    for each in join_ids:
        ends.note(each)
    yield from ends.count(sql)
    if ends:
        # No worker has ended them, so none would look by itself before its next poll.
        yield sql("bell_ring")


def recount(sql: Dialect, after: UUID | None, limit: int) -> Script[Recount]:
    """Count the members that have gone without being counted."""
    rows = yield sql("joint_recount", id_after(after).bytes, limit)
    gone = [row for row in rows if row[3] > 0]
    if gone:
        found = yield sql("joint_failures", min(opened for _, opened, _, _ in gone))
        failures = {UUID(text): size for text, size in found}
        for raw, _, counted, size in gone:
            failed = min(size, max(failures.get(UUID(bytes=raw), 0) - counted, 0))
            yield sql("joint_count", raw, size - failed, failed)
        yield sql("bell_ring")
    last = UUID(bytes=rows[-1][0]) if len(rows) == limit else None
    return Recount(sum(size for *_, size in gone), last)
