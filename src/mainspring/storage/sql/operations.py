"""The contract over a dialect and a gateway: each operation runs its script on its lane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from mainspring.model.join import Join, Recount
from mainspring.model.limits import Limits, Ration
from mainspring.model.message import (
    Cancelled,
    Claim,
    Delivery,
    Draft,
    Extended,
    Progress,
    Published,
    Receipt,
    Settled,
    Want,
)
from mainspring.model.retention import Chore, Pruned, Rerouted, Retention
from mainspring.model.schedule import Decide, Look, Note, Occurrence, Rewrite, Schedule, Timesheet
from mainspring.model.standing import Declarer, Standing
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Settlement
from mainspring.model.views import Beat, Declaration, Orders, RunView
from mainspring.storage.contract import Keyed
from mainspring.storage.sql.scripts import (
    Gateway,
    MailboxScripts,
    TimetableScripts,
    UpkeepScripts,
)


class Clocked(Protocol):
    """Whoever owns the hand-set clock."""

    now: datetime | None


class _Operations:
    def __init__(self, gateway: Gateway, owner: Clocked) -> None:
        self._run = gateway.run
        self._owner = owner


class SqlMailbox(_Operations):
    """``Mailbox`` over a dialect and a gateway."""

    def __init__(self, scripts: MailboxScripts, gateway: Gateway, owner: Clocked) -> None:
        super().__init__(gateway, owner)
        self._scripts = scripts

    async def publish(self, drafts: Sequence[Draft]) -> Published:
        """See ``Mailbox.publish``."""
        return await self._run(self._scripts.publish(drafts, self._owner.now), "write")

    async def publish_unique(self, draft: Draft, likeness: Likeness) -> Receipt:
        """See ``Mailbox.publish_unique``."""
        return await self._run(self._scripts.publish_unique(draft, likeness, self._owner.now), "write")

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """See ``Mailbox.join``."""
        return await self._run(self._scripts.join(join, members, self._owner.now), "write")

    async def claim(self, wants: Sequence[Want], owner: str, hold: timedelta) -> list[Delivery]:
        """See ``Mailbox.claim``."""
        return await self._run(self._scripts.claim(wants, owner, hold, self._owner.now), "claim")

    async def claim_limited(self, want: Want, limits: Limits, after: str | None, owner: str, hold: timedelta) -> Ration:
        """See ``Mailbox.claim_limited``."""
        script = self._scripts.claim_limited(want, limits, after, owner, hold, self._owner.now)
        return await self._run(script, "limited")

    async def reap_limited(
        self,
        group: str,
        limits: Limits,
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Delivery | None:
        """See ``Mailbox.reap_limited``."""
        script = self._scripts.reap_limited(group, limits, owner, hold, self._owner.now, accused=accused, aside=aside)
        return await self._run(script, "limited")

    async def take(self, message_id: UUID, group: str, owner: str, hold: timedelta) -> Delivery | None:
        """See ``Mailbox.take``."""
        return await self._run(self._scripts.take(message_id, group, owner, hold, self._owner.now), "claim")

    async def reap(
        self,
        groups: Sequence[str],
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Delivery | None:
        """See ``Mailbox.reap``."""
        script = self._scripts.reap(groups, owner, hold, self._owner.now, accused=accused, aside=aside)
        return await self._run(script, "claim")

    async def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> timedelta | None:
        """See ``Mailbox.upcoming``."""
        return await self._run(self._scripts.upcoming(groups, self._owner.now, back), "claim")

    async def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Extended:
        """See ``Mailbox.extend``."""
        return await self._run(self._scripts.extend(claims, owner, hold, self._owner.now), "settle")

    async def settle(self, settlements: Sequence[Settlement], owner: str) -> Settled:
        """See ``Mailbox.settle``."""
        return await self._run(self._scripts.settle(settlements, owner, self._owner.now), "settle")

    async def cancel(self, which: UUID | Keyed, reason: str) -> Cancelled:
        """See ``Mailbox.cancel``."""
        return await self._run(self._scripts.cancel(which, reason, self._owner.now), "write")


class SqlUpkeep(_Operations):
    """``Upkeep`` over a dialect and a gateway."""

    def __init__(self, scripts: UpkeepScripts, gateway: Gateway, owner: Clocked) -> None:
        super().__init__(gateway, owner)
        self._scripts = scripts

    async def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Standing:
        """See ``Upkeep.declare``."""
        return await self._run(self._scripts.declare(declarations, self._owner.now, declarer), "write")

    async def beat(self, beat: Beat) -> Orders:
        """See ``Upkeep.beat``."""
        return await self._run(self._scripts.beat(beat, self._owner.now), "write")

    async def farewell(self, worker: str, start_id: str = "") -> None:
        """See ``Upkeep.farewell``."""
        await self._run(self._scripts.farewell(worker, start_id), "write")

    async def record(self, runs: Sequence[RunView]) -> None:
        """See ``Upkeep.record``."""
        await self._run(self._scripts.record(runs), "write")

    async def reroute(self, limit: int, after: str | None = None) -> Rerouted:
        """See ``Upkeep.reroute``."""
        return await self._run(self._scripts.reroute(limit, self._owner.now, after), "write")

    async def recount(self, after: UUID | None, limit: int) -> Recount:
        """See ``Upkeep.recount``."""
        return await self._run(self._scripts.recount(after, limit), "write")

    async def report(self, progress: Sequence[Progress], owner: str) -> None:
        """See ``Upkeep.report``."""
        await self._run(self._scripts.report(progress, owner, self._owner.now), "write")

    async def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Pruned:
        """See ``Upkeep.prune``."""
        return await self._run(self._scripts.prune(retention, limit, self._owner.now, topic, chore, after), "write")


class SqlTimetable(_Operations):
    """``Timetable`` over a dialect and a gateway."""

    def __init__(self, scripts: TimetableScripts, gateway: Gateway, owner: Clocked) -> None:
        super().__init__(gateway, owner)
        self._scripts = scripts

    async def look(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> Look:
        """See ``Timetable.look``."""
        return await self._run(self._scripts.look(app, decide, limit, leave, self._owner.now), "write")

    async def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> list[Schedule | None]:
        """See ``Timetable.rewrite``."""
        return await self._run(self._scripts.rewrite(names, how, note, self._owner.now, waits=waits), "write")

    async def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Published:
        """See ``Timetable.enter``."""
        return await self._run(self._scripts.enter(occurrences, note, self._owner.now), "write")

    async def read(self, names: Collection[str] | None = None, app: str | None = None) -> Timesheet:
        """See ``Timetable.read``."""
        return await self._run(self._scripts.read(names, app, self._owner.now), "read")

    async def declared(self, app: str, names: Collection[str], every: timedelta) -> None:
        """See ``Timetable.declared``."""
        await self._run(self._scripts.declared(app, names, every, self._owner.now), "write")

    async def retire(self, app: str, silent: timedelta) -> list[str]:
        """See ``Timetable.retire``."""
        return await self._run(self._scripts.retire(app, silent, self._owner.now), "write")

    async def freeze(self, app: str, by: str, reason: str) -> None:
        """See ``Timetable.freeze``."""
        await self._run(self._scripts.freeze(app, by, reason, self._owner.now), "write")

    async def thaw(self, app: str, by: str) -> bool:
        """See ``Timetable.thaw``."""
        return await self._run(self._scripts.thaw(app, by, self._owner.now), "write")
