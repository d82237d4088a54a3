"""A fleet as its overview shows it: many databases that do well, one that is behind, one that is dead."""

from pathlib import Path
from typing import Any

from mainspring import Fleet, Mainspring, intervals

DEAD = "delta-freight"
"""It is on a server that refuses connections."""
BEHIND = "birch-books"
"""It has dead letters, and more to do than it does."""
NAMES = (
    "acme-outdoor", BEHIND, "cedar-foods", DEAD, "elm-studio", "fern-pharma", "gale-energy", "harbor-logistics",
    "iris-optics", "juniper-hotels", "kestrel-air", "linden-labs", "moss-garden", "north-dairy", "oak-furniture",
    "pine-paper", "quartz-mining", "rowan-retail", "sable-cosmetics", "tern-travel", "umber-paints", "vale-vineyards",
)  # fmt: skip


def tenants(folder: Path, *more: str, **options: Any) -> Fleet:
    """A shop with a database for each customer: its consumer fails, succeeds or waits as the message says."""
    app = Mainspring("fleet://", name="shop", grace="100ms", idle_poll="50ms")

    @app.consumer("orders.placed", retry=intervals())
    async def take_order(order: dict[str, Any]) -> None:
        if order["n"] < 0:
            raise ValueError("no stock")

    @app.consumer("parcels.packed")
    async def ship(parcel: dict[str, Any]) -> None:
        del parcel

    urls = {name: f"sqlite:///{folder}/{number}.db" for number, name in enumerate((*NAMES, *more))}
    urls[DEAD] = "postgresql://shop@127.0.0.1:1/delta"
    return Fleet(app, urls, **options)


async def furnish(fleet: Fleet, *, orders: int = 40) -> None:
    """Migrate all but the one that cannot be, and give some of them something to do."""
    names = [name for name in fleet if name != DEAD]
    await fleet.migrate(databases=names)
    await fleet.declare(databases=names)
    await fleet[BEHIND].groups.pause("ship", by="ann", reason="the carrier is down")
    parcels = [("parcels.packed", {"n": n}) for n in range(orders)]
    await fleet.publish_many(parcels, database=BEHIND)
    await fleet.publish_many([("orders.placed", {"n": -1})] * 3, database=BEHIND)
    for number, name in enumerate(names):
        await fleet.publish_many([("orders.placed", {"n": n}) for n in range(number * orders // 10)], database=name)
        await fleet.publish("orders.placed", {"n": 1}, database=name, delay="2h")
