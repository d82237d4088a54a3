"""Which deliveries are the test's own, where others have stored theirs in the same tables."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.app.storages import Rooms
from mainspring.model.views import DeliveryView


class Own:
    """Tells what the test's transaction has published from what was committed by others, before it or during it."""

    def __init__(self, rooms: Rooms) -> None:
        self._ledger = rooms.ledger
        self._earlier: object = None

    async def begin(self) -> None:
        """Remember what is there already, where the database cannot tell later."""
        self._earlier = await self._ledger.earlier()

    async def of(self, views: Sequence[DeliveryView]) -> list[DeliveryView]:
        """Those of messages that were published in the test's transaction."""
        if not views:
            return []
        asked = sorted({view.message_id for view in views})
        ours = await self._ledger.own(asked, self._earlier)
        return [view for view in views if view.message_id in ours]
