"""``app.workers``: workers that have reported themselves, to list, drain and resume."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.options import unknown
from mainspring.model.errors import BadOption, StorageUnavailable
from mainspring.model.views import WorkerView
from mainspring.model.worker import own_name, roster_name
from mainspring.storage.contract import Storage

# Defined here: inside the class ``list`` is a method.
WorkerViews = list[WorkerView]


class Workers:
    """``app.workers``: the workers of this namespace. Every change is audited with ``by``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> WorkerViews:
        """Return every worker of this namespace as it last reported itself, whichever app it serves."""
        return await self._list(await self._connection.storage("app.workers.list()"))

    async def drain(self, name: str, *, by: str = "app", reason: str = "") -> None:
        """Have a worker finish what it has and claim no more.

        The order reaches it within a second or, where the doorbell does not work, with its next report. It stays, and
        can be resumed. If several apps have one of this name, write the app before it, as in ``shop/node-1``.
        """
        storage = await self._connection.storage("app.workers.drain()")
        if not await storage.controls.drain(await self._roster_name(storage, name), by, reason):
            raise await self._unknown(storage, name)
        await _ring(storage)

    async def resume(self, name: str, *, by: str = "app") -> None:
        """Let a worker claim again."""
        storage = await self._connection.storage("app.workers.resume()")
        if not await storage.controls.resume_worker(await self._roster_name(storage, name), by):
            raise await self._unknown(storage, name)
        await _ring(storage)

    async def _list(self, storage: Storage) -> WorkerViews:
        return list(map(shown, (await storage.ledger.roster()).workers))

    async def _roster_name(self, storage: Storage, name: str) -> str:
        mine = [(each.name, shown(each)) for each in (await storage.ledger.roster()).workers]
        found = [(stored, view) for stored, view in mine if view.name == name]
        found = found or [(stored, view) for stored, view in mine if roster_name(view.app, view.name) == name]
        if not found:
            raise await self._unknown(storage, name)
        if len(found) > 1:
            ways = " or ".join(sorted(repr(roster_name(view.app, name)) for _, view in found))
            raise BadOption(f"there are {len(found)} workers {name!r}, of several apps: say which one, as {ways}")
        return found[0][0]

    async def _unknown(self, storage: Storage, name: str) -> BadOption:
        return unknown("there is no worker", name, [each.name for each in await self._list(storage)])


def shown(worker: WorkerView) -> WorkerView:
    """Return the worker under its own name, without its app."""
    return replace(worker, name=own_name(worker.app, worker.name))


async def _ring(storage: Storage) -> None:
    with contextlib.suppress(StorageUnavailable):  # only a hint: the reply to its next report has the order
        await storage.doorbell.ring()


class SyncWorkers(Face[Workers]):
    """``app.sync.workers``: as ``app.workers``, without await."""

    list: Final = blocking(Workers.list)
    drain: Final = blocking(Workers.drain)
    resume: Final = blocking(Workers.resume)
