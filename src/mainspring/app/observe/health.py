"""``app.health``: the checks of this process and of its database, and those of the application's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, overload

from mainspring.app.blocking import Face, blocking, in_loop
from mainspring.app.connection import Connection
from mainspring.app.observe import custom_checks
from mainspring.app.observe.broker_checks import of_brokers
from mainspring.app.observe.checks import StorageChecks, failed, of_process
from mainspring.app.observe.custom_checks import READY, CheckFunction, CustomChecks, read_tags
from mainspring.app.observe.schedule_checks import ScheduleChecks
from mainspring.app.storages import Address
from mainspring.model.errors import BadOption, StorageError
from mainspring.model.health import Check, Health, HealthLimits, health_of
from mainspring.model.lease import LeaseTrouble
from mainspring.storage.contract import Storage
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

F = TypeVar("F", bound=CheckFunction)


class Examiner:
    """Runs the checks of one app, on one connection."""

    def __init__(
        self,
        connection: Connection,
        address: Address,
        workers: Sequence[Worker],
        leases: Callable[[], Sequence[LeaseTrouble]],
        custom: CustomChecks,
    ) -> None:
        self.custom: CustomChecks = custom
        self._connection = connection
        self._address = address
        self._workers = workers
        self._leases = leases
        self._schedules = ScheduleChecks()

    async def run(self, limits: HealthLimits | None, tags: Collection[str] | None) -> list[Check]:
        """Return the results of all checks, or of those with one of the tags."""
        own = self.custom.chosen(tags)
        if tags is not None and READY not in tags:
            return await custom_checks.run(own)
        if own and in_loop():
            built_in, others = await asyncio.gather(self._built_in(limits), custom_checks.run(own))
            return [*built_in, *others]
        return [*await self._built_in(limits), *await custom_checks.run(own)]

    async def of_process(self) -> list[Check]:
        """Return the results of the checks of this process, with recent ones of all that are registered."""
        return [*self._here(None), *await custom_checks.recent(self.custom.chosen(None))]

    async def of_database(self, storage: Storage, limits: HealthLimits | None = None) -> list[Check]:
        """Return the results of the checks of an open database."""
        return await StorageChecks(storage, limits or self.custom.limits, self._schedules, self._workers).run()

    def _here(self, limits: HealthLimits | None) -> list[Check]:
        brokers = of_brokers(self._workers, limits or self.custom.limits)
        return [*of_process(self._workers, self._leases()), *brokers]

    async def _built_in(self, limits: HealthLimits | None) -> list[Check]:
        here = self._here(limits)
        if self._address.missing and self._connection.stand_in is None:
            # Opening would create it, and an empty new database is always healthy.
            return [*here, failed(StorageError(f"there is no file {self._address.target}"))]
        try:
            await self._connection.open()
        except StorageError as error:
            return [*here, failed(error)]
        try:
            storage = await self._connection.storage("app.health()")
            return [*here, *await self.of_database(storage, limits)]
        finally:
            await self._connection.close()


class AppHealth:
    """Whether all is well: ``await app.health()``. Checks of your own are registered by ``app.health.check``."""

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner

    @property
    def limits(self) -> HealthLimits:
        """The limits where a call gives none: also those of the probes, the dashboard and the metrics. Settable."""
        return self._examiner.custom.limits

    @limits.setter
    def limits(self, limits: HealthLimits) -> None:
        self._examiner.custom.limits = limits

    async def __call__(self, limits: HealthLimits | None = None, *, tags: Iterable[str] | None = None) -> Health:
        """Whether all is well. Changes nothing, answers within ten seconds, never raises for what is broken.

        With ``tags`` only checks that have one of them; the built-in ones have the tag ``ready``. Raises BadOption for
        a tag that no check has, except ``live``: without a check, nothing asks for a restart.
        """
        begun = time.monotonic()
        chosen = None if tags is None else read_tags(tags)
        if chosen == ():
            raise BadOption("tags=[] chooses no health check: leave it out for all, or write ['ready']")
        checks = await self._examiner.run(limits, chosen)
        return health_of(checks, time.monotonic() - begun)

    @overload
    def check(self, name: str, *, timeout: Duration = "5s", tags: Iterable[str] = ()) -> Callable[[F], F]: ...

    @overload
    def check(self, name: str, function: F, *, timeout: Duration = "5s", tags: Iterable[str] = ()) -> F: ...

    def check(
        self, name: str, function: F | None = None, *, timeout: Duration = "5s", tags: Iterable[str] = ()
    ) -> F | Callable[[F], F]:
        """Register a check of your own, a function without parameters, also as a decorator.

        Healthy is None or True, unhealthy False, what it raises, and no result within ``timeout`` [at most 8 s]; it may
        also return a status or a ``Check``. A plain function runs in a thread. With the tag ``ready`` it counts for
        ``/health/ready``, with ``live`` for ``/health/live``; in any case for ``/health`` and ``app.health()``.
        """
        custom_checks.checked(name, timeout, tags)  # here, not where the function is given

        def register(function: F) -> F:
            self._examiner.custom.add(name, function, timeout, tags)
            return function

        return register if function is None else register(function)


class SyncHealth(Face[AppHealth]):
    """``app.sync.health``: as ``app.health``, without await."""

    __call__: Final = blocking(AppHealth.__call__)
