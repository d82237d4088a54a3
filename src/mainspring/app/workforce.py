"""The workers that have reported themselves, and what an operator may tell them."""

from __future__ import annotations

from mainspring.app.door import Door
from mainspring.app.names import Namespace
from mainspring.app.options import closest
from mainspring.model.errors import BadOption
from mainspring.model.views import WorkerView
from mainspring.storage.contract import Storage

# Named here, since inside the class ``list`` is its own verb.
WorkerViews = list[WorkerView]


class Workers:
    """``app.workers``: who is at work. Every change is audited with ``by``."""

    def __init__(self, door: Door, names: Namespace) -> None:
        self._door = door
        self._names = names

    async def list(self) -> WorkerViews:
        """Every worker of this namespace as it last reported itself, whichever app it serves."""
        return await self._there(await self._door.storage("app.workers.list()"))

    async def drain(self, name: str, *, by: str = "app", reason: str = "") -> None:
        """Have a worker finish what it has and claim no more.

        It hears of it with its next report, within seconds. It stays, and can be resumed.
        """
        storage = await self._door.storage("app.workers.drain()")
        await self._known(storage, name)
        if not await storage.controls.drain(name, by, reason):
            raise await self._unknown(storage, name)

    async def resume(self, name: str, *, by: str = "app") -> None:
        """Let a worker claim again."""
        storage = await self._door.storage("app.workers.resume()")
        await self._known(storage, name)
        if not await storage.controls.undrain(name, by):
            raise await self._unknown(storage, name)

    async def _there(self, storage: Storage) -> WorkerViews:
        roster = await storage.ledger.roster()
        return [self._names.worker(each) for each in roster.workers if self._names.owns(each.app)]

    async def _known(self, storage: Storage, name: str) -> None:
        # A worker's name has no namespace before it: nobody reaches into another one by it.
        if name not in {each.name for each in await self._there(storage)}:
            raise await self._unknown(storage, name)

    async def _unknown(self, storage: Storage, name: str) -> BadOption:
        names = [each.name for each in await self._there(storage)]
        return BadOption(f"there is no worker {name!r}.{closest(name, names)} There are: {', '.join(names) or 'none'}")
