"""The operator's desk: reading and steering what is stored, with names as the user wrote them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal
from uuid import UUID

from mainspring.app.door import Door
from mainspring.app.envelope import MISSING, Envelope, read_identity
from mainspring.app.names import Namespace
from mainspring.app.options import closest
from mainspring.app.post import REASON, Post
from mainspring.model.errors import BadOption
from mainspring.model.message import Cancelled, Draft
from mainspring.model.views import DeadSelection, DeliveryView, Filter, GroupView, MessageView, RunView, State
from mainspring.storage.contract import Ledger, Storage

Progress = Callable[[int], object]
"""Told how many are done so far, after every batch."""

# Named here, since inside the classes ``list`` is their own verb.
Deliveries = list[DeliveryView]
Runs = list[RunView]
GroupViews = list[GroupView]
Selections = list[DeadSelection]

BATCH = 500
_CAP = 100_000


async def page(ledger: Ledger, names: Namespace, wanted: Filter) -> list[DeliveryView]:
    """One page of deliveries of this namespace: other namespaces' rows between them are passed over."""
    found: list[DeliveryView] = []
    before = wanted.before
    while len(found) < wanted.limit:
        rows = await ledger.browse(
            Filter(wanted.state, wanted.group, wanted.topic, wanted.key, wanted.error, before, wanted.limit)
        )
        found += [names.delivery(row) for row in rows if names.owns(row.topic)]
        if len(rows) < wanted.limit:
            break
        before = rows[-1].seq
    return found[: wanted.limit]


class Messages:
    """``app.messages``: what is stored, under way and kept."""

    def __init__(self, door: Door, names: Namespace, post: Post) -> None:
        self._door = door
        self._names = names
        self._post = post

    async def list(
        self,
        state: State | Literal["live"] = "live",
        *,
        group: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Deliveries, newest first; ``before`` is the ``seq`` of the last row of the page before."""
        storage = await self._door.storage("app.messages.list()")
        wanted = Filter(state, _stored(self._names, group), _stored(self._names, topic), key, None, before, limit)
        return await page(storage.ledger, self._names, wanted)

    async def show(self, message_id: UUID | str) -> MessageView | None:
        """One message with its deliveries and kept runs; None when there is no such message."""
        storage = await self._door.storage("app.messages.show()")
        found = await storage.ledger.find(read_identity(message_id))
        return self._names.message(found) if found is not None and self._names.owns(found.topic) else None

    async def runs(self, group: str | None = None, *, before: int | None = None, limit: int = 50) -> Runs:
        """The kept runs, newest first; ``before`` is the id of the last row of the page before."""
        storage = await self._door.storage("app.messages.runs()")
        rows = await storage.ledger.runs(_stored(self._names, group), before, limit)
        return [self._names.run(row) for row in rows if self._names.owns(row.topic)]

    async def cancel(self, message_id: UUID | str, *, reason: str = REASON) -> Cancelled:
        """Cancel every delivery of one message."""
        return await self._post.cancel(read_identity(message_id), None, reason, None)


class DeadLetters:
    """``app.dead``: what was given up, to look at, revive or discard. Every change is audited with ``by``."""

    def __init__(self, door: Door, names: Namespace, envelope: Envelope) -> None:
        self._door = door
        self._names = names
        self._envelope = envelope

    async def list(
        self,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Dead letters, newest first; ``error`` is text that the error must contain."""
        storage = await self._door.storage("app.dead.list()")
        wanted = Filter("dead", _stored(self._names, group), _stored(self._names, topic), None, error, before, limit)
        return await page(storage.ledger, self._names, wanted)

    async def show(self, message_id: UUID | str) -> MessageView | None:
        """The message with every error that was recorded; None when it has no dead letter."""
        storage = await self._door.storage("app.dead.show()")
        found = await storage.ledger.find(read_identity(message_id))
        if found is None or not any(each.state == "dead" for each in found.deliveries):
            return None
        return self._names.message(found) if self._names.owns(found.topic) else None

    async def revive(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        everything: bool = False,
        payload: object = MISSING,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Give the dead letters meant a fresh life, and return how many. ``payload`` replaces that of one of them."""
        storage = await self._door.storage("app.dead.revive()")
        if payload is not MISSING:
            return await self._replace(storage, message_id, group, payload, by)
        selections = await self._selections(storage, "revive", message_id, group, topic, error, everything=everything)
        # A revived message may die again while this goes on: no more than were there at the start.
        dead = [each.dead for each in (await storage.ledger.tally(_CAP)).groups]
        ceiling = None if any(count >= _CAP for count in dead) else sum(dead)
        return await _in_batches(
            lambda which, limit: storage.controls.revive(which, by, limit), selections, progress, ceiling
        )

    async def discard(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        everything: bool = False,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Remove the dead letters meant for good, and return how many."""
        storage = await self._door.storage("app.dead.discard()")
        selections = await self._selections(storage, "discard", message_id, group, topic, error, everything=everything)
        return await _in_batches(
            lambda which, limit: storage.controls.discard(which, by, limit), selections, progress, None
        )

    async def _selections(
        self,
        storage: Storage,
        call: str,
        message_id: UUID | str | None,
        group: str | None,
        topic: str | None,
        error: str | None,
        *,
        everything: bool,
    ) -> Selections:
        if message_id is None and group is None and topic is None and error is None and not everything:
            raise BadOption(f"dead.{call}() names nothing: give message_id, group, topic or error, or everything=True")
        identity = None if message_id is None else read_identity(message_id)
        address = _stored(self._names, topic)
        if group is not None or topic is not None:
            return [DeadSelection(identity, _stored(self._names, group), address, error)]
        # Without a name in it a selection would reach into other namespaces: group by group, then.
        tally = await storage.ledger.tally(_CAP)
        groups = [each.group for each in tally.groups if each.dead and self._names.owns(each.group)]
        return [DeadSelection(identity, each, None, error) for each in groups]

    async def _replace(
        self, storage: Storage, message_id: UUID | str | None, group: str | None, payload: object, by: str
    ) -> int:
        if message_id is None:
            raise BadOption("dead.revive(payload=…) replaces the payload of one dead letter: give its message_id")
        identity = read_identity(message_id)
        found = await storage.ledger.find(identity)
        dead = [each.group for each in found.deliveries if each.state == "dead"] if found is not None else []
        wanted = _stored(self._names, group)
        if found is None or (wanted is not None and wanted not in dead) or not dead:
            return 0
        if wanted is None and len(dead) > 1:
            names = ", ".join(map(self._names.shown, dead))
            raise BadOption(f"message {identity} is dead for several groups, {names}: give group=…")
        to = wanted or dead[0]
        topic = self._names.shown(found.topic)
        fresh = self._envelope.draft(payload, MISSING, topic=topic, instead_of=found.content_type)
        draft = Draft(
            fresh.id,
            found.topic,
            fresh.payload,
            fresh.content_type,
            found.headers or None,
            found.key,
            to,
            correlation_id=found.correlation_id or str(identity),
            causation_id=identity,
        )
        return int(await storage.controls.replace(identity, to, by, draft))


class Groups:
    """``app.groups``: the declared groups. Every change is audited with ``by``."""

    def __init__(self, door: Door, names: Namespace) -> None:
        self._door = door
        self._names = names

    async def list(self) -> GroupViews:
        """Every declared group of this namespace, whichever app declared it."""
        roster = await (await self._door.storage("app.groups.list()")).ledger.roster()
        return [self._names.group(each) for each in roster.groups if self._names.owns(each.name)]

    async def pause(self, group: str, *, by: str = "app", reason: str = "") -> None:
        """Stop handing out its deliveries, until someone resumes it: restarts and deploys do not."""
        storage = await self._door.storage("app.groups.pause()")
        if not await storage.controls.pause(self._names.stored(group), by, reason):
            raise await self._unknown(group)

    async def resume(self, group: str, *, by: str = "app") -> None:
        """Hand out its deliveries again."""
        storage = await self._door.storage("app.groups.resume()")
        if not await storage.controls.resume(self._names.stored(group), by):
            raise await self._unknown(group)

    async def retire(self, group: str, *, by: str = "app", progress: Progress | None = None) -> int:
        """Remove the group with its undone deliveries, and return how many those were; its dead letters stay."""
        storage = await self._door.storage("app.groups.retire()")
        total = 0
        while dropped := await storage.controls.retire(self._names.stored(group), by, BATCH):
            total += dropped
            if progress is not None:
                progress(total)
        if dropped is None and not total:
            raise await self._unknown(group)
        return total

    async def _unknown(self, group: str) -> BadOption:
        names = [each.name for each in await self.list()]
        return BadOption(f"there is no group {group!r}.{closest(group, names)} There are: {', '.join(names) or 'none'}")


def _stored(names: Namespace, name: str | None) -> str | None:
    return None if name is None else names.stored(name)


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
