"""``app.messages``: stored messages, to find, inspect, cancel and publish again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from mainspring.app.admin import bulk
from mainspring.app.admin.bulk import Action, BulkRun, Progress
from mainspring.app.admin.search import (
    AnyState,
    Deliveries,
    SearchPage,
    SearchPages,
    Where,
    check_texts,
    checked,
    listed,
    searched,
    sought,
)
from mainspring.app.blocking import Face, Renamed, blocking
from mainspring.app.connection import Connection
from mainspring.app.message.envelope import MISSING, PriorityName, PublishOptions, read_identity
from mainspring.app.names import check_group
from mainspring.app.options import named_options, unknown
from mainspring.app.page import Instant, Page, Paging, Seq, check_limit, listing
from mainspring.app.publisher import REASON, Publisher
from mainspring.model.errors import BadOption
from mainspring.model.message import Cancelled, Priority, Receipt, public
from mainspring.model.search import Chain, Filter, Picked
from mainspring.model.views import Kind, MessageView, RunView
from mainspring.storage.contract import Storage
from mainspring.timing.duration import Duration

# Defined here: inside the class ``list`` is a method.
Runs = Page[RunView]
Identities = list[UUID]
Identity = UUID | str
Pick = tuple[Identity, str]
"""A delivery, by its message's id and its group; the group of a parked message is empty."""

_LISTED: SearchPages = Paging("app.messages.list()", lambda row: ("", row.seq), Where)
SEARCHED: SearchPages = Paging("app.messages.search()", lambda row: ("", row.seq), Where)
_RUNS: Paging[RunView, int] = Paging("app.messages.runs()", lambda run: run.id, Seq)
_TRACE = ("traceparent", "tracestate")
"""Headers that name the trace of a message. A copy belongs to no trace."""
_FAILURES: Paging[RunView, tuple[datetime, int]] = Paging(
    "app.messages.failures()", lambda run: (run.finished_at, run.id), tuple[Instant, Seq]
)


class Messages(Renamed):
    """``app.messages``: stored messages, their deliveries and kept runs."""

    _former: ClassVar[Mapping[str, str]] = {
        "show": "get(message_id)",
        "withdraw": "cancel([(message_id, group)])",
        "hasten": "run_now([(message_id, group)])",
        "issue": "publish(topic, payload)",
    }

    def __init__(self, connection: Connection, publisher: Publisher) -> None:
        self._connection = connection
        self._publisher = publisher

    @listing
    async def list(
        self,
        state: AnyState = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        text: str | None = None,
        correlation_id: UUID | str | None = None,
        kind: Kind | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Return deliveries, newest first. Every page but the last is full, however long it takes to fill it.

        The filters are those of ``search``. With ``any`` the states follow each other: live, dead, parked, done and
        cancelled.
        """
        narrowed = Filter("live", group, topic, key, None, None, limit, text, **_messages(correlation_id, kind))
        wanted = sought(state, _LISTED.start(cursor, limit), narrowed)
        storage = await self._connection.storage("app.messages.list()")
        return await listed(storage.ledger, wanted, _LISTED)

    @listing
    async def search(
        self,
        state: AnyState = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        text: str | None = None,
        correlation_id: UUID | str | None = None,
        kind: Kind | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        held_by: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> SearchPage:
        """Return deliveries that match, newest first, in a small part of a second however many there are.

        So a page may be short, or empty, and not be the last one: unlike ``list``, it does not scan on until it is
        full. ``text`` is searched for in payloads, ``error`` in errors; ``since`` and ``until`` refer to the time of
        publishing; ``held_by`` is a worker's name, ``fingerprint`` one of ``app.dead.causes()``. ``correlation_id``
        finds the messages of one operation, also by the id of the first one. ``any`` searches one state after the
        other: live, dead, parked, done and cancelled.
        """
        start = SEARCHED.start(cursor, limit)
        narrowed = (group, topic, key, error, None, limit, text, since, until, held_by, fingerprint)
        wanted = sought(state, start, Filter("live", *narrowed, **_messages(correlation_id, kind)))
        storage = await self._connection.storage("app.messages.search()")
        return await searched(storage.ledger, wanted, SEARCHED)

    @named_options
    async def apply(
        self,
        action: Action,
        filter: Filter,
        *,
        by: str = "app",
        reason: str = REASON,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Apply an action to everything that a search finds, in batches; return how many deliveries it was applied to.

        ``revive`` and ``discard`` apply to dead letters, ``cancel`` (with the ``reason``) to live and parked
        deliveries, ``run_now`` to scheduled ones. Deliveries that are published during the run, or are revived and die
        again, are not affected. It ends early when ``stop`` returns True, or after the current batch when the caller is
        cancelled. The audit has one line about all of it, updated with every batch.
        """
        checked(filter)
        storage = await self._connection.storage("app.messages.apply()")
        run = BulkRun(storage, action, filter, reason, self._connection.rouse)
        return await run.run(by, progress, stop or (lambda: False))

    async def get(self, message_id: UUID | str) -> MessageView | None:
        """Return one message with its deliveries and kept runs; None if there is none."""
        storage = await self._connection.storage("app.messages.get()")
        found = await storage.ledger.find(read_identity(message_id))
        return None if found is None else replace(found, headers=public(found.headers))

    async def chain(self, message_id: UUID | str, *, limit: int = 50) -> Chain:
        """Return the messages that caused a message, and those it caused; empty if unknown."""
        check_limit(limit)
        storage = await self._connection.storage("app.messages.chain()")
        return await storage.ledger.chain(read_identity(message_id), limit)

    @listing
    async def runs(self, group: str | None = None, *, cursor: str | None = None, limit: int = 50) -> Runs:
        """Return the kept runs, newest first."""
        check_texts(group=group)
        before = _RUNS.start(cursor, limit)
        storage = await self._connection.storage("app.messages.runs()")
        return _RUNS.page(await storage.ledger.runs(group, before, limit + 1), limit)

    @named_options
    async def failures(self, *, cursor: str | None = None, limit: int = 50) -> Runs:
        """Return the kept runs that failed, retried or not, the last to end first."""
        before = _FAILURES.start(cursor, limit)
        storage = await self._connection.storage("app.messages.failures()")
        return _FAILURES.page(await storage.ledger.failures(limit + 1, before), limit)

    @named_options
    async def cancel(
        self, which: Identity | Pick | Iterable[Identity | Pick], *, by: str = "app", reason: str = REASON
    ) -> Cancelled:
        """Cancel every delivery of a message, or one delivery, ``(message_id, group)``, or a list of these.

        Audited with ``by``.
        """
        storage = await self._connection.storage("app.messages.cancel()")
        messages, deliveries = _read_picks(which)
        done = [await self._cancel_message(storage, each, by, reason) for each in messages]
        if deliveries:
            done.append(await bulk.cancel(storage, deliveries, by, reason, self._connection.rouse))
        return Cancelled(sum(each.cancelled for each in done), sum(each.asked for each in done))

    async def _cancel_message(self, storage: Storage, id: UUID, by: str, reason: str) -> Cancelled:
        # Before it is cancelled: an action may be audited and then fail, and never runs unaudited.
        await storage.controls.note("cancel", f"message {id}", by, reason)
        return await self._publisher.cancel(id, None, reason, None)

    async def run_now(self, which: Pick | Iterable[Pick], *, by: str = "app") -> int:
        """Make those of these deliveries that are scheduled due now, and return how many. Audited with ``by``."""
        storage = await self._connection.storage("app.messages.run_now()")
        messages, deliveries = _read_picks(which)
        if messages:
            raise BadOption(f"run_now(…) takes deliveries, each (message_id, group), not {messages[0]}")
        due = await storage.controls.run_now(deliveries, by)
        if due:
            self._connection.rouse()
        return due

    async def publish(
        self,
        topic: str,
        payload: object = MISSING,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        priority: Priority | PriorityName | int | None = None,
        delay: Duration | None = None,
        group: str | None = None,
        copy_of: UUID | str | None = None,
        validate: bool = True,
        by: str = "app",
    ) -> Receipt:
        """Publish as an operator, to all subscribed groups or to one. Audited with ``by``.

        With ``copy_of`` it has the payload, key and headers of that message, except those given here.
        """
        storage = await self._connection.storage("app.messages.publish()")
        options: PublishOptions = {"key": key, "headers": headers, "priority": priority, "delay": delay}
        options["validate"] = validate and (payload is not MISSING or copy_of is None)
        original = None if copy_of is None else await _original(storage, copy_of)
        if group is not None:
            await _check_group(storage, group)
        if original is not None:
            options = _copied(options, original)
        cause = None if original is None else original.id
        given = None if payload is MISSING else payload
        instead_of = original.content_type if original is not None and topic == original.topic else None
        call = "messages.publish(…)"
        draft = self._publisher.draft(topic, given, options, call, cause, group=group, instead_of=instead_of)
        if original is not None and payload is MISSING:
            draft = replace(draft, payload=original.payload, content_type=original.content_type)
        detail = [f"message {draft.id}", *([f"copy of {cause}"] if cause else []), *([f"for {group}"] if group else [])]
        # Before it is stored: an action may be audited and then fail, and never runs unaudited.
        await storage.controls.note("publish", draft.topic, by, ", ".join(detail))
        return await self._publisher.store(draft, {}, "app.messages.publish()")


class SyncMessages(Face[Messages]):
    """``app.sync.messages``: as ``app.messages``, without await."""

    list: Final = blocking(Messages.list)
    search: Final = blocking(Messages.search)
    apply: Final = blocking(Messages.apply)
    get: Final = blocking(Messages.get)
    chain: Final = blocking(Messages.chain)
    runs: Final = blocking(Messages.runs)
    failures: Final = blocking(Messages.failures)
    cancel: Final = blocking(Messages.cancel)
    run_now: Final = blocking(Messages.run_now)
    publish: Final = blocking(Messages.publish)


def _messages(correlation_id: UUID | str | None, kind: Kind | None) -> dict[str, Any]:
    """Return what listing calls ask of messages, and that they show the beginnings of payloads."""
    named = str(correlation_id) if isinstance(correlation_id, UUID) else correlation_id
    return {"correlation_id": named, "kind": kind, "previews": True}


def _copied(options: PublishOptions, original: MessageView) -> PublishOptions:
    headers = options["headers"]
    if headers is None:
        headers = public(original.headers)
    return {
        **options,
        "key": original.key if options["key"] is None else options["key"],
        "headers": {name: value for name, value in headers.items() if name not in _TRACE},
        "correlation_id": original.correlation_id or str(original.id),
    }


async def _original(storage: Storage, copy_of: UUID | str) -> MessageView:
    found = await storage.ledger.find(read_identity(copy_of))
    if found is None:
        raise BadOption(f"there is no message {copy_of} to copy: it never was, or is over and gone")
    return found


async def _check_group(storage: Storage, group: str) -> None:
    check_group(group)
    known = [each.name for each in (await storage.ledger.roster()).groups]
    if group not in known:
        raise unknown("there is no group", group, known)


def _read_picks(which: Any) -> tuple[Identities, Picked]:
    """Return the messages and the deliveries among these. A tuple is one delivery, any other iterable several."""
    several = isinstance(which, Iterable) and not isinstance(which, str | tuple)
    messages: Identities = []
    deliveries: dict[tuple[UUID, str], None] = {}
    for each in which if several else (which,):
        match each:
            case (id, str(group)):
                deliveries[read_identity(id), group] = None
            case _:
                messages.append(read_identity(each))
    return messages, tuple(deliveries)
