"""The databases of a fleet as others send to them: each message is stored with its mark, and the dead delay none."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, cast
from uuid import UUID

from mainspring.app.fleet.forward import opened
from mainspring.brokers.contract import SendResult
from mainspring.model.message import Delivery, Draft
from mainspring.model.text import described
from mainspring.model.verdict import Bury, Failure, Snooze
from mainspring.runtime.handler import Run

if TYPE_CHECKING:
    from mainspring.app.fleet.member import Member
    from mainspring.runtime.batch import Batch

_logger = logging.getLogger("mainspring.fleet")
Results = dict[UUID, SendResult]
SOURCE = "fleet"
"""The source of the inbox marks: ids are those of messages, whichever database they come from."""
_PATIENCE = 1.0
"""Seconds for which a batch waits for a database that responds as a rule."""
_GLANCE = 0.1
"""Seconds for which it waits for one that could not be used the last time."""
_DEADLINE = 30.0
"""Seconds that storing may take."""
_FIRST_PAUSE = 0.25
_BREATH = 1.0
"""Seconds for which a message is put off whose database is slow."""
_LONGEST_OUTAGE = 60.0
"""Seconds between two attempts at most."""
_STEP = 0.002
"""Seconds between two messages that are put off: a backlog for a dead database is looked at 500 times a second."""
_LONGEST_WAIT = 900.0
"""Seconds for which a message is put off at most, however many wait."""


class Destination:
    """One database of a fleet: whether it can be stored to, and when it is tried again.

    While it cannot, one batch at a time tries it, after growing pauses, and all others are put off without an attempt.
    What takes long goes on while its batch ends: its messages are known by their marks when they are sent again
    (invariant 35).
    """

    def __init__(self, name: str, member: Member | None, tasks: set[asyncio.Task[Results]]) -> None:
        self.name: str = name
        self.member: Member | None = member
        self._tasks = tasks
        self._under_way = 0
        self._late = 0
        """How many of those have outlived their batch."""
        self._pause = 0.0
        """Seconds between the last attempts that failed; 0 if the last one did not."""
        self._why = ""
        self._try_at = 0.0
        self._slot = 0.0

    async def store(self, group: str, drafts: Mapping[UUID, Draft]) -> Mapping[UUID, object]:
        """Store messages there, unless that has to wait; return an outcome for each."""
        if self._late or (self._pause and (self._under_way or time.monotonic() < self._try_at)):
            return {id: self._later(self._why or "it is slow") for id in drafts}
        task = asyncio.create_task(self._stored(group, drafts), name=f"mainspring-fleet-forward {self.name}")
        self._under_way += 1
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        # What could not be used is not waited for: the others of the batch would wait with it.
        await asyncio.wait([task], timeout=_GLANCE if self._pause else _PATIENCE)
        if not task.done():
            self._late += 1
            task.add_done_callback(self._arrived)
            return {id: self._later(self._why or "it is slow") for id in drafts}
        return {id: self._outcome(each) for id, each in task.result().items()}

    def _outcome(self, result: SendResult) -> object:
        match result.status:
            case "sent":
                return None
            case "rejected":
                return Bury(Failure("rejected", f"{self.name} rejected it: {result.reason}"))
            case _:  # of this one alone, if others were stored
                return self._later(result.reason, self._pause or _LONGEST_OUTAGE)

    def _later(self, why: str, least: float = _BREATH) -> Snooze:
        """Put off the next message. The more wait, the longer: however many they are, an outage costs little."""
        now = time.monotonic()
        self._slot = max(self._slot + _STEP, now + (self._pause or least))
        pause = min(self._slot - now, _LONGEST_WAIT) * random.uniform(0.8, 1.0)
        return Snooze(timedelta(seconds=pause), f"{self.name}: {why}")

    def _ended(self, task: asyncio.Task[Results]) -> None:
        self._under_way -= 1
        self._tasks.discard(task)

    def _arrived(self, _task: object) -> None:
        self._late -= 1

    async def _stored(self, group: str, drafts: Mapping[UUID, Draft]) -> Results:
        found = await self._attempt(group, {str(id): draft for id, draft in drafts.items()})
        statuses = {each.status for each in found.values()}
        if statuses == {"later"}:
            self._failed(next(iter(found.values())).reason)
        else:
            self._recovered()
        if "sent" in statuses and self.member is not None:
            self.member.place.wake()
        return {UUID(id): each for id, each in found.items()}

    async def _attempt(self, group: str, drafts: Mapping[str, Draft]) -> Mapping[str, SendResult]:
        from mainspring.app.broker.remote import store_once

        if self.member is None:
            return dict.fromkeys(drafts, SendResult("later", "it is no database of the fleet"))
        try:
            async with asyncio.timeout(_DEADLINE):
                opening = await self.member.connection.opening("fleet.publish()")
                return await store_once(opening.storage, group, SOURCE, drafts)
        except TimeoutError:
            why = f"no response within {_DEADLINE:g} s"
        except Exception as error:  # noqa: BLE001 - whatever it is, these wait and the others go on
            why = described(error)
        return dict.fromkeys(drafts, SendResult("later", why))

    def _failed(self, why: str) -> None:
        if not self._pause:
            _logger.warning("%s: messages for it wait until it can be used, the others go on: %s", self.name, why)
        self._why = why
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_OUTAGE)
        self._try_at = time.monotonic() + self._pause * random.uniform(0.5, 1.0)

    def _recovered(self) -> None:
        if self._pause:
            _logger.info("%s: messages for it are stored again", self.name)
        self._pause, self._slot, self._why = 0.0, 0.0, ""


class Destinations:
    """All databases of a fleet as destinations, for all workers of a process."""

    def __init__(self, members: Callable[[], Mapping[str, Member]]) -> None:
        self._members = members
        self._known: dict[str, Destination] = {}
        self._tasks: set[asyncio.Task[Results]] = set()

    async def send(self, _: Delivery, run: Run) -> list[object]:
        """Store a batch of deliveries, each in its database; return an outcome per message."""
        letters = [_read(each.delivery) for each in cast("Batch", run).taken]
        parts: dict[str, dict[UUID, Draft]] = {}
        for name, draft in (each for each in letters if isinstance(each, tuple)):
            parts.setdefault(name, {})[draft.id] = draft
        stores = (self._to(name).store(run.handler.group, part) for name, part in parts.items())
        outcomes = dict(zip(parts, await asyncio.gather(*stores), strict=True))
        return [outcomes[each[0]][each[1].id] if isinstance(each, tuple) else each for each in letters]

    async def close(self) -> None:
        """End what is under way, before the databases close: it is sent again."""
        tasks = tuple(self._tasks)
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _to(self, name: str) -> Destination:
        member, known = self._members().get(name), self._known.get(name)
        if known is None or known.member is not member:
            # One that was added again, or has another address, is tried at once.
            known = self._known[name] = Destination(name, member, self._tasks)
        return known


def _read(delivery: Delivery) -> tuple[str, Draft] | Bury:
    try:
        return opened(delivery)
    except (ValueError, OverflowError) as error:
        return Bury(Failure("unreadable", f"it does not tell where it goes: {described(error)}"))
