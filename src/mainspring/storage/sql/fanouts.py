"""``Fanouts`` over a dialect and a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.model.fanout import Batch, Choose, CursorKey, CursorTally, CursorView, FanoutPolicy, FanoutPolicyView
from mainspring.model.message import Published
from mainspring.model.schedule import Note
from mainspring.storage.sql.operations import Clocked
from mainspring.storage.sql.scripts import FanoutsScripts, Gateway


class SqlFanouts:
    """``Fanouts`` over a dialect and a gateway."""

    def __init__(self, scripts: FanoutsScripts, gateway: Gateway, owner: Clocked) -> None:
        self._scripts = scripts
        self._run = gateway.run
        self._owner = owner

    async def plan(self, batch: Batch, choose: Choose) -> Published | None:
        """See ``Fanouts.plan``."""
        return await self._run(self._scripts.plan(batch, choose, self._owner.now), "write")

    async def advance(self, key: CursorKey, window: datetime) -> bool:
        """See ``Fanouts.advance``."""
        return await self._run(self._scripts.advance(key, window, self._owner.now), "write")

    async def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> FanoutPolicy:
        """See ``Fanouts.edit``."""
        return await self._run(self._scripts.edit(topic, work, shard, policy, note, self._owner.now), "write")

    async def reset(self, topic: str, work: str, shard: str, note: Note) -> bool:
        """See ``Fanouts.reset``."""
        return await self._run(self._scripts.reset(topic, work, shard, note, self._owner.now), "write")

    async def policies(self, topic: str, work: str, after: str | None, limit: int) -> Sequence[FanoutPolicyView]:
        """See ``Fanouts.policies``."""
        return await self._run(self._scripts.policies(topic, work, after, limit), "read")

    async def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Sequence[CursorView]:
        """See ``Fanouts.cursors``."""
        return await self._run(self._scripts.cursors(topic, work, after, limit, behind=behind), "read")

    async def tally(self, topic: str | None = None, work: str | None = None) -> Sequence[CursorTally]:
        """See ``Fanouts.tally``."""
        return await self._run(self._scripts.tally(topic, work), "read")
