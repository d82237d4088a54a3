"""The doorbell: LISTEN on a connection of its own, trusted only while it is proven."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mainspring.model.errors import StorageError
from mainspring.storage.contract import BellMode
from mainspring.storage.operation import Clocked
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.script import Script

if TYPE_CHECKING:
    from mainspring.storage.postgres.driver import Connection
    from mainspring.storage.postgres.gateway import PostgresGateway

_log = logging.getLogger(__name__)

ARMED_FOR = timedelta(minutes=1)
"""How long publishers ring for a group after it was armed: longer than any worker sleeps, short after a crash."""

_PROVEN_EVERY = 30.0
_DOUBTED_EVERY = 5.0
_HEARD_WITHIN = 2.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_LINE_EVERY = 10.0
"""Seconds between lines in the log: the loops of a worker log an outage too, every second."""


class PostgresDoorbell:
    """``Doorbell`` over NOTIFY.

    It connects when the first listener comes, unless it is ``sparing``: then it only polls. The mode is *notify* only
    while the bell has received its own notification within the last half minute; otherwise it is *poll*, and no
    publisher is asked to ring. A lost connection is reopened without end, and listeners are called once, since a ring
    may have been missed.
    """

    def __init__(self, gateway: PostgresGateway, names: Names, owner: Clocked, *, sparing: bool = False) -> None:
        self._gateway = gateway
        self._names = names
        self._owner = owner
        self._sparing = sparing
        self._listeners: list[Callable[[str], None]] = []
        self._mode: BellMode = "poll"
        self._task: asyncio.Task[None] | None = None
        self._ear = secrets.token_hex(6)
        self._token = ""
        self._heard = asyncio.Event()
        self._logged_at = -_LINE_EVERY

    @property
    def mode(self) -> BellMode:
        return self._mode

    def listen(self, rung: Callable[[str], None]) -> None:
        self._listeners.append(rung)
        if self._task is None and not self._sparing:
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="mainspring doorbell")

    async def arm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.arm``. Asks for nothing while the bell is not proven."""
        if groups and self._mode == "notify":
            await self._run("bell_arm", sorted(groups), self._ear, ARMED_FOR, self._owner.now)

    async def disarm(self, groups: Collection[str]) -> None:
        if groups and self._mode == "notify":
            await self._run("bell_disarm", sorted(groups), self._ear, self._owner.now)

    async def ring(self) -> None:
        await self._run("bell_ring", self._names.channel, "")

    async def rouse(self) -> None:
        await self._run("bell_rouse", self._names.channel, self._owner.now)

    async def hang_up(self) -> None:
        """Stop listening."""
        self._listeners.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, name: str, *args: Any) -> None:
        def script() -> Script[None]:
            yield self._names(name, *args)

        await self._gateway.run(script(), "write")

    async def _watch(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                connection = await self._gateway.dial({})
                if self._gateway.pooled:  # a session that is ours for one transaction hears nothing
                    return connection.terminate()
                await self._hold(connection)
            except Exception as error:  # noqa: BLE001 - whatever it is, the bell comes back
                pause = _FIRST_PAUSE if self._mode == "notify" else min(pause * 2, _LONGEST_PAUSE)
                self._warn(error)
            finally:
                self._mode = "poll"
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _hold(self, connection: Connection) -> None:
        lost = asyncio.Event()
        try:
            async with asyncio.timeout(_HEARD_WITHIN):
                ears = {self._names.channel: self._call, self._names.proof_channel: self._on_proof}
                await connection.listen(ears, lost.set)
            while not lost.is_set():
                proven = await self._prove(connection)
                if proven and self._mode == "poll":
                    self._mode = "notify"
                    self._call("")  # something may have been rung in between
                elif not proven:
                    self._mode = "poll"
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PROVEN_EVERY if proven else _DOUBTED_EVERY):
                        await lost.wait()
            raise ConnectionError("the connection was lost")
        finally:
            connection.terminate()

    async def _prove(self, connection: Connection) -> bool:
        self._token = secrets.token_hex(8)
        self._heard.clear()
        try:
            async with asyncio.timeout(_HEARD_WITHIN):
                await connection.fetch(self._names.sql("bell_ring"), self._names.proof_channel, self._token)
                await self._heard.wait()
        except TimeoutError:
            if self._mode == "notify":
                self._warn(TimeoutError("the bell does not hear itself"))
            return False
        return True

    def _on_proof(self, token: str) -> None:
        if token == self._token:
            self._heard.set()

    def _call(self, group: str) -> None:
        for rung in tuple(self._listeners):
            rung(group)

    def _warn(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._logged_at >= _LINE_EVERY:
            self._logged_at = now
            ours = error if isinstance(error, StorageError) else self._gateway.translated(error)
            _log.warning("the doorbell is away, polling instead: %s", ours)
