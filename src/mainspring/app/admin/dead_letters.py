"""``app.dead``: dead letters, to inspect, revive and discard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from mainspring.app.admin.bulk import BATCH, Progress
from mainspring.app.admin.search import Deliveries, SearchPages, Where, check_texts, listed, sought
from mainspring.app.blocking import Face, Renamed, blocking
from mainspring.app.connection import Connection
from mainspring.app.message.envelope import MISSING, Envelope, read_identity
from mainspring.app.options import named_options, whole
from mainspring.app.page import Paging, check_limit, listing
from mainspring.model.errors import BadOption
from mainspring.model.message import REPLACES_HEADER, Draft, Priority, public
from mainspring.model.schedule import SCHEDULE_HEADER
from mainspring.model.search import Causes, DeadSelection, Filter
from mainspring.model.views import MessageView
from mainspring.storage.contract import Storage

# Defined here: inside the class ``list`` is a method.
Selections = list[DeadSelection]

_CAP = 100_000
_PAGES: SearchPages = Paging("app.dead.list()", lambda row: ("", row.seq), Where)


class Revived(int):
    """How many dead letters were revived."""

    message_id: UUID | None
    """The message that took the place of a dead letter, if it was revived with another payload."""

    def __new__(cls, count: int = 0, message_id: UUID | None = None) -> Self:
        """Create it of a count."""
        made = super().__new__(cls, count)
        made.message_id = message_id
        return made


class DeadLetters(Renamed):
    """``app.dead``: deliveries that were given up. Every change is audited with ``by``."""

    _former: ClassVar[Mapping[str, str]] = {"show": "get(message_id)"}

    def __init__(self, connection: Connection, envelope: Envelope) -> None:
        self._connection = connection
        self._envelope = envelope

    @listing
    async def list(
        self,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Return dead letters, newest first; ``error`` is text in the error, ``fingerprint`` the cause."""
        narrowed = Filter("dead", group, topic, None, error, None, limit, fingerprint=fingerprint, previews=True)
        wanted = sought("dead", _PAGES.start(cursor, limit), narrowed)
        storage = await self._connection.storage("app.dead.list()")
        return await listed(storage.ledger, wanted, _PAGES)

    @named_options
    async def causes(self, *, group: str | None = None, cap: int = 10_000, limit: int = 100) -> Causes:
        """Return the causes of dead letters by group, the most frequent first; each is counted up to ``cap``.

        Errors that differ only in ids, values and the like have one cause, known by its ``fingerprint``. It takes a
        small part of a second, however many there are: a cause with ``more`` was not counted to its end, and if the
        result has ``more``, there are other causes.
        """
        check_texts(group=group)
        whole(cap, "cap", least=1, most=_CAP)
        check_limit(limit)
        storage = await self._connection.storage("app.dead.causes()")
        return await storage.ledger.causes(group, cap, limit)

    async def get(self, message_id: UUID | str) -> MessageView | None:
        """Return the message with every recorded error; None if it has no dead letter."""
        storage = await self._connection.storage("app.dead.get()")
        found = await storage.ledger.find(read_identity(message_id))
        if found is None or not any(each.state == "dead" for each in found.deliveries):
            return None
        return replace(found, headers=public(found.headers))

    @named_options
    async def revive(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        everything: bool = False,
        payload: object = MISSING,
        validate: bool = True,
        by: str = "app",
        progress: Progress | None = None,
    ) -> Revived:
        """Deliver the selected dead letters again, and return how many.

        ``payload`` replaces that of a single one. Messages never change, so another message takes its place, whose
        id is ``message_id`` of the result. It is checked as in ``app.publish``.
        """
        storage = await self._connection.storage("app.dead.revive()")
        if payload is not MISSING:
            return await self._replace(storage, message_id, group, payload, by, {"validate": validate})
        which = _selection(message_id, group, topic, error, fingerprint)
        selections = await self._selections(storage, "revive", which, everything=everything)
        # A revived message may die again during this: revive no more than there were at the start.
        dead = [each.dead for each in (await storage.ledger.tally(_CAP)).groups]
        ceiling = None if any(count >= _CAP for count in dead) else sum(dead)
        return Revived(
            await _in_batches(
                lambda which, limit: storage.controls.revive(which, by, limit), selections, progress, ceiling
            )
        )

    @named_options
    async def discard(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        everything: bool = False,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Delete the selected dead letters, and return how many."""
        storage = await self._connection.storage("app.dead.discard()")
        which = _selection(message_id, group, topic, error, fingerprint)
        selections = await self._selections(storage, "discard", which, everything=everything)
        return await _in_batches(
            lambda which, limit: storage.controls.discard(which, by, limit), selections, progress, None
        )

    async def _selections(self, storage: Storage, call: str, which: DeadSelection, *, everything: bool) -> Selections:
        if which == DeadSelection() and not everything:
            raise BadOption(
                f"dead.{call}() names nothing: give message_id, group, topic, error or fingerprint, or everything=True"
            )
        if which.group is not None or which.topic is not None:
            return [which]
        # Group by group, as the index has them.
        tally = await storage.ledger.tally(_CAP)
        groups = [each.group for each in tally.groups if each.dead]
        return [replace(which, group=each) for each in groups]

    async def _replace(
        self,
        storage: Storage,
        message_id: UUID | str | None,
        group: str | None,
        payload: object,
        by: str,
        options: Mapping[str, Any],
    ) -> Revived:
        if message_id is None:
            raise BadOption("dead.revive(payload=…) replaces the payload of one dead letter: give its message_id")
        identity = read_identity(message_id)
        found = await storage.ledger.find(identity)
        dead = {each.group: each for each in found.deliveries if each.state == "dead"} if found is not None else {}
        if found is None or (group is not None and group not in dead) or not dead:
            return Revived()
        if group is None and len(dead) > 1:
            names = ", ".join(dead)
            raise BadOption(f"message {identity} is dead for several groups, {names}: give group=…")
        to = group or next(iter(dead))
        fresh = self._envelope.draft(
            payload, MISSING, options, group=to, topic=found.topic, instead_of=found.content_type
        )
        draft = Draft(
            fresh.id,
            found.topic,
            fresh.payload,
            fresh.content_type,
            _replacing(found),
            found.key,
            to,
            priority=Priority(dead[to].priority),
            correlation_id=found.correlation_id or str(identity),
            causation_id=identity,
            schedule=found.headers.get(SCHEDULE_HEADER),
        )
        replaced = await storage.controls.replace(identity, to, by, draft)
        return Revived(1, draft.id) if replaced else Revived()


def _selection(
    message_id: UUID | str | None, group: str | None, topic: str | None, error: str | None, fingerprint: str | None
) -> DeadSelection:
    check_texts(group=group, topic=topic, error=error, fingerprint=fingerprint)
    identity = None if message_id is None else read_identity(message_id)
    return DeadSelection(identity, group, topic, error, fingerprint)


def _replacing(found: MessageView) -> dict[str, str]:
    """Return its headers, and the id of the message that they were written for."""
    return {REPLACES_HEADER: str(found.id), **found.headers}


async def _in_batches(
    call: Callable[[DeadSelection, int], Awaitable[int]],
    selections: list[DeadSelection],
    progress: Progress | None,
    ceiling: int | None,
) -> int:
    total = 0
    for which in selections:
        while limit := BATCH if ceiling is None else min(BATCH, ceiling - total):
            done = await call(which, limit)
            total += done
            if progress is not None and done:
                progress(total)
            if done < limit:
                break
    return total


class SyncDeadLetters(Face[DeadLetters]):
    """``app.sync.dead``: as ``app.dead``, without await."""

    list: Final = blocking(DeadLetters.list)
    causes: Final = blocking(DeadLetters.causes)
    get: Final = blocking(DeadLetters.get)
    revive: Final = blocking(DeadLetters.revive)
    discard: Final = blocking(DeadLetters.discard)
