"""The workers that have reported themselves, and what an operator may tell them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.options import closest
from mainspring.model.errors import BadOption, StorageUnavailable
from mainspring.model.views import WorkerView
from mainspring.model.worker import seat, seated
from mainspring.storage.contract import Storage

# Named here, since inside the class ``list`` is its own verb.
WorkerViews = list[WorkerView]


class Workers:
    """``app.workers``: who is at work. Every change is audited with ``by``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> WorkerViews:
        """Every worker of this namespace as it last reported itself, whichever app it serves."""
        return await self._there(await self._connection.storage("app.workers.list()"))

    async def drain(self, name: str, *, by: str = "app", reason: str = "") -> None:
        """Have a worker finish what it has and claim no more.

        It hears of it within a second or, where the bell does not reach it, with its next report. It stays, and can
        be resumed. Where several apps have one of this name, the app goes before it, as in ``shop/node-1``.
        """
        storage = await self._connection.storage("app.workers.drain()")
        if not await storage.controls.drain(await self._seat(storage, name), by, reason):
            raise await self._unknown(storage, name)
        await _call(storage)

    async def resume(self, name: str, *, by: str = "app") -> None:
        """Let a worker claim again."""
        storage = await self._connection.storage("app.workers.resume()")
        if not await storage.controls.resume_worker(await self._seat(storage, name), by):
            raise await self._unknown(storage, name)
        await _call(storage)

    async def _there(self, storage: Storage) -> WorkerViews:
        return list(map(shown, (await storage.ledger.roster()).workers))

    async def _seat(self, storage: Storage, name: str) -> str:
        mine = [(each.name, shown(each)) for each in (await storage.ledger.roster()).workers]
        found = [(stored, view) for stored, view in mine if view.name == name]
        found = found or [(stored, view) for stored, view in mine if seat(view.app, view.name) == name]
        if not found:
            raise await self._unknown(storage, name)
        if len(found) > 1:
            ways = " or ".join(sorted(repr(seat(view.app, name)) for _, view in found))
            raise BadOption(f"there are {len(found)} workers {name!r}, of several apps: say which one, as {ways}")
        return found[0][0]

    async def _unknown(self, storage: Storage, name: str) -> BadOption:
        names = [each.name for each in await self._there(storage)]
        return BadOption(f"there is no worker {name!r}.{closest(name, names)} There are: {', '.join(names) or 'none'}")


def shown(worker: WorkerView) -> WorkerView:
    """The same worker by the name that it was given, without the seat of its app."""
    return replace(worker, name=seated(worker.app, worker.name))


async def _call(storage: Storage) -> None:
    with contextlib.suppress(StorageUnavailable):  # only a hint: the next report is answered with it
        await storage.doorbell.ring()


class SyncWorkers(Face[Workers]):
    """``app.sync.workers``: as ``app.workers``, without await."""

    list: Final = blocking(Workers.list)
    drain: Final = blocking(Workers.drain)
    resume: Final = blocking(Workers.resume)
