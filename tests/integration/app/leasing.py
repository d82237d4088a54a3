"""What the tests of leases share: an app whose clock is turned by hand, and leases that fail when told to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mainspring import LeaseView, Mainspring
from mainspring.model.errors import StorageUnavailable
from mainspring.model.lease import Granted, Renewal, Renewed
from mainspring.storage.contract import Leases
from mainspring.timing.clock import HandClock

SECOND = timedelta(seconds=1)


@dataclass
class Hands:
    """An open app in memory. Its own clock moves by hand; that of its database goes on by itself."""

    app: Mainspring
    clock: HandClock

    def pass_time(self, seconds: float) -> None:
        """Let so much pass, and have whoever renews notice at once."""
        self.clock.advance(seconds * SECOND)
        keeper = self.app.leases._operations.keeping._here
        if keeper is not None:
            keeper.wake()

    async def view(self, name: str = "reports") -> LeaseView:
        found = await self.app.leases.get(name)
        assert found is not None
        return found

    async def becomes(self, state: str, name: str = "reports") -> None:
        """Wait until the lease is in this state."""
        async with asyncio.timeout(30):
            while (found := await self.app.leases.get(name)) is None or found.state != state:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def opened() -> AsyncIterator[Hands]:
    app = Mainspring("memory://", name="shop")
    clock = HandClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
    app._code.clock.replace(clock)
    async with app:
        yield Hands(app, clock)


class Unreliable:
    """Leases whose database is away, or whose replies get lost, when told to."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.away = 0
        """How many calls fail before anything is done."""
        self.unheard = 0
        """How many acquisitions are made, and their replies lost."""
        self.busy = 0
        """How many renewals find it locked."""
        self.hangs: asyncio.Event | None = None
        """Set when an acquisition was made whose reply never comes."""
        self.replying: Callable[[], None] | None = None
        """Called between what the database does and its reply."""

    @staticmethod
    async def under(app: Mainspring) -> "Unreliable":
        storage = (await app._connection.opening("a test")).storage
        unreliable = Unreliable(storage.leases)
        storage.leases = unreliable  # type: ignore[misc]
        return unreliable

    async def acquire(self, name: str, holder: str, ttl: timedelta) -> Granted | None:
        self._check()
        granted = await self._leases.acquire(name, holder, ttl)
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.Event().wait()
        if self.unheard:
            self.unheard -= 1
            raise StorageUnavailable("the reply was lost")
        self._reply()
        return granted

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        self._check()
        if self.busy:
            self.busy -= 1
            return Renewed(busy=frozenset(each.hold for each in renewals))
        answer = await self._leases.renew(renewals)
        self._reply()
        return answer

    async def release(self, name: str, epoch: int, holder: str) -> bool:
        self._check()
        return await self._leases.release(name, epoch, holder)

    async def confirm(self, name: str, epoch: int, holder: str) -> bool:
        return await self._leases.confirm(name, epoch, holder)

    async def find(self, name: str) -> LeaseView | None:
        return await self._leases.find(name)

    async def browse(self, after: str | None, limit: int) -> list[LeaseView]:
        return await self._leases.browse(after, limit)

    async def revoke(self, name: str, by: str, reason: str) -> bool:
        return await self._leases.revoke(name, by, reason)

    def _check(self) -> None:
        if self.away:
            self.away -= 1
            raise StorageUnavailable("away")

    def _reply(self) -> None:
        if self.replying is not None:
            self.replying()


def counting(unreliable: Unreliable) -> list[str]:
    """Grows with every acquisition that is tried."""
    tries: list[str] = []
    acquire = unreliable.acquire

    async def counted(name: str, holder: str, ttl: timedelta) -> Granted | None:
        tries.append(holder)
        return await acquire(name, holder, ttl)

    unreliable.acquire = counted  # type: ignore[method-assign]
    return tries


async def until(happened: Callable[[], object]) -> None:
    """Wait until it has."""
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0.005)
