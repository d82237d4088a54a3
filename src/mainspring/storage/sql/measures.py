"""``Measures`` over a dialect and a gateway."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.model.measures import Sums
from mainspring.storage.sql.operations import Clocked
from mainspring.storage.sql.scripts import Gateway, MeasuresScripts


class SqlMeasures:
    """``Measures`` over a dialect and a gateway."""

    def __init__(self, scripts: MeasuresScripts, gateway: Gateway, owner: Clocked) -> None:
        self._scripts = scripts
        self._run = gateway.run
        self._owner = owner

    async def read(self, span: int, back: timedelta, group: str) -> Sums[datetime]:
        """See ``Measures.read``."""
        return await self._run(self._scripts.read(span, back, group, self._owner.now), "read")

    async def paces(self, back: timedelta, prefix: str) -> Sums[str]:
        """See ``Measures.paces``."""
        return await self._run(self._scripts.paces(back, prefix, self._owner.now), "read")
