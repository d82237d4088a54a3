"""A shop with a dashboard, served for real: a worker and an HTTP server on a loop of their own."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from typing import Any, ClassVar, Self, TypeVar

from playwright.sync_api import Page
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from mainspring import Context, Done, Fleet, Mainspring, Slice, every, intervals
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.dashboard import Dashboard, FleetDashboard
from mainspring.dashboard.server import Server, address_of, bound
from mainspring.model.errors import BadOption

T = TypeVar("T")

OPERATOR = "operator-token-of-the-tests"
VIEWER = "viewer-token-of-the-tests"


class Broken(Exception):
    """What orders fail with that say so."""


def shop(url: str, **options: Any) -> Mainspring:  # noqa: C901 - one consumer after the other
    """Consumers that succeed, fail and wait as their messages say, schedules, a fan-out, a route, an intake."""
    # What waits for ever is handed back at once when the site closes.
    app = Mainspring(url, name="shop", preset="development", grace="100ms", idle_poll="50ms", **options)

    @app.consumer("orders.placed", retry=intervals(), concurrency=4)
    async def take_order(order: dict[str, Any], ctx: Context) -> Done:
        if "fail" in order:
            raise Broken(order["fail"])
        if "then" in order:
            await ctx.publish("parcels.packed", order["then"])
        return Done(order.get("say", "taken"))

    @app.consumer("parcels.packed")
    async def ship(parcel: dict[str, Any]) -> None:
        del parcel

    @app.consumer("films.rendered")
    async def render(film: dict[str, Any], ctx: Context) -> None:
        ctx.progress(film["say"])
        await asyncio.Event().wait()

    @app.recurring("30 2 * * *", name="nightly", timezone="Europe/Berlin")
    async def nightly(ctx: Context) -> Done:
        return Done("all counted")

    @app.recurring(every("1h"), name="hourly")
    async def hourly() -> None: ...

    @app.fanout("shelves", "count", every="1h", jitter="0s")
    async def shelves() -> AsyncIterator[str]:
        for shard in ("north", "south"):
            yield shard

    @shelves.slices()
    async def count(shelf: Slice) -> None:
        del shelf

    queues = MemoryQueues({"returns": []})
    app.route("carriers.*", to=MemoryBroker(queues), group="send_to_carrier")
    app.intake(MemoryBroker(queues, read="returns"), {"returns": "parcels.returned"})
    return app


class Site:
    """The shop's dashboard at an address, and its loop to do things on."""

    _port: ClassVar[int] = 0

    def __init__(
        self,
        app: Mainspring | None = None,
        *,
        fleet: Fleet | None = None,
        prefix: str = "",
        worker: bool = True,
        **options: Any,
    ) -> None:
        options.setdefault("tokens", {"operator": OPERATOR, "viewer": VIEWER})
        self._dashboard: Dashboard | FleetDashboard
        self._shown: Mainspring | Fleet
        if fleet is not None:
            self._shown, self._dashboard = fleet, FleetDashboard(fleet, **options)
        else:
            assert app is not None, "there is an app or a fleet to show"
            self.app = self._shown = app
            self._dashboard = Dashboard(app, **options)
        self._served: ASGIApp = Starlette(routes=[Mount(prefix, self._dashboard)]) if prefix else self._dashboard
        self._worker = worker
        self._ready = threading.Event()
        self._prefix = prefix
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="site")
        self.loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event

    @property
    def address(self) -> str:
        """Where it is, without a slash at the end."""
        return self.origin + self._prefix

    @property
    def origin(self) -> str:
        """The same without its path."""
        return f"http://{self._at}"

    def __enter__(self) -> Self:
        """Open, and wait until it answers."""
        self._thread.start()
        assert self._ready.wait(30), "the site did not start"
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the site did not end"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the site's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def until(self, holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Wait until something holds of the app."""
        self.do(_until(holds))

    def _listening(self) -> socket.socket:
        """Where the site before this one was, if that is free again: the browser has its scripts already."""
        try:
            found = bound("127.0.0.1", Site._port)
        except BadOption:
            found = bound("127.0.0.1", 0)
        Site._port = found.getsockname()[1]
        return found

    async def _live(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        listening = self._listening()
        self._at = address_of(listening)
        server = Server(self._served, lifespan=False, closing=self._dashboard.end_streams)
        async with self._shown.worker() if self._worker else self._shown:
            async with server.beside(listening):
                while not server.started:
                    await asyncio.sleep(0.01)
                self._ready.set()
                await self._over.wait()
            await self._dashboard.aclose()


def walk(page: Page, path: str) -> None:
    """Open a screen as one of the page's own links does: loading the page again takes several times as long."""
    page.evaluate("path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", path)


async def _until(holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.02)


async def furnish(app: Mainspring) -> None:
    """Something on every screen: done and dead, running and later, a chain, a lease, a window of the fan-out."""
    await app.declare()  # a worker that has only just started may not have told of its schedules yet
    await app.publish("orders.placed", {"order": 1, "then": {"parcel": 1}}, key="order:1", headers={"tenant": "acme"})
    for number in (2, 3):
        await app.publish("orders.placed", {"order": number, "fail": f"no stock for order {number}"})
    await app.publish("orders.placed", {"order": 4, "fail": "the card was declined", "card_number": "4000 1234"})
    await app.publish("orders.placed", {"order": 5}, delay="2h", key="order:5")
    await app.publish("films.rendered", {"say": "page 3 of 24"})
    await app.publish("nobody.listens", {"to": "this"})
    await app.schedules.trigger("nightly", by="tests")
    await app.fanouts.run("shelves", "count", by="tests")
    await app.leases.acquire("price-feed", timedelta(minutes=5))

    async def settled() -> bool:
        tally = await app.stats.tally()
        counts = {each.group: each for each in tally.groups}
        ran = await app.schedules.runs("nightly")
        return counts["take_order"].dead == 3 and counts["render"].running == 1 and bool(ran)

    await _until(settled)
