"""An app with something of everything to see, and a dashboard over it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2

from mainspring import Mainspring
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.dashboard import Dashboard
from mainspring.model.errors import LeaseLost
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.rhythm import every

OPERATOR = "operator-token-of-this-test"
VIEWER = "viewer-token-of-this-test"
BASE = "http://localhost:8321"
CSRF = "X-Mainspring-Csrf"
ACCESS = ("log in", "log out", "log in failed", "log in refused", "refused")


def shop(url: str = "memory://", **options: Any) -> Mainspring:
    """A shop: one consumer that works, one that fails, a schedule, a fan-out, and a route to a broker that is away."""
    app = Mainspring(url, name="shop", **options)

    @app.consumer("orders.*")
    async def ship(order: Any) -> None:
        del order

    @app.consumer("cards.*", retry=NO_RETRY)
    async def charge(card: Any) -> None:
        raise ValueError(f"the card was declined, card_number={card['card_number']}")

    away = MemoryQueues({})
    away.fail(f"amqp://ada:{SECRET}@broker/ refused us, password={SECRET}")
    app.route("parcels.*", to=MemoryBroker(away), group="ship_by_carrier")

    @app.recurring("0 9 * * *", timezone="Europe/Berlin")
    async def report() -> None: ...

    @app.fanout("mail.sync", "inbox", every="1h")
    async def mailboxes() -> AsyncIterator[str]:
        yield "anna"
        yield "bert"

    @mailboxes.slices()
    async def sync_mail() -> None: ...

    return app


@dataclass(slots=True)
class Scene:
    """What is there, by name."""

    app: Mainspring
    dashboard: Dashboard
    dead: list[str] = field(default_factory=list)
    """Message ids of dead letters for group ``charge``."""
    waiting: list[str] = field(default_factory=list)
    """Message ids of scheduled deliveries for group ``ship``."""

    def client(self, **headers: str) -> httpx2.AsyncClient:
        """A program that asks."""
        return client_of(self.dashboard, headers)

    def operator(self) -> httpx2.AsyncClient:
        """A program with an operator's token."""
        return self.client(Authorization=f"Bearer {OPERATOR}")

    def viewer(self) -> httpx2.AsyncClient:
        """A program with a viewer's token."""
        return self.client(Authorization=f"Bearer {VIEWER}")

    async def actions(self) -> list[tuple[str, str, str]]:
        """What was changed by the audit log, oldest first: who, what, on what."""
        lines = [line for line in await self.app.audit(limit=200) if line.action not in ACCESS]
        return [(line.by, line.action, line.subject) for line in reversed(lines)]

    async def accesses(self) -> list[tuple[str, str, str, str]]:
        """Logins, logouts and refusals by the audit log, oldest first: who, what, on what, and the detail."""
        if self.dashboard._access_log._writing:
            await asyncio.wait(self.dashboard._access_log._writing)
        lines = [line for line in await self.app.audit(limit=200) if line.action in ACCESS]
        return [(line.by, line.action, line.subject, line.detail) for line in reversed(lines)]


def client_of(dashboard: Any, headers: Mapping[str, str] | None = None, base: str = BASE) -> httpx2.AsyncClient:
    """A program that asks the application in this process."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(dashboard), base_url=base, headers=dict(headers or {}))


@asynccontextmanager
async def opened(
    url: str = "memory://", *, schema: str | None = None, dead: int = 2, waiting: int = 2, **settings: Any
) -> AsyncIterator[Scene]:
    """The shop, open, with dead letters, messages that wait, runs that were kept, and a lease that is held."""
    settings.setdefault("tokens", {"operator": OPERATOR, "viewer": VIEWER})
    async with AsyncExitStack() as stack:
        app = shop(url, keep="all", schema=schema)
        await app.migrate()
        await stack.enter_async_context(app)
        await app.declare()
        dashboard = Dashboard(app, **settings)
        stack.push_async_callback(dashboard.aclose)
        scene = Scene(app, dashboard)
        await _fill(scene, dead, waiting)
        stack.enter_context(suppress(LeaseLost))  # a test may take it away
        await stack.enter_async_context(app.leases.hold("nightly"))
        yield scene


async def _fill(scene: Scene, dead: int, waiting: int) -> None:
    app = scene.app
    for number in range(dead):
        receipt = await app.publish("cards.charged", card(number), key=f"card:{number}", headers=HEADERS)
        scene.dead.append(str(receipt.id))
    await app.publish("orders.placed", {"order": 0, "customer": {"name": "Ada", "password": SECRET}})
    if dead:
        async with app.worker(groups=["charge", "ship"]):
            await until(lambda: _is_settled(app, dead))
    for number in range(waiting):
        receipt = await app.publish("orders.placed", {"order": number}, delay="1h", key=f"order:{number}")
        scene.waiting.append(str(receipt.id))
    await app.publish("nobody.listens", {"api_key": SECRET})
    await app.schedules.put("weekly", every("1h"), "ship", {"report": "weekly"})


async def _is_settled(app: Mainspring, dead: int) -> bool:
    tally = {each.group: each for each in (await app.stats.tally()).groups}
    return tally["charge"].dead == dead and len(await app.messages.runs("ship")) == 1


@asynccontextmanager
async def at_work(scene: Scene, name: str = "porter") -> AsyncIterator[None]:
    """A worker that has reported itself."""
    async with scene.app.worker(groups=["ship"], name=name):
        await until(lambda: _is_known(scene, name))
        yield


async def _is_known(scene: Scene, name: str) -> bool:
    return name in {each.name for each in (await scene.app.stats.roster()).workers}


async def until(condition: Any) -> None:
    """Wait until it is so. A test that waits for what never comes ends by its timeout."""
    while not await condition():
        await asyncio.sleep(0.01)


SECRET = "hunter2-is-the-canary"
HEADERS = {"Authorization": f"Bearer {SECRET}", "x-api-key": SECRET, "shop": "berlin"}


def card(number: int) -> dict[str, Any]:
    """A payload with secrets at every depth."""
    return {
        "number": number,
        "card_number": SECRET,
        "customer": {"name": "Ada", "Password": SECRET, "accounts": [{"apiKey": SECRET, "iban": "DE00"}]},
    }


MASK_FREE = {"card_number": "4000"}
