"""Where the names of a fleet lead after moves, as its home records them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping

from mainspring.app.fleet.member import Member
from mainspring.app.storages import Address, identity
from mainspring.model.errors import MainspringError
from mainspring.model.health import Check
from mainspring.model.move import REROUTED, Move
from mainspring.model.text import described

_logger = logging.getLogger("mainspring.fleet")
_PATIENCE = 5.0
"""Seconds that the home has to answer."""


class Moves:
    """The moves that are known here. While the home cannot be asked they stay as they were.

    A process that knows nothing of a move is refused by the fence of the old database, so it need not know at once.
    """

    def __init__(self) -> None:
        self.known: tuple[Move, ...] = ()

    async def learn(self, home: Member | None) -> None:
        """Ask the home. Does not raise."""
        if home is None or home.address.missing:
            return
        try:
            self.known = await read_moves(home)
        except (MainspringError, OSError, TimeoutError) as error:
            _logger.debug("the moves of the fleet are not known: %s", described(error))

    def routed(self, named: Mapping[str, Address]) -> dict[str, Address]:
        """Return the databases with moved ones in their new places, unless the application names these by itself."""
        found = dict(named)
        latest = {each.name: each for each in self.known if each.step in REROUTED}
        for move in self.known:
            if move.step not in REROUTED or place_of(named.get(move.name)) == latest[move.name].place:
                continue
            if (there := named.get(move.target)) is not None and place_of(there) == move.place:
                if move is latest[move.name] and move.name in found:
                    found[move.name] = there
                found.pop(move.target, None)  # its content is that of another name
        return found

    def checks(self) -> list[Check]:
        """Return a check for each move that is not over."""
        return [
            Check(
                f"move {each.name}",
                "degraded",
                f"{each.name} moves to {each.target}, step {each.step}: if its mover has ended, call fleet.move("
                f"{each.name!r}, to={each.target!r}) again, or fleet.undo_move({each.name!r})",
            )
            for each in self.known
            if not each.is_over
        ]


async def read_moves(home: Member) -> tuple[Move, ...]:
    """Return all moves that the home records, the first one first."""
    async with asyncio.timeout(_PATIENCE), home.connection.apart() as storage:
        return tuple(await storage.moves.browse())


def place_of(address: Address | None) -> str | None:
    """Return what identifies this database, without a password; None in memory."""
    found = None if address is None else identity(address)
    return None if found is None else json.dumps(found)
