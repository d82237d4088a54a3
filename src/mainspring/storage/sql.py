"""Any SQL database: a dialect says what to run, a gateway says where; together they keep the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar
from uuid import UUID

from mainspring.model.message import Cancelled, Claim, Delivery, Draft, Extended, Published, Settled, Want
from mainspring.model.verdict import Settlement
from mainspring.model.views import (
    AuditView,
    Beat,
    DeadSelection,
    Declaration,
    DeliveryView,
    Filter,
    MessageView,
    Pruned,
    Retention,
    Roster,
    RunView,
    Tally,
)
from mainspring.storage.contract import Keyed, Schema
from mainspring.storage.script import Script

T = TypeVar("T")
Now = datetime | None
Lane = Literal["claim", "settle", "write", "read"]
"""Which connection: claiming and settling have their own, so that nothing lent to others can stop them."""


class Gateway(Protocol):
    """Runs a script as one transaction: all of it or none of it."""

    async def run(self, script: Script[T], lane: Lane) -> T:
        """Drive the script to its answer. Driver errors leave as StorageError or StorageUnavailable."""
        ...


class MailboxScripts(Protocol):
    """The mailbox of one dialect. ``now`` is None in production: the database owns the clock."""

    def publish(self, drafts: Sequence[Draft], now: Now) -> Script[Published]: ...
    def claim(self, wants: Sequence[Want], owner: str, hold: timedelta, now: Now) -> Script[list[Delivery]]: ...
    def reap(self, groups: Sequence[str], owner: str, hold: timedelta, now: Now) -> Script[Delivery | None]: ...
    def upcoming(self, groups: Sequence[str], now: Now) -> Script[timedelta | None]: ...
    def extend(self, claims: Sequence[Claim], hold: timedelta, now: Now) -> Script[Extended]: ...
    def settle(self, settlements: Sequence[Settlement], now: Now) -> Script[Settled]: ...
    def cancel(self, which: UUID | Keyed, reason: str, now: Now) -> Script[Cancelled]: ...


class LedgerScripts(Protocol):
    """The ledger of one dialect."""

    def tally(self, cap: int, now: Now) -> Script[Tally]: ...
    def browse(self, filter: Filter, now: Now) -> Script[list[DeliveryView]]: ...
    def find(self, message_id: UUID, now: Now) -> Script[MessageView | None]: ...
    def runs(self, group: str | None, before: int | None, limit: int) -> Script[list[RunView]]: ...
    def roster(self, now: Now) -> Script[Roster]: ...
    def audit(self, before: int | None, limit: int) -> Script[list[AuditView]]: ...


class ControlsScripts(Protocol):
    """The controls of one dialect."""

    def pause(self, group: str, by: str, reason: str, now: Now) -> Script[bool]: ...
    def resume(self, group: str, by: str, now: Now) -> Script[bool]: ...
    def revive(self, which: DeadSelection, by: str, limit: int, now: Now) -> Script[int]: ...
    def replace(self, message_id: UUID, group: str, by: str, draft: Draft, now: Now) -> Script[bool]: ...
    def discard(self, which: DeadSelection, by: str, limit: int, now: Now) -> Script[int]: ...
    def retire(self, group: str, by: str, limit: int, now: Now) -> Script[int | None]: ...


class UpkeepScripts(Protocol):
    """The upkeep of one dialect."""

    def declare(self, declarations: Sequence[Declaration], now: Now) -> Script[None]: ...
    def beat(self, beat: Beat, now: Now) -> Script[None]: ...
    def farewell(self, worker: str) -> Script[None]: ...
    def reroute(self, limit: int, now: Now) -> Script[int]: ...
    def prune(self, retention: Retention, limit: int, now: Now) -> Script[Pruned]: ...


@dataclass(frozen=True, slots=True)
class Scripts:
    """Every operation of one dialect, for whoever brings a gateway to run them on."""

    mailbox: MailboxScripts
    ledger: LedgerScripts
    controls: ControlsScripts
    upkeep: UpkeepScripts
    ping: Callable[[], Script[object]]
    schema: Callable[[Gateway], Schema]
    """The tables as they are seen through a gateway within a transaction of somebody else's."""


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

    async def claim(self, wants: Sequence[Want], owner: str, hold: timedelta) -> list[Delivery]:
        """See ``Mailbox.claim``."""
        return await self._run(self._scripts.claim(wants, owner, hold, self._owner.now), "claim")

    async def reap(self, groups: Sequence[str], owner: str, hold: timedelta) -> Delivery | None:
        """See ``Mailbox.reap``."""
        return await self._run(self._scripts.reap(groups, owner, hold, self._owner.now), "claim")

    async def upcoming(self, groups: Sequence[str]) -> timedelta | None:
        """See ``Mailbox.upcoming``."""
        return await self._run(self._scripts.upcoming(groups, self._owner.now), "claim")

    async def extend(self, claims: Sequence[Claim], hold: timedelta) -> Extended:
        """See ``Mailbox.extend``."""
        return await self._run(self._scripts.extend(claims, hold, self._owner.now), "settle")

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """See ``Mailbox.settle``."""
        return await self._run(self._scripts.settle(settlements, self._owner.now), "settle")

    async def cancel(self, which: UUID | Keyed, reason: str) -> Cancelled:
        """See ``Mailbox.cancel``."""
        return await self._run(self._scripts.cancel(which, reason, self._owner.now), "write")


class SqlLedger(_Operations):
    """``Ledger`` over a dialect and a gateway."""

    def __init__(self, scripts: LedgerScripts, gateway: Gateway, owner: Clocked) -> None:
        super().__init__(gateway, owner)
        self._scripts = scripts

    async def tally(self, cap: int = 100_000) -> Tally:
        """See ``Ledger.tally``."""
        return await self._run(self._scripts.tally(cap, self._owner.now), "read")

    async def browse(self, filter: Filter) -> list[DeliveryView]:
        """See ``Ledger.browse``."""
        return await self._run(self._scripts.browse(filter, self._owner.now), "read")

    async def find(self, message_id: UUID) -> MessageView | None:
        """See ``Ledger.find``."""
        return await self._run(self._scripts.find(message_id, self._owner.now), "read")

    async def runs(self, group: str | None, before: int | None, limit: int) -> list[RunView]:
        """See ``Ledger.runs``."""
        return await self._run(self._scripts.runs(group, before, limit), "read")

    async def roster(self) -> Roster:
        """See ``Ledger.roster``."""
        return await self._run(self._scripts.roster(self._owner.now), "read")

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """See ``Ledger.audit``."""
        return await self._run(self._scripts.audit(before, limit), "read")


class SqlControls(_Operations):
    """``Controls`` over a dialect and a gateway."""

    def __init__(self, scripts: ControlsScripts, gateway: Gateway, owner: Clocked) -> None:
        super().__init__(gateway, owner)
        self._scripts = scripts

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """See ``Controls.pause``."""
        return await self._run(self._scripts.pause(group, by, reason, self._owner.now), "write")

    async def resume(self, group: str, by: str) -> bool:
        """See ``Controls.resume``."""
        return await self._run(self._scripts.resume(group, by, self._owner.now), "write")

    async def revive(self, which: DeadSelection, by: str, limit: int) -> int:
        """See ``Controls.revive``."""
        return await self._run(self._scripts.revive(which, by, limit, self._owner.now), "write")

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """See ``Controls.replace``."""
        return await self._run(self._scripts.replace(message_id, group, by, draft, self._owner.now), "write")

    async def discard(self, which: DeadSelection, by: str, limit: int) -> int:
        """See ``Controls.discard``."""
        return await self._run(self._scripts.discard(which, by, limit, self._owner.now), "write")

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """See ``Controls.retire``."""
        return await self._run(self._scripts.retire(group, by, limit, self._owner.now), "write")


class SqlUpkeep(_Operations):
    """``Upkeep`` over a dialect and a gateway."""

    def __init__(self, scripts: UpkeepScripts, gateway: Gateway, owner: Clocked) -> None:
        super().__init__(gateway, owner)
        self._scripts = scripts

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """See ``Upkeep.declare``."""
        await self._run(self._scripts.declare(declarations, self._owner.now), "write")

    async def beat(self, beat: Beat) -> None:
        """See ``Upkeep.beat``."""
        await self._run(self._scripts.beat(beat, self._owner.now), "write")

    async def farewell(self, worker: str) -> None:
        """See ``Upkeep.farewell``."""
        await self._run(self._scripts.farewell(worker), "write")

    async def reroute(self, limit: int) -> int:
        """See ``Upkeep.reroute``."""
        return await self._run(self._scripts.reroute(limit, self._owner.now), "write")

    async def prune(self, retention: Retention, limit: int) -> Pruned:
        """See ``Upkeep.prune``."""
        return await self._run(self._scripts.prune(retention, limit, self._owner.now), "write")
