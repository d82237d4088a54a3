"""A shop whose transactions in one database send messages to another, and what has arrived there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from mainspring import Fleet, Mainspring
from mainspring.model.views import DeliveryView
from tests.integration.fleet.conftest import Urls

QUICK: dict[str, Any] = {"longest_pause": "1s", "idle": "1s"}
GROUP = "mainspring.fleet.shop"


def consuming() -> Mainspring:
    """What has something to handle, and so may have a worker; other topics stay parked and can be counted."""
    app = Mainspring("fleet://", name="shop")

    @app.consumer("others")
    async def other(_payload: Any) -> None: ...

    return app


def begun(url: str) -> AbstractAsyncContextManager[AsyncConnection]:
    """A transaction of the application's own."""

    @asynccontextmanager
    async def begin() -> AsyncIterator[AsyncConnection]:
        driver = url.replace("sqlite:", "sqlite+aiosqlite:").replace("postgresql:", "postgresql+asyncpg:")
        engine = create_async_engine(driver)
        try:
            async with engine.begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    return begin()


@dataclass
class Shop:
    """An app, and the URLs of the databases of its fleet."""

    app: Mainspring
    urls: Urls

    def fleet(self, app: Mainspring | None = None, **options: Any) -> Fleet:
        return Fleet(app or self.app, self.urls, **options)

    def begun(self, name: str = "acme") -> AbstractAsyncContextManager[AsyncConnection]:
        return begun(self.urls[name])


async def there(fleet: Fleet, name: str, topic: str = "moved") -> list[DeliveryView]:
    """What is parked in a database on this topic."""
    return [each for each in await fleet[name].messages.list("parked", limit=1_000) if each.topic == topic]


async def arrived(fleet: Fleet, name: str, count: int = 1, patience: float = 60.0) -> list[DeliveryView]:
    """Wait until so many messages are parked there."""
    async with asyncio.timeout(patience):
        while len(found := await there(fleet, name)) < count:
            await asyncio.sleep(0.02)
    return found


async def sent(fleet: Fleet, name: str = "acme") -> None:
    """Wait until nothing waits in a database for others."""
    async with asyncio.timeout(60):
        while await fleet[name].messages.list("live", group=GROUP):
            await asyncio.sleep(0.02)
