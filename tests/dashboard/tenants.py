"""A fleet with a dashboard, as the tests of it need one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from mainspring import Fleet, Mainspring, intervals
from mainspring.dashboard import FleetDashboard
from tests.dashboard.scene import OPERATOR, VIEWER, client_of

TOKENS: Any = {"operator": OPERATOR, "viewer": VIEWER}
HOSTILE = "<img src=x onerror=alert(1)>/../é'\"&?#%2F"
"""A name that is all that a URL and a page could misread."""
REFUSING = "postgresql://shop@127.0.0.1:1/none"
FIRST = "acme"
"""It is used before all others, and has the audit of logins."""
Urls = dict[str, str]
Files = Callable[..., Urls]


def shop() -> Mainspring:
    app = Mainspring("fleet://", name="shop")

    @app.consumer("orders.placed", retry=intervals())
    async def ship(order: dict[str, Any]) -> None: ...

    return app


@asynccontextmanager
async def opened(urls: Any, **options: Any) -> AsyncIterator[tuple[Fleet, FleetDashboard]]:
    """A fleet that is open, its databases migrated as far as they can be, and its dashboard."""
    fleet = Fleet(shop(), urls, **options)
    dashboard = FleetDashboard(fleet, tokens=TOKENS)
    async with fleet:
        usable = [name for name in fleet if fleet._members[name].address.engine == "sqlite"]
        await fleet.migrate(databases=usable)
        await fleet.declare(databases=usable)
        yield fleet, dashboard
        await dashboard.aclose()


def at(name: str, path: str) -> str:
    return f"/db/{quote(name, safe='')}{path}"


async def rows(client: Any, **query: Any) -> dict[str, Any]:
    answer = await client.get("/api/databases", params=query)
    assert answer.status_code == 200, answer.text
    return {row["name"]: row for row in answer.json()["rows"]}


def operator(dashboard: Any) -> Any:
    return client_of(dashboard, {"Authorization": f"Bearer {OPERATOR}"})


def viewer(dashboard: Any) -> Any:
    return client_of(dashboard, {"Authorization": f"Bearer {VIEWER}"})


async def paused_by(app: Mainspring, group: str = "ship") -> str | None:
    """Who has paused a group: a database of a fleet has one of the fleet's own, too."""
    [found] = [each for each in await app.groups.list() if each.name == group]
    return found.paused_by


async def written(dashboard: FleetDashboard) -> None:
    """Wait until what was refused is in the audit."""
    if dashboard._access_log._writing:
        await asyncio.wait(dashboard._access_log._writing)
